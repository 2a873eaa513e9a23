import Foundation

/// httpbin from PyPI, under gunicorn, on a free loopback port.
///
/// The program is in the virtual environment named by the variable CONVOY_HTTPBIN_VENV, which `Tests/run` creates.
public final class Httpbin: Sendable {
    /// The URL "http://127.0.0.1:PORT".
    public let url: URL
    /// The port.
    public let port: UInt16
    /// The process of gunicorn's arbiter, with its worker in the same process group.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    /// The Python of the virtual environment; nil if it does not exist.
    public static var python: String? {
        guard let venv = ProcessInfo.processInfo.environment["CONVOY_HTTPBIN_VENV"], !venv.isEmpty else { return nil }
        return Spawn.find(venv + "/bin/python")
    }

    /// Whether the virtual environment exists.
    public static var isInstalled: Bool { python != nil }
    /// The installation hint shown for a skipped test.
    public static let installHint =
        "httpbin. CONVOY_HTTPBIN_VENV names no virtual environment: run Tests/run, or "
        + "python3 -m venv DIR && DIR/bin/pip install httpbin gunicorn, and set it to DIR"

    /// Starts the server and returns when it responds. Takes about a second.
    ///
    /// - Throws: `ProcessError`.
    public init() throws {
        guard let python = Self.python else { throw ProcessError.notInstalled(Self.installHint) }
        directory = try TemporaryDirectory(prefix: "convoy-httpbin")
        // Pass on an open socket, so that no other program can take the port in the meantime.
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

    /// Stops the process group, waits for its end, and removes its directory.
    public func stop() {
        process.stop()
        directory.remove()
    }
}
