import Foundation

/// `openssl s_server` on a free loopback port: a plain TLS server that serves connections sequentially.
public final class OpenSSLServer: Sendable {
    /// The content of the server's responses.
    public enum Content: Sendable {
        /// A page about the connection ("-www").
        case status
        /// The files of a directory, with a header ("-WWW").
        case files(URL)
        /// The files of a directory, which contain the whole HTTP response ("-HTTP").
        case responses(URL)
    }

    /// The only TLS version that the server supports.
    public enum Version: String, Sendable, CaseIterable {
        /// TLS 1.2.
        case tls12 = "-tls1_2"
        /// TLS 1.3.
        case tls13 = "-tls1_3"
        /// TLS 1.1, which a client should refuse. The cipher level is lowered as OpenSSL 3 requires for it.
        case tls11 = "-tls1_1"
    }

    /// Whether the program is installed.
    public static var isInstalled: Bool { Spawn.find("openssl") != nil }
    /// The installation hint shown for a skipped test.
    public static let installHint = "openssl. Debian, Ubuntu: apt-get install openssl"

    /// The port.
    public let port: UInt16
    /// The URL "https://localhost:PORT".
    public let url: URL
    /// The authority that a client must trust, and the other certificates of this run.
    public let certificates: TestCertificates
    /// The process of the program.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    /// Starts the program and returns when it accepts connections.
    ///
    /// - Parameters:
    ///   - content: The content of the responses.
    ///   - version: The only TLS version; nil for OpenSSL's default.
    ///   - requiresClientCertificate: Whether a client must present a certificate of the run's authority.
    ///   - arguments: Additional arguments of s_server.
    /// - Throws: `ProcessError`.
    public init(
        _ content: Content = .status, version: Version? = nil, requiresClientCertificate: Bool = false,
        arguments: [String] = []
    ) throws {
        directory = try TemporaryDirectory(prefix: "convoy-openssl")
        certificates = try TestCertificates(in: directory.url)
        var options = [
            "s_server", "-cert", certificates.serverCertificate.path, "-key", certificates.serverKey.path,
        ]
        var root = directory.url
        switch content {
        case .status: options.append("-www")
        case .files(let url): options.append("-WWW"); root = url
        case .responses(let url): options.append("-HTTP"); root = url
        }
        if let version { options.append(version.rawValue) }
        if version == .tls11 { options += ["-cipher", "ALL:@SECLEVEL=0"] }
        if requiresClientCertificate {
            options += ["-Verify", "1", "-verify_return_error", "-CAfile", certificates.certificateAuthority.path]
        }
        options += arguments
        var output = ""
        for attempt in 0..<8 {
            let port = try LoopbackPort.free()
            let process = try ChildProcess(
                "openssl", options + ["-accept", "127.0.0.1:\(port)"], directory: root,
                log: directory.file("output-\(attempt).log"))
            let isReady = process.becomesReady(within: 10) { process.output.contains("ACCEPT") }
            if isReady, let url = URL(string: "https://localhost:\(port)") {
                (self.port, self.url, self.process) = (port, url, process)
                return
            }
            process.stop(grace: 0.2)
            output = process.output
            guard output.contains("in use") else { break }
        }
        throw ProcessError.didNotStart("openssl s_server: \(output)")
    }

    deinit {
        stop()
    }

    /// Stops this server, waits for its end, and removes its directory.
    public func stop() {
        process.stop(grace: 0.5)
        directory.remove()
    }
}
