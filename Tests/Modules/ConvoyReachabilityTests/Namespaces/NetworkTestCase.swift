import ConvoyTestSupport
import Foundation
import XCTest

@testable import ConvoyReachability

/// A test case whose tests run in their own network namespace, in which they can change everything. It uses XCTest,
/// which can run single tests: each test runs itself again in a child process in the namespace.
class NetworkTestCase: XCTestCase {
    /// The environment variable that is set in the child process.
    private static let mark = "CONVOY_TEST_IN_NAMESPACE"

    /// Runs the body in a child process that runs only this test. Its interfaces are the loopback interface, which is
    /// up, and `v0` and `v1`, which are the two ends of a cable and are down.
    func inNamespace(_ body: () throws -> Void, name: String = #function) throws {
        if ProcessInfo.processInfo.environment[Self.mark] != nil {
            // The links in the namespace are described only if sysfs can be mounted.
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
        XCTAssertTrue(result.text.contains("Executed 1 test"), "the child process ran a different test: \(result.text)")
    }

    /// Runs several `ip` commands in order.
    func ip(_ commands: String..., file: StaticString = #filePath, line: UInt = #line) throws {
        let result = try ProcessRunner.run(
            "ip", ["-batch", "-"], input: Data((commands.joined(separator: "\n") + "\n").utf8))
        XCTAssertEqual(result.status, 0, "\(commands): \(result.errorText)", file: file, line: line)
    }

    /// Brings up the cable, with an address and a default route.
    func connect() throws {
        try ip(
            "link set v0 up", "link set v1 up", "addr add 192.0.2.2/24 dev v0", "route add default via 192.0.2.1 dev v0")
    }
}

/// Collects the reports of a manager.
final class Listener: Sendable {
    let manager: NetworkReachabilityManager
    let heard = Record<NetworkReachabilityStatus>()

    /// Starts monitoring, and waits for the first report.
    init(_ manager: NetworkReachabilityManager?) throws {
        self.manager = try XCTUnwrap(manager)
        self.manager.reachabilityStatusChangeHandler = { [heard] in heard.add($0) }
        try self.manager.startMonitoring()
        try eventually("a first report") { !heard.all.isEmpty }
    }

    /// Waits for at most a second until the last report is the given status.
    func hears(_ status: NetworkReachabilityStatus, file: StaticString = #fileID, line: UInt = #line) throws {
        try eventually(timeout: 1, "\(status) after \(heard.all)", file: file, line: line) { heard.all.last == status }
    }
}
