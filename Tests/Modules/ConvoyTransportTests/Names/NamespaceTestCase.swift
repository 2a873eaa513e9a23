import ConvoyTestSupport
import Foundation
import XCTest

/// A test case whose tests run in a separate mount and network namespace. It uses XCTest, which can run single tests:
/// each test runs itself again in a child process in the namespace.
class NamespaceTestCase: XCTestCase {
    /// The environment variable that is set in the child process.
    private static let mark = "CONVOY_TEST_IN_NAMESPACE"

    /// Runs the body in a child process that runs only this test, with no network other than the loopback interface,
    /// and no name server except one that the body starts.
    func inNamespace(_ body: () throws -> Void, name: String = #function) throws {
        if ProcessInfo.processInfo.environment[Self.mark] != nil { return try body() }
        guard SilentNameServer.isPossible else { throw XCTSkip("needs \(SilentNameServer.hint)") }
        let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let test = "ConvoyTransportTests.\(type(of: self))/\(name.prefix { $0 != "(" })"
        let result = try SilentNameServer.run(
            program, [test], environment: [Self.mark: "1"], retryInterval: 5, timeout: 150)
        XCTAssertEqual(result.status, 0, result.text + result.errorText)
        XCTAssertTrue(result.text.contains("Executed 1 test"), "the wrong test ran: \(result.text)")
    }
}
