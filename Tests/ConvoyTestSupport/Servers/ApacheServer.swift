import Foundation

/// Debian's apache2 on free loopback ports, which asks for user and password, with a configuration and a directory of its
/// own.
///
/// | path | what |
/// |---|---|
/// | `/small` | 11 bytes, "hello world", for all users |
/// | `/basic/small` | the same, by Basic |
/// | `/digest/small` | the same, by Digest: MD5 and `qop=auth`, with `Authentication-Info` |
/// | `/negotiate/small` | the same, by Kerberos, if there is a ``KerberosRealm`` |
///
/// In all of these folders files of other names can be written with PUT and removed with DELETE.
///
/// All of it under `url` (HTTP/1.1), and under `secureURL` (HTTP/2 and HTTP/1.1 by ALPN).
public final class ApacheServer: Sendable {
    /// A user of every server here, and the user's password.
    public static let user = "ada", password = "secret"

    /// "http://localhost:PORT". By this name, as Kerberos knows the server by it.
    public let url: URL
    /// "https://localhost:PORT".
    public let secureURL: URL
    /// The port of `url`.
    public let port: UInt16
    /// The program.
    public let process: ChildProcess
    /// The authority that a client of `secureURL` has to trust.
    public var certificateAuthority: URL { certificates.certificateAuthority }
    private let certificates: TestCertificates
    private let directory: TemporaryDirectory

    /// Whether apache2 is installed, with the modules that it needs.
    public static var isInstalled: Bool {
        Spawn.find("apache2") != nil && ApacheConfiguration.required.allSatisfy { ApacheConfiguration.hasModule($0) }
    }
    /// Whether it can ask for Kerberos as well.
    public static var hasNegotiate: Bool { isInstalled && ApacheConfiguration.hasModule("auth_gssapi") }
    /// For the reason of a skipped test.
    public static let installHint = "apache2. Debian, Ubuntu: apt-get install apache2 libapache2-mod-auth-gssapi"

    /// Starts apache2 and returns when it answers. Takes some tenths of a second.
    ///
    /// - Parameters:
    ///   - realm: the name of what is protected.
    ///   - users: the passwords of its users, for Basic and Digest.
    ///   - nonceLifetime: how many seconds a nonce of Digest is good; 0 for once only.
    ///   - kerberos: whose tickets it takes.
    /// - Throws: `ProcessError`: `.notInstalled` with the line that installs it, `.didNotStart` with its messages.
    public init(
        realm: String = "convoy", users: [String: String] = [user: password], nonceLifetime: Int = 300,
        kerberos: KerberosRealm? = nil
    ) throws {
        guard Self.isInstalled, kerberos == nil || Self.hasNegotiate else {
            throw ProcessError.notInstalled(Self.installHint)
        }
        let token = UUID().uuidString
        directory = try Self.makeDirectory(realm: realm, users: users, token: token)
        certificates = try TestCertificates(in: directory.url)
        // Each ticket would be written down otherwise, in a file of the whole machine.
        let environment = (kerberos?.environment ?? [:]).merging(["KRB5RCACHENAME": "none:"]) { $1 }
        var output = ""
        for attempt in 0..<8 {
            let ports = try LoopbackPort.freePair()
            let configuration = ApacheConfiguration(
                directory: directory.url, port: ports.0, securePort: ports.1, certificates: certificates, realm: realm,
                nonceLifetime: nonceLifetime, keytab: kerberos?.keytab)
            try directory.write(Data(configuration.text.utf8), to: "apache2.conf")
            let process = try ChildProcess(
                "apache2", ["-D", "FOREGROUND", "-f", directory.file("apache2.conf").path], environment: environment,
                directory: directory.url, log: directory.file("output-\(attempt).log"))
            let isReady = process.becomesReady(within: 20) {
                (try? RawClient(port: ports.0, timeout: 1).exchange("GET", "/instance").text) == token
            }
            if isReady, let url = URL(string: "http://localhost:\(ports.0)"),
                let secureURL = URL(string: "https://localhost:\(ports.1)")
            {
                (port, self.process, self.url, self.secureURL) = (ports.0, process, url, secureURL)
                return
            }
            process.stop(grace: 0.2)
            let log = try? String(contentsOf: directory.file("error.log"), encoding: .utf8)
            output = process.output + (log ?? "")
            guard output.contains("Address already in use") else { break }
        }
        throw ProcessError.didNotStart("apache2: \(output)")
    }

    deinit { stop() }

    /// Puts a file into the directory that all users may read.
    public func add(_ data: Data, as name: String) throws { try directory.write(data, to: "files/\(name)") }

    /// Returns the URL of a path.
    public func url(_ path: String) -> URL { url.appendingPathComponent(path) }

    /// The contents of its log.
    public var log: String { (try? String(contentsOf: directory.file("error.log"), encoding: .utf8)) ?? "" }

    /// Ends exactly this server, waits for it, and removes its directory.
    public func stop() {
        process.stop()
        directory.remove()
    }

    private static func makeDirectory(realm: String, users: [String: String], token: String) throws -> TemporaryDirectory {
        let directory = try TemporaryDirectory(prefix: "convoy-apache")
        try directory.open()
        for folder in ["files", "files/basic", "files/digest", "files/negotiate"] {
            try directory.write(Data("hello world".utf8), to: "\(folder)/small")
        }
        try directory.write(Data(token.utf8), to: "files/instance")
        try FileManager.default.createDirectory(at: directory.file("locks"), withIntermediateDirectories: true)
        // As the user that serves may write there.
        for folder in ["locks", "files", "files/basic", "files/digest", "files/negotiate"] {
            try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: directory.file(folder).path)
        }
        try directory.write(PasswordFile.basic(users), to: "basic.users")
        try directory.write(PasswordFile.digest(users, realm: realm), to: "digest.users")
        return directory
    }
}
