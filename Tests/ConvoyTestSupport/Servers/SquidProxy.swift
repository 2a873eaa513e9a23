import Foundation

/// Debian's squid on a free loopback port, a proxy that asks for user and password, with a configuration and a directory
/// of its own. It forwards to everywhere, by CONNECT to every port, and keeps nothing.
public final class SquidProxy: ProxyServer {
    /// How it asks who its user is.
    public enum Scheme: String, Sendable, CaseIterable {
        /// User and password as they are.
        case basic
        /// A hash by MD5, with `qop=auth`.
        case digest
        /// Tickets of a ``KerberosRealm``.
        case negotiate
    }

    /// A user of the proxy, and the user's password.
    public static let user = "ada", password = "secret"

    /// The port.
    public let port: UInt16
    /// "http://localhost:PORT". By this name, as Kerberos knows the proxy by it.
    public let address: String
    /// The program.
    public let process: ChildProcess
    /// What it calls itself, for instance in `Via`. The names of the shared memory that it makes begin with it.
    public let name: String
    private let directory: TemporaryDirectory

    private static let helpers = "/usr/lib/squid"

    /// Whether squid is installed, with the helpers that it needs.
    public static var isInstalled: Bool {
        Spawn.find("squid") != nil
            && ["digest_file_auth", "basic_ncsa_auth", "negotiate_kerberos_auth"].allSatisfy {
                Spawn.find("\(helpers)/\($0)") != nil
            }
    }
    /// For the reason of a skipped test.
    public static let installHint = "squid. Debian, Ubuntu: apt-get install squid"

    /// Starts squid and returns when it answers. Takes some tenths of a second.
    ///
    /// - Parameters:
    ///   - schemes: what it offers, in this order; none for a proxy without authentication.
    ///   - realm: what it calls itself.
    ///   - users: the passwords of its users, for Basic and Digest.
    ///   - kerberos: whose tickets it takes.
    /// - Throws: `ProcessError`: `.notInstalled` with the line that installs it, `.didNotStart` with its messages.
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

    /// Ends exactly this proxy with its helpers, waits for it, and removes its directory.
    public func stop() {
        // It would take seconds to end in order, and has nothing to save.
        process.stop(grace: 0)
        Self.removeMemory(of: name)
        directory.remove()
    }

    /// Removes what squid leaves when it is killed.
    private static func removeMemory(of name: String) {
        // Of this squid only, and not if the name were ever empty: other programs have their memory here too.
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
