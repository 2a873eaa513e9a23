import ConvoyTestSupport
import Testing

/// Programs that a test requires, and that may not be installed.
enum InstalledProgram {
    static func isInstalled(_ name: String) -> Bool {
        (try? ProcessRunner.run("sh", ["-c", "command -v \(name)"]))?.status == 0
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips the test, with the reason, if the program is missing.
    static func needs(_ program: String) -> Self {
        .enabled(if: InstalledProgram.isInstalled(program), "\(program) is not installed")
    }
}
