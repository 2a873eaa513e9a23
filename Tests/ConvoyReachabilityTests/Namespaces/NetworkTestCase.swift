import ConvoyTestSupport
import Foundation
import XCTest

@testable import ConvoyReachability

/// Tests that run in a network namespace of their own, in which they may change everything. They are in XCTest, whose tests
/// can be run one by one: each test runs itself again in a child process there.
class NetworkTestCase: XCTestCase {
    /// Set in the child process.
    private static let mark = "CONVOY_TEST_IN_NAMESPACE"

    /// Runs the body in a child process that runs only this test. There are the loopback interface, which is up, and two
    /// others, `v0` and `v1`, which are the ends of one cable and down.
    func inNamespace(_ body: () throws -> Void, name: String = #function) throws {
        if ProcessInfo.processInfo.environment[Self.mark] != nil {
            // What the links are made of is known for those of the namespace, where that may be mounted.
            _ = try? ProcessRunner.run("mount", ["-t", "sysfs", "sysfs", "/sys"])
            try ip("link set lo up", "link add v0 type veth peer name v1")
            return try body()
        }
        guard SilentNameServer.isPossible else { throw XCTSkip("needs \(SilentNameServer.hint)") }
        guard (try? ProcessRunner.run("ip", ["-V"]))?.status == 0 else { throw XCTSkip("ip is not installed") }
        let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let test = "ConvoyReachabilityTests.\(type(of: self))/\(name.prefix { $0 != "(" })"
        let result = try SilentNameServer.run(
            program, [test], environment: [Self.mark: "1"], retryInterval: 5, timeout: 120)
        XCTAssertEqual(result.status, 0, result.text + result.errorText)
        XCTAssertTrue(result.text.contains("Executed 1 test"), "it ran something else: \(result.text)")
    }

    /// Runs commands of `ip`, one after the other.
    func ip(_ commands: String..., file: StaticString = #filePath, line: UInt = #line) throws {
        let result = try ProcessRunner.run(
            "ip", ["-batch", "-"], input: Data((commands.joined(separator: "\n") + "\n").utf8))
        XCTAssertEqual(result.status, 0, "\(commands): \(result.errorText)", file: file, line: line)
    }

    /// Brings the cable up, with an address, and with a default route over it.
    func connect() throws {
        try ip(
            "link set v0 up", "link set v1 up", "addr add 192.0.2.2/24 dev v0", "route add default via 192.0.2.1 dev v0")
    }
}

/// Keeps what a manager reports.
final class Listener: Sendable {
    let manager: NetworkReachabilityManager
    let heard = Record<NetworkReachabilityStatus>()

    /// Begins to monitor, and waits for the first report.
    init(_ manager: NetworkReachabilityManager?) throws {
        self.manager = try XCTUnwrap(manager)
        self.manager.reachabilityStatusChangeHandler = { [heard] in heard.add($0) }
        try self.manager.startMonitoring()
        try eventually("a first report") { !heard.all.isEmpty }
    }

    /// Waits until the last report is this one, for at most a second.
    func hears(_ status: NetworkReachabilityStatus, file: StaticString = #fileID, line: UInt = #line) throws {
        try eventually(timeout: 1, "\(status) after \(heard.all)", file: file, line: line) { heard.all.last == status }
    }
}
