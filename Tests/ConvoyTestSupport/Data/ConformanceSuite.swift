import Foundation

/// Test data that others have made, in a folder of its own for each subject. The repository has none of it: the
/// variable CONVOY_SUITES names the place.
public enum ConformanceSuite {
    /// Where the data of a subject are; nil where there are none.
    public static func directory(_ subject: String) -> URL? {
        guard let path = ProcessInfo.processInfo.environment["CONVOY_SUITES"], !path.isEmpty else { return nil }
        let directory = URL(fileURLWithPath: path).appendingPathComponent(subject)
        return FileManager.default.fileExists(atPath: directory.path) ? directory : nil
    }

    /// What to do where there are none.
    public static func hint(_ subject: String) -> String {
        "CONVOY_SUITES names no folder with conformance data about \(subject)"
    }
}
