import Foundation

/// Debian's microsocks on a free loopback port, a SOCKS 5 proxy that asks for user and password (RFC 1929).
public final class SocksProxy: Sendable {
    /// The user, and the user's password.
    public static let user = "ada", password = "secret"

    /// The port.
    public let port: UInt16
    /// The program.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    /// Whether microsocks is installed.
    public static var isInstalled: Bool { Spawn.find("microsocks") != nil }
    /// For the reason of a skipped test.
    public static let installHint = "microsocks. Debian, Ubuntu: apt-get install microsocks"

    /// Starts it and returns when it answers.
    ///
    /// - Parameter asksForPassword: whether it forwards for its user only, or for everybody.
    /// - Throws: `ProcessError`: `.notInstalled` with the line that installs it, `.didNotStart` with its messages.
    public init(asksForPassword: Bool = true) throws {
        guard Self.isInstalled else { throw ProcessError.notInstalled(Self.installHint) }
        directory = try TemporaryDirectory(prefix: "convoy-socks")
        var output = ""
        for attempt in 0..<8 {
            let port = try LoopbackPort.free()
            let process = try ChildProcess(
                "microsocks",
                ["-i", "127.0.0.1", "-p", "\(port)"] + (asksForPassword ? ["-u", Self.user, "-P", Self.password] : []),
                directory: directory.url, log: directory.file("output-\(attempt).log"))
            // Both methods are offered: none, and a password (RFC 1928, section 3).
            let isReady = process.becomesReady(within: 10) {
                guard let client = try? RawClient(port: port, timeout: 1) else { return false }
                try? client.send(Data([5, 2, 0, 2]))
                return (try? client.read(2)) == Data([5, asksForPassword ? 2 : 0])
            }
            if isReady {
                (self.port, self.process) = (port, process)
                return
            }
            process.stop(grace: 0.2)
            output = process.output
        }
        throw ProcessError.didNotStart("microsocks: \(output)")
    }

    deinit { stop() }

    /// Ends exactly this proxy, waits for it, and removes its directory.
    public func stop() {
        process.stop()
        directory.remove()
    }
}
