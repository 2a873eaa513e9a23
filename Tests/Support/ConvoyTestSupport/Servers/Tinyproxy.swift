import Foundation

/// Debian's tinyproxy on a free loopback port, with its own configuration and directory.
public final class Tinyproxy: Sendable {
    /// The port.
    public let port: UInt16
    /// The address "http://127.0.0.1:PORT", in the format of the variable `https_proxy`.
    public let address: String
    /// The process of the program.
    public let process: ChildProcess
    private let directory: TemporaryDirectory

    /// Whether tinyproxy is installed.
    public static var isInstalled: Bool { Spawn.find("tinyproxy") != nil }
    /// The installation hint shown for a skipped test.
    public static let installHint = "tinyproxy. Debian, Ubuntu: apt-get install tinyproxy"

    /// Starts the program and returns when it accepts connections.
    ///
    /// - Parameter connectPorts: The ports that CONNECT may use; all others are refused with 403.
    /// - Throws: `ProcessError`: `.notInstalled` with the installation command, `.didNotStart` with its messages.
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
            // Check the log, because another program may have taken the port first.
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

    /// Stops this proxy, waits for its end, and removes its directory.
    public func stop() {
        process.stop()
        directory.remove()
    }
}
