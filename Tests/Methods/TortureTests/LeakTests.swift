import ConvoyTestSupport
import Foundation
import Testing

/// Leak checks in a build with the address sanitizer (`Tests/long address-sanitizer`): typical programs leave no
/// unreachable memory behind.
@Suite(.enabled(if: Torture.findsLeaks, "leaks: this build does not use the address sanitizer"))
struct LeakTests {
    /// Enables the leak check, which is disabled in the tests' own process.
    static let environment = ["ASAN_OPTIONS": "detect_leaks=1"]

    @Test(arguments: Torture.scenes) func `a typical program leaks no memory`(_ scene: String) throws {
        let problem = try Torture(scene).play(environment: Self.environment)
        #expect(problem == nil, "\(scene): \(problem ?? "")")
    }
}
