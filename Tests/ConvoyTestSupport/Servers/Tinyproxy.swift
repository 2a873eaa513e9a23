import Foundation

/// Debian's tinyproxy on a free loopback port, with a configuration and a directory of its own.
public final class Tinyproxy: Sendable {
    /// The port.
    public let port: UInt16
    /// "http://127.0.0.1:PORT", as the variable `https_proxy` takes it.
    public let address: String
    /// The program.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    /// Whether tinyproxy is installed.
    public static var isInstalled: Bool { Spawn.find("tinyproxy") != nil }
    /// For the reason of a skipped test.
    public static let installHint = "tinyproxy. Debian, Ubuntu: apt-get install tinyproxy"

    /// Starts it and returns when it accepts connections.
    ///
    /// - Parameter connectPorts: The ports that CONNECT may use; all others are refused with 403.
    /// - Throws: `ProcessError`: `.notInstalled` with the line that installs it, `.didNotStart` with its messages.
    public init(connectPorts: [UInt16]) throws {
        guard let path = Spawn.find("tinyproxy") else { throw ProcessError.notInstalled(Self.installHint) }
        directory = try TemporaryDirectory(prefix: "convoy-tinyproxy")
        var output = ""
        for attempt in 0..<8 {
            let port = try LoopbackPort.free()
            let log = directory.file("log-\(attempt)")
            let lines =
                [
                    "Port \(port)", "Listen 127.0.0.1", "Allow 127.0.0.1", "Timeout 600", "MaxClients 64",
                    "LogFile \"\(log.path)\"", "LogLevel Info",
                ] + connectPorts.map { "ConnectPort \($0)" }
            try directory.write(Data((lines.joined(separator: "\n") + "\n").utf8), to: "tinyproxy.conf")
            let process = try ChildProcess(
                path, ["-d", "-c", directory.file("tinyproxy.conf").path], directory: directory.url,
                log: directory.file("output-\(attempt).log"))
            // Its log reports it: another program may have taken the port first.
            let isReady = process.becomesReady(within: 10) {
                (try? String(contentsOf: log, encoding: .utf8))?.contains("Accepting connections") == true
            }
            if isReady {
                (self.port, self.process, address) = (port, process, "http://127.0.0.1:\(port)")
                return
            }
            process.stop(grace: 0.2)
            output = process.output + ((try? String(contentsOf: log, encoding: .utf8)) ?? "")
            guard output.contains("in use") || output.contains("Could not create listening socket") else { break }
        }
        throw ProcessError.didNotStart("tinyproxy: \(output)")
    }

    deinit { stop() }

    /// Ends exactly this proxy, waits for it, and removes its directory.
    public func stop() {
        process.stop()
        directory.remove()
    }
}
