import Foundation

/// Conformance test data from other projects, with a directory for each subject. The data is not in the repository: the
/// variable CONVOY_SUITES names its directory.
public enum ConformanceSuite {
    /// Returns the directory of a subject's data; nil if it is missing.
    public static func directory(_ subject: String) -> URL? {
        guard let path = ProcessInfo.processInfo.environment["CONVOY_SUITES"], !path.isEmpty else { return nil }
        let directory = URL(fileURLWithPath: path).appendingPathComponent(subject)
        return FileManager.default.fileExists(atPath: directory.path) ? directory : nil
    }

    /// Returns a hint on installing missing data.
    public static func hint(_ subject: String) -> String {
        "CONVOY_SUITES names no folder with conformance data about \(subject)"
    }
}
