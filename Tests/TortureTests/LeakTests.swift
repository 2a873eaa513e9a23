import ConvoyTestSupport
import Foundation
import Testing

/// In a build with the address sanitizer (`Tests/long address-sanitizer`): what most programs do leaves no memory behind that
/// nobody can free.
@Suite(.enabled(if: Torture.findsLeaks, "leaks: this is no build with the address sanitizer"))
struct LeakTests {
    /// The check for leaks, which the tests' own process does not have.
    static let environment = ["ASAN_OPTIONS": "detect_leaks=1"]

    @Test(arguments: Torture.scenes) func `a scene leaves nothing behind`(_ scene: String) throws {
        let problem = try Torture(scene).play(environment: Self.environment)
        #expect(problem == nil, "\(scene): \(problem ?? "")")
    }
}
