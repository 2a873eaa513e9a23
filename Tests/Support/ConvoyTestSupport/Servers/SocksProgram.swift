import Foundation

/// A SOCKS proxy from Debian on a free loopback port, with its own configuration and directory.
public final class SocksProgram: ProxyServer {
    /// The proxy program.
    public enum Kind: String, Sendable, CaseIterable {
        /// microsocks, which supports SOCKS 5.
        case microsocks
        /// Dante, which supports SOCKS 5 and 4.
        case danted

        /// Whether the program is installed.
        public var isInstalled: Bool { Spawn.find(rawValue) != nil }

        /// The installation hint shown for a skipped test.
        public var installHint: String {
            let package = self == .danted ? "dante-server" : rawValue
            return "\(rawValue). Debian, Ubuntu: apt-get install \(package)"
        }
    }

    /// The port.
    public let port: UInt16
    /// The process of the program.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    /// Starts the program and returns when it accepts connections.
    ///
    /// - Parameters:
    ///   - kind: The program.
    ///   - user: The only permitted user, with `password`; nil for all. Not supported for Dante.
    ///   - password: The password of the user.
    /// - Throws: `ProcessError`: `.notInstalled` with the installation command, `.didNotStart` with its messages.
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
            }
            let process = try ChildProcess(
                kind.rawValue, arguments, directory: directory.url, log: directory.file("output-\(attempt).log"))
            let isReady = process.becomesReady(within: 20) { (try? RawClient(port: port, timeout: 1)) != nil }
            if isReady, process.isRunning {
                (self.port, self.process) = (port, process)
                return
            }
            process.stop(grace: 0.2)
            output = process.output
        }
        throw ProcessError.didNotStart("\(kind.rawValue): \(output)")
    }

    deinit { stop() }

    /// Stops this proxy, waits for its end, and removes its directory.
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
}
