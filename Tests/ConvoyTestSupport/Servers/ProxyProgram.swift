import Foundation

/// A proxy of Debian's on a free loopback port, with a configuration and a directory of its own.
public final class ProxyProgram: Sendable {
    /// Which one.
    public enum Kind: String, Sendable, CaseIterable {
        /// An HTTP proxy.
        case squid
        /// SOCKS 5.
        case microsocks
        /// SOCKS 5 and 4.
        case danted

        /// Whether it is installed.
        public var isInstalled: Bool { Spawn.find(rawValue) != nil && (self != .squid || Self.helper != nil) }

        /// For the reason of a skipped test.
        public var installHint: String {
            let package = self == .danted ? "dante-server" : rawValue
            return "\(rawValue). Debian, Ubuntu: apt-get install \(package)"
        }

        /// Squid's program that compares passwords with a file.
        static let helper = Spawn.find("/usr/lib/squid/basic_ncsa_auth")
    }

    /// The port.
    public let port: UInt16
    /// The program.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    /// Starts it and returns when it accepts connections.
    ///
    /// - Parameters:
    ///   - kind: which one.
    ///   - user: whom alone it serves, with `password`; nil for everybody. Danted takes no user here.
    ///   - password: of the user.
    /// - Throws: `ProcessError`: `.notInstalled` with the line that installs it, `.didNotStart` with its messages.
    public init(_ kind: Kind, user: String? = nil, password: String = "") throws {
        guard kind.isInstalled else { throw ProcessError.notInstalled(kind.installHint) }
        directory = try TemporaryDirectory(prefix: "convoy-\(kind.rawValue)")
        var output = ""
        for attempt in 0..<8 {
            let port = try LoopbackPort.free()
            let arguments: [String]
            switch kind {
            case .microsocks:
                arguments = ["-i", "127.0.0.1", "-p", "\(port)"] + (user.map { ["-u", $0, "-P", password] } ?? [])
            case .danted:
                try directory.write(Data(Self.danteConfiguration(port).utf8), to: "danted.conf")
                arguments = ["-f", directory.file("danted.conf").path, "-p", directory.file("danted.pid").path]
            case .squid:
                if let user { try directory.write(Data("\(user):\(try Self.hash(of: password))\n".utf8), to: "users") }
                try directory.write(
                    Data(Self.squidConfiguration(port, directory.url, hasUsers: user != nil).utf8), to: "squid.conf")
                arguments = ["-N", "-f", directory.file("squid.conf").path]
            }
            let process = try ChildProcess(
                kind.rawValue, arguments, directory: directory.url, log: directory.file("output-\(attempt).log"))
            let isReady = process.becomesReady(within: 20) { (try? RawClient(port: port, timeout: 1)) != nil }
            if isReady, process.isRunning {
                (self.port, self.process) = (port, process)
                return
            }
            process.stop(grace: 0.2)
            output = process.output + ((try? String(contentsOf: directory.file("cache.log"), encoding: .utf8)) ?? "")
        }
        throw ProcessError.didNotStart("\(kind.rawValue): \(output)")
    }

    deinit { stop() }

    /// Ends exactly this proxy, waits for it, and removes its directory.
    public func stop() {
        process.stop(grace: 0.5)
        directory.remove()
    }

    private static func danteConfiguration(_ port: UInt16) -> String {
        """
        logoutput: stderr
        internal: 127.0.0.1 port = \(port)
        external: 127.0.0.1
        socksmethod: none
        clientmethod: none
        client pass { from: 127.0.0.0/8 to: 127.0.0.0/8 }
        socks pass { from: 127.0.0.0/8 to: 0.0.0.0/0 protocol: tcp }

        """
    }

    private static func squidConfiguration(_ port: UInt16, _ directory: URL, hasUsers: Bool) -> String {
        let path = directory.path
        // It refuses to be root.
        let isRoot = geteuid() == 0
        if isRoot { chmod(path, 0o777) }
        let access =
            hasUsers
            ? """
            auth_param basic program \(Kind.helper ?? "") \(path)/users
            auth_param basic children 1 startup=1
            acl known proxy_auth REQUIRED
            http_access allow known
            http_access deny all
            """ : "http_access allow all"
        return """
            http_port 127.0.0.1:\(port)
            pid_filename none
            cache deny all
            \(isRoot ? "cache_effective_user nobody" : "")
            cache_log \(path)/cache.log
            access_log none
            netdb_filename none
            coredump_dir \(path)
            visible_hostname localhost
            pinger_enable off
            shutdown_lifetime 0 seconds
            max_filedescriptors 1024
            hosts_file /etc/hosts
            \(access)

            """
    }

    private static func hash(of password: String) throws -> String {
        try ProcessRunner.run("openssl", ["passwd", "-apr1", password]).text
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
