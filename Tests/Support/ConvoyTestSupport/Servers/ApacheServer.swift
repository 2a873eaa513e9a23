import Foundation

/// Debian's apache2 on free loopback ports, with its own configuration and directory. It requests a user and a
/// password.
///
/// | path | response |
/// |---|---|
/// | `/small` | 11 bytes, "hello world", for all users |
/// | `/basic/small` | the same, by Basic |
/// | `/digest/small` | the same, by Digest: MD5 and `qop=auth`, with `Authentication-Info` |
/// | `/negotiate/small` | the same, by Kerberos, if a ``KerberosRealm`` is given |
///
/// Other files can be written to all of these folders with PUT and removed with DELETE.
///
/// All paths exist under `url` (HTTP/1.1) and under `secureURL` (HTTP/2 and HTTP/1.1 by ALPN).
public final class ApacheServer: Sendable {
    /// A user that every server accepts, with the password.
    public static let user = "ada", password = "secret"

    /// The URL "http://localhost:PORT". Kerberos identifies the server by this host name.
    public let url: URL
    /// The URL "https://localhost:PORT".
    public let secureURL: URL
    /// The port of `url`.
    public let port: UInt16
    /// The process of the program.
    public let process: ChildProcess
    /// The authority that a client of `secureURL` must trust.
    public var certificateAuthority: URL { certificates.certificateAuthority }
    private let certificates: TestCertificates
    private let directory: TemporaryDirectory

    /// Whether apache2 and the required modules are installed.
    public static var isInstalled: Bool {
        Spawn.find("apache2") != nil && ApacheConfiguration.required.allSatisfy { ApacheConfiguration.hasModule($0) }
    }
    /// Whether the server also supports Kerberos.
    public static var hasNegotiate: Bool { isInstalled && ApacheConfiguration.hasModule("auth_gssapi") }
    /// The installation hint shown for a skipped test.
    public static let installHint = "apache2. Debian, Ubuntu: apt-get install apache2 libapache2-mod-auth-gssapi"

    /// Starts apache2 and returns when it responds. Takes some tenths of a second.
    ///
    /// - Parameters:
    ///   - realm: The realm of the protected resources.
    ///   - users: The passwords of the users, for Basic and Digest.
    ///   - nonceLifetime: The lifetime of a Digest nonce, in seconds; 0 for nonces that can be used once.
    ///   - kerberos: The realm whose tickets the server accepts.
    /// - Throws: `ProcessError`: `.notInstalled` with the installation command, `.didNotStart` with its messages.
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
        // Do not store each ticket in a file that is shared by the entire machine.
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

    /// Adds a file to the directory that all users may read.
    public func add(_ data: Data, as name: String) throws { try directory.write(data, to: "files/\(name)") }

    /// Returns the URL of a path.
    public func url(_ path: String) -> URL { url.appendingPathComponent(path) }

    /// The contents of the error log.
    public var log: String { (try? String(contentsOf: directory.file("error.log"), encoding: .utf8)) ?? "" }

    /// Stops this server, waits for its end, and removes its directory.
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
        // Let the user that serves requests write to these folders.
        for folder in ["locks", "files", "files/basic", "files/digest", "files/negotiate"] {
            try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: directory.file(folder).path)
        }
        try directory.write(PasswordFile.basic(users), to: "basic.users")
        try directory.write(PasswordFile.digest(users, realm: realm), to: "digest.users")
        return directory
    }
}
