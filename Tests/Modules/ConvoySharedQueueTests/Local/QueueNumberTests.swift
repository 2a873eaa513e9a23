import ConvoyDownloads
import ConvoyOperations
import ConvoySharedQueue
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// A queue's database with extreme numbers, from damage or another program.
@Suite struct QueueNumberTests {
    private let fixture: QueueFixture

    init() throws { fixture = try QueueFixture() }

    private static let columns = [
        "sequence", "state", "kind", "place", "due", "deadline", "open", "failed", "policy", "forgiven", "priority",
        "attempts", "attempt_limit", "sends_again", "lease", "status", "size", "kept", "expires", "changed", "enqueued",
        "begun", "retries", "received", "expected",
    ]
    /// The numbers in the mark of an entry.
    private static let marks = ["retries", "received", "expected"]
    private static let numbers = ["\(Int64.min)", "\(Int64.max)", "-1", "9e999", "'x'"]

    /// The queue opens with any number in a column, and each entry ends or is unreadable.
    @Test func `extreme numbers in the database do not stop the queue`() async throws {
        let queue = try fixture.open()
        try await queue.enqueue([fixture.post(), fixture.download()])
        await queue.close()
        var policy = RetryPolicy(maximumRetryCount: 3)
        (policy.initialDelay, policy.maximumDelay, policy.maximumRetryAfter) = (0.001, 0.001, 0)
        for column in Self.columns {
            // SQLite accepts only integers as the key of a row.
            for number in column == "sequence" ? Array(Self.numbers.prefix(3)) : Self.numbers {
                let change = "\(column) = \(number)"
                let copy = fixture.directory.url.appendingPathComponent("changed")
                try FileManager.default.copyItem(at: fixture.home, to: copy)
                let path = copy.appendingPathComponent("queue.sqlite").path
                let lastRow = "id = (SELECT id FROM entry ORDER BY sequence DESC LIMIT 1)"
                let mark =
                    "\(number)".hasPrefix("'")
                    ? "{\"retries\":\"x\"}" : "{\"retries\":1,\"received\":1,\"\(column)\":\(number)}"
                let update = Self.marks.contains(column) ? "request SET mark = '\(mark)'" : "entry SET \(change)"
                let result = try ProcessRunner.run("sqlite3", [path, "UPDATE \(update) WHERE \(lastRow)"])
                #expect(result.status == 0, "\(change): \(result.errorText)")
                // Each first attempt fails, so that counts and delays are used.
                fixture.server.route("POST", "/post", inTurn: [.status(503), .text("thanks")])
                fixture.server.route("GET", "/file", inTurn: [.status(503), .text("file")])
                let next = try fixture.open(copy, retryPolicy: policy)
                let count = next.entries.count + next.unreadableEntries.count
                #expect(count == 2, "\(change): \(next.entries)")
                for entry in next.entries where ![.finished, .failed, .outcomeUnknown].contains(entry.state) {
                    try next.pause(entry.id)
                    try next.setPriority(.high, of: entry.id)
                    try next.resume(entry.id)
                }
                try await next.enqueue(fixture.post())
                next.start()
                try await next.waitUntilAllFinished()
                #expect(
                    next.entries.allSatisfy { [.finished, .failed, .outcomeUnknown].contains($0.state) },
                    "\(change): \(next.entries)")
                _ = "\(next.entries)"
                await next.close()
                let last = try fixture.open(copy)
                #expect(last.entries.count + last.unreadableEntries.count == count + 1, "\(change)")
                await last.close()
                try FileManager.default.removeItem(at: copy)
                try? FileManager.default.removeItem(at: fixture.file("file.bin"))
            }
        }
    }
}
