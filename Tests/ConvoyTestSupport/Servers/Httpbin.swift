import Foundation

/// httpbin from PyPI, under gunicorn, on a free loopback port.
///
/// It comes from the virtual environment whose directory the variable CONVOY_HTTPBIN_VENV names; `Tests/run` makes it.
public final class Httpbin: Sendable {
    /// "http://127.0.0.1:PORT".
    public let url: URL
    /// The port.
    public let port: UInt16
    /// The program: gunicorn's arbiter, with its worker in the same process group.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    /// The python of the virtual environment, or nil with none.
    public static var python: String? {
        guard let venv = ProcessInfo.processInfo.environment["CONVOY_HTTPBIN_VENV"], !venv.isEmpty else { return nil }
        return Spawn.find(venv + "/bin/python")
    }

    /// Whether the virtual environment exists.
    public static var isInstalled: Bool { python != nil }
    /// For the reason of a skipped test.
    public static let installHint =
        "httpbin. CONVOY_HTTPBIN_VENV names no virtual environment: run Tests/run, or "
        + "python3 -m venv DIR && DIR/bin/pip install httpbin gunicorn, and set it to DIR"

    /// Starts it and returns when it answers. Takes about a second.
    ///
    /// - Throws: `ProcessError`.
    public init() throws {
        guard let python = Self.python else { throw ProcessError.notInstalled(Self.installHint) }
        directory = try TemporaryDirectory(prefix: "convoy-httpbin")
        // The socket is opened here and passed on, so that no other program can take the port in between.
        let (listener, port) = try LoopbackPort.listener()
        defer { close(listener) }
        process = try ChildProcess(
            python,
            [
                "-m", "gunicorn", "--bind", "fd://3", "--workers", "1", "--worker-class", "gthread", "--threads", "8",
                "--worker-tmp-dir", directory.url.path, "--graceful-timeout", "1", "httpbin:app",
            ],
            environment: ["PYTHONDONTWRITEBYTECODE": "1"], directory: directory.url, log: directory.file("output.log"),
            descriptors: [listener])
        self.port = port
        guard let url = URL(string: "http://127.0.0.1:\(port)") else { throw ProcessError.didNotStart("bad URL") }
        self.url = url
        let isReady = process.becomesReady(within: 30) {
            let answer = try? RawClient(port: port, timeout: 10).exchange("GET", "/get", headers: ["Connection: close"])
            return answer?.status == 200
        }
        if isReady { return }
        let output = process.output
        process.stop()
        throw ProcessError.didNotStart("httpbin: \(output)")
    }

    deinit {
        stop()
    }

    /// Ends its process group, waits for it, and removes its directory.
    public func stop() {
        process.stop()
        directory.remove()
    }
}
