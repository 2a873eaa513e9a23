import ConvoyDownloads
import ConvoyOperations
import ConvoySharedQueue
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyUploads
import Foundation
import Testing

/// Databases of earlier versions. `EarlierQueue.sql` was written by the last version with tables of its own.
@Suite struct EarlierQueueTests {
    private let fixture: QueueFixture

    init() throws {
        fixture = try QueueFixture()
        fixture.server.serve(Data("file".utf8), at: "/file", etag: "\"1\"")
        fixture.server.serve(PatternBytes.data(count: 200_000), at: "/slow", etag: "\"1\"")
        for path in ["/post", "/broken", "/reset", "/hold"] { fixture.server.route("POST", path, .text("thanks")) }
        fixture.server.route("GET", "/later", .text("later"))
    }

    private var database: String { fixture.home.appendingPathComponent("queue.sqlite").path }

    private func sql(_ text: String) throws -> String {
        let result = try ProcessRunner.run("sqlite3", [database, text])
        #expect(result.status == 0, "\(result.errorText)")
        return result.text
    }

    /// Makes the directory of an earlier version, with the bodies of its requests.
    private func restore(_ changes: String = "") throws {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("EarlierQueue.sql")
        let text = try String(contentsOf: file, encoding: .utf8)
            .replacingOccurrences(of: "SERVER", with: fixture.server.url("/").absoluteString.dropLast())
            .replacingOccurrences(of: "FOLDER", with: fixture.directory.url.absoluteString.trimmedSlash)
        let bodies = fixture.home.appendingPathComponent("bodies")
        try FileManager.default.createDirectory(
            at: bodies, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        _ = try sql(text)
        for path in [fixture.home.path, bodies.path] { try #require(chmod(path, 0o700) == 0) }
        try #require(chmod(database, 0o600) == 0)
        for line in try sql("SELECT body, tag FROM entry WHERE body IS NOT NULL").split(separator: "\n") {
            let words = line.split(separator: "|")
            let path = bodies.appendingPathComponent(String(words[0]))
            try Data(words[1].utf8).write(to: path)
            try #require(chmod(path.path, 0o600) == 0)
        }
        if !changes.isEmpty { _ = try sql(changes) }
    }

    private static let tags = [
        "finished", "failed", "unknown", "later", "again", "once", "half", "orphan", "blocked", "paused\n\u{1F}é", "upload",
        "last",
    ]

    @Test func `the entries of an earlier version keep their order, states, settings and dependencies`() async throws {
        try restore()
        let queue = try fixture.open()
        #expect(queue.isPaused)
        #expect(queue.unreadableEntries.isEmpty)
        #expect(queue.tags == Self.tags)
        #expect(
            queue.states == [
                .finished, .failed, .outcomeUnknown, .waiting, .waiting, .outcomeUnknown, .waiting, .paused, .blocked,
                .paused,
                .waiting, .waiting,
            ])
        let entries = queue.entries
        #expect(entries.map(\.attempts) == [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0])
        #expect(entries.map(\.statusCode) == [200, 404, nil, 503, nil, nil, nil, nil, nil, nil, nil, nil])
        #expect(entries[1].errorDescription?.contains("not found (404)") == true)
        #expect(entries[3].nextAttemptAt == Date(timeIntervalSince1970: 32_503_680_000))
        #expect(entries[6].bytesCompleted == 50_000 && entries[6].bytesExpected == 200_000)
        let dependencies: [Set<UUID>] = [[entries[1].id], [], [], [entries[9].id, entries[10].id]]
        #expect(entries.map(\.dependencies) == Array(repeating: [], count: 8) + dependencies)
        #expect(entries[9].priority == .high && entries[11].priority == .veryLow)
        #expect(entries.indices.filter { entries[$0].kind == .download } == [0, 3, 6, 9] && entries[10].kind == .upload)
        #expect(entries[0].enqueuedAt == Date(timeIntervalSince1970: 1_796_058_879.808215))
        #expect(fixture.bodies.count == 7)
        let download = try #require(queue.operation(for: entries[9].id) as? DownloadOperation)
        #expect(download.directory?.path == fixture.directory.url.path)
        #expect(download.request.timeoutInterval == 7.5)
        #expect(download.request.value(forHTTPHeaderField: "X-Field") == "value: with, all")
        #expect(download.existingFilePolicy == .replace && !download.usesServerFileName)
        #expect(download.checksums.count == 1 && download.pieceChecksums?.length == 1000 && download.expectedLength == 12)
        #expect(download.segmentCount == 3 && download.minimumSegmentLength == 77 && download.mirrors.count == 1)
        let upload = try #require(queue.operation(for: entries[10].id) as? UploadOperation)
        #expect(upload.uploadProtocol == .tus && upload.parallelPartCount == 2 && upload.resumption == .resume)
        #expect(upload.checksum != nil && upload.chunkChecksumAlgorithm == .sha256 && upload.metadata == ["name": "film"])
        await queue.close()
        // The tables of the earlier version are gone, and the entries are as before.
        #expect(try sql("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'earlier%'") == "0\n")
        let next = try fixture.open()
        #expect(next.entries == entries)
    }

    @Test func `the entries of an earlier version run`() async throws {
        try restore()
        let queue = try fixture.open { operation, _ in
            operation.prepare = { $0.setValue("Bearer second", forHTTPHeaderField: "Authorization") }
        }
        let entries = queue.entries
        for index in [9, 10] { try queue.cancel(entries[index].id) }
        queue.start()
        queue.resume()
        try queue.retry(entries[3].id)
        for index in [1, 2, 5] { try queue.retry(entries[index].id) }
        try queue.resume(entries[7].id)
        try await queue.waitUntilAllFinished()
        #expect(queue.entries.map(\.state) == Array(repeating: .finished, count: 10), "\(queue.states)")
        #expect(fixture.contents("half") == PatternBytes.data(count: 200_000))
        let sent = fixture.server.requests.filter { $0.method == "POST" }
        #expect(Set(sent.map(\.text)) == ["failed", "unknown", "again", "once", "orphan", "blocked", "last"])
        #expect(sent.allSatisfy { $0.headers["Idempotency-Key"]?.count == 38 })
        try await waitUntil("the bodies to be removed") { fixture.bodies.isEmpty }
    }

    @Test func `unreadable entries of an earlier version stay in its tables until a version can read them`() async throws {
        let changes: [(String, String)] = [
            ("phase = 17", "finished"), ("url = ''", "again"), ("id = x'00'", "again"),
            ("body = '../../etc/passwd'", "blocked"), ("options = '{\"existing\":{\"later\":{}}}'", "later"),
            ("place = 'http://a/'", "half"), ("place = 'http://a/'", "upload"),
        ]
        for (change, tag) in changes {
            try? FileManager.default.removeItem(at: fixture.home)
            try restore("UPDATE entry SET \(change) WHERE tag = '\(tag)'; UPDATE state SET paused = 0;")
            for _ in 0..<2 {
                let queue = try fixture.open()
                #expect(queue.unreadableEntries.count == 1, "\(change)")
                #expect(queue.tags == Self.tags.filter { $0 != tag }, "\(change)")
                #expect(fixture.bodies.count >= 6, "\(change)")
                await queue.close()
            }
            #expect(try sql("SELECT tag FROM earlier_entry") == "\(tag)\n", "\(change)")
        }
    }

    @Test(arguments: 1...3) func `a database of any earlier version opens`(version: Int) async throws {
        try restore()
        var columns = ["upload"]
        if version < 3 { columns += ["next", "retries"] }
        if version < 2 { columns.append("withheld") }
        let drops = columns.map { "ALTER TABLE entry DROP COLUMN \($0);" }.joined()
        _ = try sql("DELETE FROM entry WHERE tag = 'upload'; \(drops) PRAGMA user_version = \(version)")
        let queue = try fixture.open()
        #expect(queue.tags == Self.tags.filter { $0 != "upload" })
    }
}

extension String {
    fileprivate var trimmedSlash: String { hasSuffix("/") ? String(dropLast()) : self }
}
