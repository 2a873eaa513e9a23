import Foundation

/// moto from PyPI, which emulates S3 in memory, on a free loopback port.
///
/// The program is in the virtual environment named by the variable CONVOY_MOTO_VENV, which `Tests/run` creates.
public final class Moto: Sendable {
    /// The URL "http://127.0.0.1:PORT".
    public let url: URL
    /// The port.
    public let port: UInt16
    /// The process of the program.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    /// The Python of the virtual environment, which also contains botocore; nil if it does not exist.
    public static var python: String? {
        guard let venv = ProcessInfo.processInfo.environment["CONVOY_MOTO_VENV"], !venv.isEmpty else { return nil }
        return Spawn.find(venv + "/bin/python")
    }

    /// Whether the virtual environment exists.
    public static var isInstalled: Bool { python != nil }
    /// The installation hint shown for a skipped test.
    public static let installHint =
        "moto. CONVOY_MOTO_VENV names no virtual environment: run Tests/run, or "
        + "python3 -m venv DIR && DIR/bin/pip install 'moto[server,s3]', and set it to DIR"

    /// Starts the server and returns when it responds. Takes a few seconds.
    ///
    /// - Throws: `ProcessError`.
    public init() throws {
        guard let python = Self.python else { throw ProcessError.notInstalled(Self.installHint) }
        directory = try TemporaryDirectory(prefix: "convoy-moto")
        // Pass on an open socket, so that no other program can take the port in the meantime.
        let (listener, port) = try LoopbackPort.listener()
        defer { close(listener) }
        let script = """
            from moto.server import DomainDispatcherApplication, create_backend_app
            from werkzeug.serving import make_server
            application = DomainDispatcherApplication(create_backend_app)
            make_server("127.0.0.1", \(port), application, threaded=True, fd=3).serve_forever()
            """
        process = try ChildProcess(
            python, ["-c", script], environment: ["PYTHONDONTWRITEBYTECODE": "1"], directory: directory.url,
            log: directory.file("output.log"), descriptors: [listener])
        self.port = port
        guard let url = URL(string: "http://127.0.0.1:\(port)") else { throw ProcessError.didNotStart("bad URL") }
        self.url = url
        let isReady = process.becomesReady(within: 60) {
            let answer = try? RawClient(port: port, timeout: 20).exchange(
                "GET", "/moto-api/data.json", headers: ["Connection: close"])
            return answer?.status == 200
        }
        if isReady { return }
        let output = process.output
        process.stop()
        throw ProcessError.didNotStart("moto: \(output)")
    }

    /// Creates a bucket.
    public func makeBucket(_ name: String) throws {
        let answer = try RawClient(port: port, timeout: 20).exchange(
            "PUT", "/\(name)", headers: ["Connection: close", "Content-Length: 0"])
        guard answer.status == 200 else { throw ProcessError.didNotStart("moto: \(answer.status) for a bucket") }
    }

    deinit {
        stop()
    }

    /// Stops the process group, waits for its end, and removes its directory.
    public func stop() {
        process.stop()
        directory.remove()
    }
}
