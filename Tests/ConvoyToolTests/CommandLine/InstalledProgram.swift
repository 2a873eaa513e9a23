import ConvoyTestSupport
import Testing

/// Programs that a test needs, and a machine may not have.
enum InstalledProgram {
    static func isInstalled(_ name: String) -> Bool {
        (try? ProcessRunner.run("sh", ["-c", "command -v \(name)"]))?.status == 0
    }
}

extension Trait where Self == ConditionTrait {
    /// The test is skipped, with the reason, where the program is missing.
    static func needs(_ program: String) -> Self {
        .enabled(if: InstalledProgram.isInstalled(program), "\(program) is not installed")
    }
}
