import ConvoyTestSupport
import Foundation
import Testing

/// The programs that the tests run.
enum Programs {
    #if GTK
    static let areRunnable = VirtualDisplay.isInstalled
    #else
    static let areRunnable = false
    #endif
    static let hint: Comment = "GTK 4, Xvfb, xdotool or ImageMagick is not installed"

    /// The display shared by all tests. Each program has its own window on it.
    static let display = Result { try VirtualDisplay(width: 3300, height: 2000) }

    static func path(_ name: String) throws -> String {
        let tests = URL(fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
        return tests.deletingLastPathComponent().appendingPathComponent(name).path
    }

    /// Runs a scenario of `WidgetProgram` and returns what it observed.
    static func run(
        _ arguments: String..., accessibility: String = "none", timeout: TimeInterval = 120
    ) throws -> [String: Any] {
        let environment = try display.get().environment(accessibility: accessibility)
        let result = try ProcessRunner.run(
            path("WidgetProgram"), arguments, environment: environment, timeout: timeout)
        let line = result.text.split(separator: "\n").last.map(String.init) ?? ""
        try #require(result.status == 0, "\(result.text)\n\(result.errorText)")
        // GTK only logs programming errors.
        #expect(!result.errorText.contains("CRITICAL"), "\(result.errorText)")
        return try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any], "\(line)")
    }
}

extension [String: Any] {
    func number(_ key: String) -> Int { self[key] as? Int ?? -1 }
    func isTrue(_ key: String) -> Bool { self[key] as? Bool == true }
    func double(_ key: String) -> Double { self[key] as? Double ?? .nan }
}
