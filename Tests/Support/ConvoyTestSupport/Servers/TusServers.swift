import Foundation

/// tuspyserver from PyPI, a third-party tus server, on a free loopback port.
///
/// The program is in the virtual environment named by the variable CONVOY_TUS_VENV, which `Tests/run` creates.
public final class TusPyServer: Sendable {
    /// The port.
    public let port: UInt16
    /// The process of the program.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    static var python: String? {
        guard let venv = ProcessInfo.processInfo.environment["CONVOY_TUS_VENV"], !venv.isEmpty else { return nil }
        return Spawn.find(venv + "/bin/python")
    }

    /// Whether the virtual environment exists.
    public static var isInstalled: Bool { python != nil }
    /// The installation hint shown for a skipped test.
    public static let installHint =
        "tuspyserver. CONVOY_TUS_VENV names no virtual environment: run Tests/run, or "
        + "python3 -m venv DIR && DIR/bin/pip install tuspyserver uvicorn, and set it to DIR"

    /// Starts the server and returns when it responds.
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

    /// The URL at which uploads are created.
    public var url: URL { URL(string: "http://127.0.0.1:\(port)/files/") ?? URL(fileURLWithPath: "/") }

    /// Returns the bytes of an upload as stored on the server's disk.
    public func stored(_ url: URL?) -> Data? {
        guard let name = url?.lastPathComponent else { return nil }
        return try? Data(contentsOf: directory.file("files").appendingPathComponent(name))
    }

    deinit { stop() }

    /// Stops the process group and removes its directory.
    public func stop() {
        process.stop()
        directory.remove()
    }
}

/// tusd, the reference server of tus, on a free loopback port. Available if it is on the `PATH`.
public final class Tusd: Sendable {
    /// The URL at which uploads are created.
    public let url: URL
    private let process: ChildProcess
    private let directory: TemporaryDirectory

    /// Whether tusd is installed.
    public static var isInstalled: Bool { Spawn.find("tusd") != nil }

    /// Starts the server and returns when it responds.
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

    /// Returns the bytes of an upload as stored on the server's disk.
    public func stored(_ url: URL?) -> Data? {
        guard let name = url?.lastPathComponent.split(separator: "+").first else { return nil }
        return try? Data(contentsOf: directory.url.appendingPathComponent(String(name)))
    }

    deinit { process.stop() }
}
