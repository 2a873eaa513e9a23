import Foundation

/// Debian's squid on a free loopback port, a proxy that requests a user and a password, with its own configuration and
/// directory. It forwards requests to any host, opens tunnels to any port, and caches nothing.
public final class SquidProxy: ProxyServer {
    /// The authentication schemes of the proxy.
    public enum Scheme: String, Sendable, CaseIterable {
        /// Basic, with user and password in plain text.
        case basic
        /// Digest, with MD5 and `qop=auth`.
        case digest
        /// Negotiate, with tickets of a ``KerberosRealm``.
        case negotiate
    }

    /// A user of the proxy, with the password.
    public static let user = "ada", password = "secret"

    /// The port.
    public let port: UInt16
    /// The address "http://localhost:PORT". Kerberos identifies the proxy by this host name.
    public let address: String
    /// The process of the program.
    public let process: ChildProcess
    /// The visible name of the proxy, for example in `Via`. The names of its shared memory files begin with it.
    public let name: String
    private let directory: TemporaryDirectory

    private static let helpers = "/usr/lib/squid"

    /// Whether squid and the required helpers are installed.
    public static var isInstalled: Bool {
        Spawn.find("squid") != nil
            && ["digest_file_auth", "basic_ncsa_auth", "negotiate_kerberos_auth"].allSatisfy {
                Spawn.find("\(helpers)/\($0)") != nil
            }
    }
    /// The installation hint shown for a skipped test.
    public static let installHint = "squid. Debian, Ubuntu: apt-get install squid"

    /// Starts squid and returns when it responds. Takes some tenths of a second.
    ///
    /// - Parameters:
    ///   - schemes: The offered schemes, in this order; empty for a proxy without authentication.
    ///   - realm: The realm of the proxy.
    ///   - users: The passwords of the users, for Basic and Digest.
    ///   - kerberos: The realm whose tickets the proxy accepts.
    /// - Throws: `ProcessError`: `.notInstalled` with the installation command, `.didNotStart` with its messages.
    public init(
        _ schemes: [Scheme] = [.digest, .basic], realm: String = "convoy", users: [String: String] = [user: password],
        kerberos: KerberosRealm? = nil
    ) throws {
        guard Self.isInstalled else { throw ProcessError.notInstalled(Self.installHint) }
        let directory = try TemporaryDirectory(prefix: "convoy-squid")
        self.directory = directory
        try directory.open()
        try directory.write(PasswordFile.basic(users), to: "basic.users")
        try directory.write(Data(users.map { "\($0):\($1)\n" }.joined().utf8), to: "digest.users")
        let name = "convoy" + UUID().uuidString.filter { $0 != "-" }.lowercased().prefix(24)
        self.name = name
        let environment = (kerberos?.environment ?? [:]).merging(["KRB5RCACHENAME": "none:"]) { $1 }
        var output = ""
        for attempt in 0..<8 {
            let port = try LoopbackPort.free()
            let lines =
                Self.general(port: port, name: name, directory: directory.url)
                + schemes.flatMap { Self.parameters($0, realm: realm, directory: directory.url, kerberos: kerberos) }
                + (schemes.isEmpty
                    ? ["http_access allow all"]
                    : ["acl known proxy_auth REQUIRED", "http_access allow known", "http_access deny all"])
            try directory.write(Data((lines.joined(separator: "\n") + "\n").utf8), to: "squid.conf")
            let process = try ChildProcess(
                "squid", ["-N", "-n", name, "-d", "1", "-f", directory.file("squid.conf").path],
                environment: environment, directory: directory.url, log: directory.file("output-\(attempt).log"))
            let isReady = process.becomesReady(within: 20) {
                let answer = try? RawClient(port: port, timeout: 1).exchange("GET", "http://localhost/")
                return (schemes.isEmpty || answer?.status == 407) && answer?["X-Cache"]?.contains(name) == true
            }
            if isReady {
                (self.port, self.process, address) = (port, process, "http://localhost:\(port)")
                return
            }
            process.stop(grace: 0.2)
            Self.removeMemory(of: name)
            output = process.output
            guard output.contains("Address already in use") else { break }
        }
        throw ProcessError.didNotStart("squid: \(output)")
    }

    deinit { stop() }

    /// Stops this proxy and its helpers, waits for its end, and removes its directory.
    public func stop() {
        // A graceful shutdown would take seconds, and there is nothing to save.
        process.stop(grace: 0)
        Self.removeMemory(of: name)
        directory.remove()
    }

    /// Removes the shared memory files that a killed squid leaves behind.
    private static func removeMemory(of name: String) {
        // Remove files of this squid only, and none for an empty name, because other programs also have files there.
        guard name.hasPrefix("convoy"), name.utf8.count > 20 else { return }
        let folder = "/dev/shm"
        for file in ["metadata", "queues", "readers"] { unlink("\(folder)/\(name)-cf__\(file).shm") }
    }

    private static func general(port: UInt16, name: String, directory: URL) -> [String] {
        [
            "http_port 127.0.0.1:\(port)", "visible_hostname \(name)", "pid_filename none", "access_log none",
            "cache_log /dev/null", "logfile_rotate 0", "coredump_dir \(directory.path)", "cache deny all",
            "cache_mem 4 MB", "max_filedescriptors 1024", "pinger_enable off", "shutdown_lifetime 0 seconds",
        ]
    }

    private static func parameters(
        _ scheme: Scheme, realm: String, directory: URL, kerberos: KerberosRealm?
    ) -> [String] {
        let users = directory.appendingPathComponent("\(scheme).users").path
        let program =
            switch scheme {
            case .basic: "basic_ncsa_auth \(users)"
            case .digest: "digest_file_auth \(users)"
            case .negotiate: "negotiate_kerberos_auth -k \(kerberos?.keytab.path ?? "/none") -s HTTP/localhost"
            }
        return [
            "auth_param \(scheme) program \(helpers)/\(program)",
            "auth_param \(scheme) children 2 startup=1",
            scheme == .negotiate ? "auth_param negotiate keep_alive on" : "auth_param \(scheme) realm \(realm)",
        ]
    }
}
