import Foundation
import Testing

/// Compares all decisions about retries with the table in `decisions.txt`. `CONVOY_RECORD_DECISIONS=1` records the table
/// again.
@Suite struct DecisionTableTests {
    private static let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("decisions.txt")

    @Test func `each decision after an attempt equals the recorded one`() throws {
        let text = DecisionTable.text()
        if ProcessInfo.processInfo.environment["CONVOY_RECORD_DECISIONS"] != nil {
            try Data(text.utf8).write(to: Self.file)
        }
        let recorded = try String(contentsOf: Self.file, encoding: .utf8).split(separator: "\n")
        let rows = text.split(separator: "\n")
        #expect(rows.count == recorded.count)
        for (row, expected) in zip(rows, recorded) where row != expected {
            Issue.record("decided \(row)\nrecorded \(expected)")
        }
    }
}
