import Foundation

/// tuspyserver from PyPI, a tus server of others, on a free loopback port.
///
/// It comes from the virtual environment whose directory the variable CONVOY_TUS_VENV names; `Tests/run` makes it.
public final class TusPyServer: Sendable {
    /// The port.
    public let port: UInt16
    /// The program.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    static var python: String? {
        guard let venv = ProcessInfo.processInfo.environment["CONVOY_TUS_VENV"], !venv.isEmpty else { return nil }
        return Spawn.find(venv + "/bin/python")
    }

    /// Whether the virtual environment exists.
    public static var isInstalled: Bool { python != nil }
    /// For the reason of a skipped test.
    public static let installHint =
        "tuspyserver. CONVOY_TUS_VENV names no virtual environment: run Tests/run, or "
        + "python3 -m venv DIR && DIR/bin/pip install tuspyserver uvicorn, and set it to DIR"

    /// Starts it and returns when it answers.
    ///
    /// - Throws: `ProcessError`.
    public init() throws {
        guard let python = Self.python else { throw ProcessError.notInstalled(Self.installHint) }
        directory = try TemporaryDirectory(prefix: "convoy-tus")
        let (listener, port) = try LoopbackPort.listener()
        defer { close(listener) }
        self.port = port
        let script = """
            import socket, uvicorn
            from fastapi import FastAPI
            from tuspyserver import create_tus_router
            app = FastAPI()
            app.include_router(create_tus_router(prefix="files", files_dir="\(directory.url.path)/files"))
            uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[socket.socket(fileno=3)])
            """
        process = try ChildProcess(
            python, ["-c", script], environment: ["PYTHONDONTWRITEBYTECODE": "1"], directory: directory.url,
            log: directory.file("output.log"), descriptors: [listener])
        let isReady = process.becomesReady(within: 60) {
            let answer = try? RawClient(port: port, timeout: 20).exchange(
                "OPTIONS", "/files/", headers: ["Connection: close", "Content-Length: 0"])
            return answer?.status == 204
        }
        if isReady { return }
        let output = process.output
        process.stop()
        throw ProcessError.didNotStart("tuspyserver: \(output)")
    }

    /// Where uploads are created.
    public var url: URL { URL(string: "http://127.0.0.1:\(port)/files/") ?? URL(fileURLWithPath: "/") }

    /// The bytes of an upload, as they are on its disk.
    public func stored(_ url: URL?) -> Data? {
        guard let name = url?.lastPathComponent else { return nil }
        return try? Data(contentsOf: directory.file("files").appendingPathComponent(name))
    }

    deinit { stop() }

    /// Ends its process group, and removes its directory.
    public func stop() {
        process.stop()
        directory.remove()
    }
}

/// tusd, the reference server of tus, where it is on the `PATH`, on a free loopback port.
public final class Tusd: Sendable {
    /// Where uploads are created.
    public let url: URL
    private let process: ChildProcess
    private let directory: TemporaryDirectory

    /// Whether there is one.
    public static var isInstalled: Bool { Spawn.find("tusd") != nil }

    /// Starts it and returns when it answers.
    ///
    /// - Throws: `ProcessError`.
    public init() throws {
        directory = try TemporaryDirectory(prefix: "convoy-tusd")
        let port = try LoopbackPort.free()
        process = try ChildProcess(
            "tusd", ["-host", "127.0.0.1", "-port", "\(port)", "-upload-dir", directory.url.path, "-base-path", "/files/"],
            directory: directory.url, log: directory.file("log"))
        guard let url = URL(string: "http://127.0.0.1:\(port)/files/") else { throw ProcessError.didNotStart("bad URL") }
        self.url = url
        let isReady = process.becomesReady(within: 20) {
            (try? RawClient(port: port, timeout: 5).exchange("OPTIONS", "/files/", headers: ["Connection: close"])) != nil
        }
        guard isReady else { throw ProcessError.didNotStart("tusd: \(process.output)") }
    }

    /// The bytes of an upload, as they are on its disk.
    public func stored(_ url: URL?) -> Data? {
        guard let name = url?.lastPathComponent.split(separator: "+").first else { return nil }
        return try? Data(contentsOf: directory.url.appendingPathComponent(String(name)))
    }

    deinit { process.stop() }
}
