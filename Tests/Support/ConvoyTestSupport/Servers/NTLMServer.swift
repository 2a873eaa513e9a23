import Foundation

/// A server or a proxy on a free loopback port that requests NTLM, which authenticates a connection rather than a
/// request.
///
/// As a server, it responds to every request with a line such as "GET /path by ada with 0 bytes", and with the number
/// of the connection as `X-Connection`. As a proxy, it forwards requests, and any bytes after CONNECT.
///
/// The program is written in Python and uses pyspnego from PyPI, in the virtual environment named by the variable
/// CONVOY_HTTPBIN_VENV, which `Tests/run` creates.
public final class NTLMServer: Sendable {
    /// The side that requests authentication.
    public enum Role: String, Sendable {
        case origin, proxy
    }

    /// The user and the password. The domain is empty.
    public static let user = "ada", password = "secret"

    /// The URL "http://127.0.0.1:PORT", which is also the address of a proxy.
    public let url: URL
    /// The port.
    public let port: UInt16
    /// The process, whose output contains the reasons for failed authentications.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    /// The Python of the virtual environment; nil if pyspnego is not installed.
    private static let python: String? = {
        guard let venv = ProcessInfo.processInfo.environment["CONVOY_HTTPBIN_VENV"], !venv.isEmpty,
            let python = Spawn.find(venv + "/bin/python"),
            (try? ProcessRunner.run(python, ["-c", "import spnego"]))?.status == 0
        else { return nil }
        return python
    }()

    /// Whether pyspnego is installed.
    public static var isInstalled: Bool { python != nil }
    /// The installation hint shown for a skipped test.
    public static let installHint =
        "pyspnego. CONVOY_HTTPBIN_VENV names no virtual environment with it: run Tests/run, or "
        + "python3 -m venv DIR && DIR/bin/pip install pyspnego, and set it to DIR"

    /// Starts the server and returns when it responds. Takes some tenths of a second.
    ///
    /// - Throws: `ProcessError`.
    public init(_ role: Role = .origin) throws {
        guard let python = Self.python else { throw ProcessError.notInstalled(Self.installHint) }
        directory = try TemporaryDirectory(prefix: "convoy-ntlm")
        let script = try directory.write(Data(NTLMServerScript.text.utf8), to: "ntlm.py")
        let users = try directory.write(Data(":\(Self.user):\(Self.password)\n".utf8), to: "users")
        // Pass on an open socket, so that no other program can take the port in the meantime.
        let (listener, port) = try LoopbackPort.listener()
        defer { close(listener) }
        process = try ChildProcess(
            python, [script.path, role.rawValue],
            environment: ["NTLM_USER_FILE": users.path, "PYTHONDONTWRITEBYTECODE": "1"], directory: directory.url,
            log: directory.file("output.log"), descriptors: [listener])
        self.port = port
        guard let url = URL(string: "http://127.0.0.1:\(port)") else { throw ProcessError.didNotStart("bad URL") }
        self.url = url
        let status = role == .origin ? 401 : 407
        let isReady = process.becomesReady(within: 30) {
            let answer = try? RawClient(port: port, timeout: 10).exchange("GET", "/", headers: ["Connection: close"])
            return answer?.status == status
        }
        if isReady { return }
        let output = process.output
        process.stop()
        throw ProcessError.didNotStart("pyspnego: \(output)")
    }

    deinit { stop() }

    /// Stops this server, waits for its end, and removes its directory.
    public func stop() {
        process.stop(grace: 0)
        directory.remove()
    }
}
