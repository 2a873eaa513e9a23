import Foundation

/// A server or a proxy on a free loopback port that asks for NTLM, which authenticates a connection and not a request.
///
/// As a server it answers every request with a line such as "GET /path by ada with 0 bytes", and with the number of the
/// connection as `X-Connection`. As a proxy it forwards requests, and by CONNECT whatever comes.
///
/// It is a program in Python, with pyspnego from PyPI, in the virtual environment whose directory the variable
/// CONVOY_HTTPBIN_VENV names; `Tests/run` makes it.
public final class NTLMServer: Sendable {
    /// Who asks.
    public enum Role: String, Sendable {
        case origin, proxy
    }

    /// The user, and the user's password. The domain is empty.
    public static let user = "ada", password = "secret"

    /// "http://127.0.0.1:PORT", also as the address of a proxy.
    public let url: URL
    /// The port.
    public let port: UInt16
    /// The program. In its output is why an authentication failed.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    /// The python of the virtual environment, or nil if pyspnego is not installed.
    private static let python: String? = {
        guard let venv = ProcessInfo.processInfo.environment["CONVOY_HTTPBIN_VENV"], !venv.isEmpty,
            let python = Spawn.find(venv + "/bin/python"),
            (try? ProcessRunner.run(python, ["-c", "import spnego"]))?.status == 0
        else { return nil }
        return python
    }()

    /// Whether pyspnego is installed.
    public static var isInstalled: Bool { python != nil }
    /// For the reason of a skipped test.
    public static let installHint =
        "pyspnego. CONVOY_HTTPBIN_VENV names no virtual environment with it: run Tests/run, or "
        + "python3 -m venv DIR && DIR/bin/pip install pyspnego, and set it to DIR"

    /// Starts it and returns when it answers. Takes some tenths of a second.
    ///
    /// - Throws: `ProcessError`.
    public init(_ role: Role = .origin) throws {
        guard let python = Self.python else { throw ProcessError.notInstalled(Self.installHint) }
        directory = try TemporaryDirectory(prefix: "convoy-ntlm")
        let script = try directory.write(Data(NTLMServerScript.text.utf8), to: "ntlm.py")
        let users = try directory.write(Data(":\(Self.user):\(Self.password)\n".utf8), to: "users")
        // The socket is opened here and passed on, so that no other program can take the port in between.
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

    /// Ends exactly this server, waits for it, and removes its directory.
    public func stop() {
        process.stop(grace: 0)
        directory.remove()
    }
}
