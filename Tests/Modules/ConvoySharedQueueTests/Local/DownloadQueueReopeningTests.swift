import ConvoyDownloads
import ConvoyOperations
import ConvoySharedQueue
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

struct DownloadQueueReopeningTests {
    private let fixture: QueueFixture
    private let bytes = PatternBytes.data(count: 200_000)

    init() throws {
        fixture = try QueueFixture()
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        fixture.server.route("POST", "/post", .text("thanks"))
    }

    @Test func `entries are restored in order with all their properties`() async throws {
        let queue = try fixture.open()
        var requests: [any DurableRequest] = []
        for index in 0..<20 {
            var request: any DurableRequest =
                index % 2 == 0 ? fixture.download("/file", to: "\(index)") : fixture.post("/post", "\(index)")
            request.tag = "\(index)"
            request.priority = [.veryLow, .low, .normal, .high, .veryHigh][index % 5]
            request.dependencies = Set(requests.filter { Int($0.tag ?? "")! % 3 == index % 3 }.map(\.id))
            requests.append(request)
        }
        try await queue.enqueue(requests)
        try queue.pause(requests[7].id)
        let before = queue.entries
        await queue.close()
        let next = try fixture.open()
        let after = next.entries
        #expect(after == before)
        #expect(after.map(\.id) == requests.map(\.id))
        #expect(after.map(\.priority) == requests.map(\.priority))
        #expect(after.map(\.dependencies) == requests.map(\.dependencies))
        #expect(after[7].state == .paused)
        next.start()
        try next.resume(requests[7].id)
        try await next.waitUntilAllFinished()
        #expect(next.states.allSatisfy { $0 == .finished })
        #expect(Set(fixture.server.requests("/post").map(\.text)) == Set((0..<20).filter { $0 % 2 == 1 }.map { "\($0)" }))
    }

    @Test func `the settings of a download are restored`() async throws {
        let queue = try fixture.open()
        var request = DownloadRequest(fixture.server.url("/file"), directory: fixture.directory.url)
        request.request.timeoutInterval = 7.5
        request.request.setValue("value: with, all", forHTTPHeaderField: "X-Field")
        request.existingFilePolicy = .replace
        request.usesServerFileName = false
        request.checksums = [try Checksum(parsing: "sha-256=\(String(repeating: "ab", count: 32))")]
        request.pieceChecksums = PieceChecksums(
            length: 1000, checksums: [try Checksum(parsing: "md5=\(String(repeating: "cd", count: 16))")])
        request.expectedLength = 12
        request.segmentCount = 3
        request.minimumSegmentLength = 77
        request.mirrors = [fixture.server.url("/other")]
        request.usesServerMirrors = true
        request.synchronizesFile = true
        request.keepsModificationDate = false
        let old = try await queue.enqueue(request)
        await queue.close()
        let made = try fixture.open().operation(for: request.id)
        let operation = try #require(made as? DownloadOperation)
        for download in [old, operation] {
            #expect(download.directory?.path == fixture.directory.url.path)
            #expect(download.destination == nil)
            #expect(download.request.timeoutInterval == 7.5)
            #expect(download.request.value(forHTTPHeaderField: "X-Field") == "value: with, all")
            #expect(download.existingFilePolicy == .replace)
            #expect(!download.usesServerFileName)
            #expect(download.checksums == request.checksums)
            #expect(download.pieceChecksums == request.pieceChecksums)
            #expect(download.expectedLength == 12)
            #expect(download.segmentCount == 3)
            #expect(download.minimumSegmentLength == 77)
            #expect(download.mirrors == request.mirrors)
            #expect(download.usesServerMirrors)
            #expect(download.synchronizesFile)
            #expect(!download.keepsModificationDate)
        }
    }

    @Test func `an interrupted download resumes where it left off`() async throws {
        let gate = TestServer.Gate()
        fixture.server.serve(bytes, at: "/slow", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: 150_000) : response
        }
        let queue = try fixture.open()
        queue.start()
        let request = fixture.download("/slow")
        let operation = try await queue.enqueue(request)
        try await waitUntil("a part") { operation.downloadProgress.bytesReceived >= 150_000 }
        await queue.close()
        gate.open()
        let next = try fixture.open()
        #expect(next.entries.map(\.bytesCompleted) == [150_000])
        #expect(next.entries.map(\.attempts) == [1])
        next.start()
        try await next.waitUntilAllFinished()
        #expect(fixture.contents("file.bin") == bytes)
        #expect(fixture.server.requests("/slow").last?.headers["Range"] == "bytes=150000-")
        #expect(next.entries.map(\.attempts) == [2])
    }

    @Test func `a complete file is recognized even if its completion was not stored`() async throws {
        // Just before the end, the file is complete and about to get its name.
        let queue = try fixture.open()
        queue.start()
        let request = fixture.download()
        let copy = Locked<DownloadQueue?>(nil)
        let operation = try await queue.enqueue(request)
        try await operation.finished()
        await queue.close()
        let database = fixture.home.appendingPathComponent("queue.sqlite").path
        try Self.sql(database, "UPDATE entry SET state = 3")
        let next = try fixture.open()
        #expect(next.states == [.finished])
        copy.withLock { $0 = next }
        await next.close()
        // Another file with that name is not recognized.
        try Self.sql(database, "UPDATE entry SET state = 3")
        try FileManager.default.removeItem(at: fixture.file("file.bin"))
        try bytes.write(to: fixture.file("other"))
        try FileManager.default.moveItem(at: fixture.file("other"), to: fixture.file("file.bin"))
        // The old inode number may be in use again.
        try Self.sql(database, "UPDATE request SET mark = replace(mark, '\"number\":', '\"number\":1')")
        #expect(try fixture.open().states == [.waiting])
    }

    private static func sql(_ path: String, _ text: String) throws {
        let result = try ProcessRunner.run("sqlite3", [path, text])
        #expect(result.status == 0, "\(result.errorText)")
    }

    @Test func `a request interrupted while being sent is repeated with the same key`() async throws {
        let gate = TestServer.Gate()
        defer { gate.open() }
        fixture.server.route("POST", "/hold", inTurn: [.text("late").held(by: gate), .text("now")])
        let queue = try fixture.open()
        queue.start()
        let request = fixture.post("/hold", "order")
        try await queue.enqueue(request)
        try await fixture.server.waitForRequests(count: 1)
        let next = try fixture.openAsAfterKill()
        #expect(next.states == [.waiting])
        #expect(next.entries.map(\.attempts) == [1])
        next.start()
        try await next.waitUntilAllFinished()
        #expect(next.states == [.finished])
        let received = fixture.server.requests("/hold")
        #expect(received.map(\.text) == ["order", "order"])
        #expect(received.map { $0.headers["Idempotency-Key"] } == [request.idempotencyKey, request.idempotencyKey])
    }

    @Test func `a request that must not be sent twice is held until it is retried manually`() async throws {
        let gate = TestServer.Gate()
        defer { gate.open() }
        fixture.server.route("POST", "/hold", inTurn: [.text("late").held(by: gate), .text("now")])
        let queue = try fixture.open()
        queue.start()
        var request = fixture.post("/hold", "order")
        request.sendsAgainWhenUnknown = false
        var waiting = fixture.post("/hold", "not begun")
        waiting.sendsAgainWhenUnknown = false
        waiting.dependencies = [request.id]
        try await queue.enqueue([request, waiting])
        try await fixture.server.waitForRequests(count: 1)
        let next = try fixture.openAsAfterKill()
        #expect(next.states == [.outcomeUnknown, .blocked])
        next.start()
        try await next.waitUntilAllFinished()
        #expect(fixture.server.requests("/hold").count == 1)
        try next.retry(request.id)
        try await next.waitUntilAllFinished()
        #expect(next.states == [.finished, .finished])
        #expect(fixture.server.requests("/hold").map(\.text) == ["order", "order", "not begun"])
    }

    @Test func `the outcome is unknown if an unrepeatable request may have arrived`() async throws {
        fixture.server.route("POST", "/reset", .text("x").failing(.resetBeforeHead))
        let port = try LoopbackPort.free()
        let queue = try fixture.open()
        queue.start()
        var lost = fixture.post("/reset"), again = fixture.post("/reset"), refused = fixture.post()
        refused.request.url = URL(string: "http://127.0.0.1:\(port)/")
        (lost.sendsAgainWhenUnknown, refused.sendsAgainWhenUnknown) = (false, false)
        again.tag = "again"
        try await queue.enqueue([lost, again, refused])
        try await queue.waitUntilAllFinished()
        #expect(queue.states == [.outcomeUnknown, .failed, .failed])
        // Each entry has the description of its error.
        #expect(queue.entries.allSatisfy { $0.errorDescription != nil })
    }

    @Test(arguments: [true, false]) func `a running request pauses only if it may be sent twice`(mayBe: Bool) async throws {
        let gate = TestServer.Gate()
        fixture.server.route("POST", "/hold", .text("late").held(by: gate))
        let queue = try fixture.open()
        queue.start()
        var request = fixture.post("/hold")
        request.sendsAgainWhenUnknown = mayBe
        try await queue.enqueue(request)
        try await fixture.server.waitForRequests(count: 1)
        try queue.pause(request.id)
        if mayBe {
            try await queue.waitFor(.paused, of: request.id)
            try queue.resume(request.id)
        } else {
            #expect(queue.entry(request.id)?.state == .running)
        }
        gate.open()
        try await queue.waitFor(.finished, of: request.id)
        // The paused request was held on its connection, and not sent again.
        #expect(fixture.server.requests("/hold").count == 1)
    }

    @Test func `a paused queue is still paused in the next process`() async throws {
        let queue = try fixture.open()
        try await queue.enqueue(fixture.post())
        queue.pause()
        await queue.close()
        let next = try fixture.open()
        next.start()
        #expect(next.isPaused)
        try await next.flush()
        #expect(fixture.server.requests.isEmpty)
        next.resume()
        try await next.waitUntilAllFinished()
        #expect(next.states == [.finished])
        await next.close()
        #expect(try !fixture.open().isPaused)
    }

    @Test func `failures and results are restored, and nothing runs again`() async throws {
        fixture.server.route("POST", "/broken", .status(500))
        let queue = try fixture.open()
        queue.start()
        try await queue.enqueue([fixture.post(), fixture.post("/broken"), fixture.download()])
        try await queue.waitUntilAllFinished()
        let before = queue.entries
        await queue.close()
        let count = fixture.server.requests.count
        let next = try fixture.open()
        next.start()
        try await next.waitUntilAllFinished()
        #expect(next.entries == before)
        #expect(next.states == [.finished, .failed, .finished])
        #expect(fixture.server.requests.count == count)
        try next.retry(before[1].id)
        try await next.waitUntilAllFinished()
        #expect(fixture.server.requests("/broken").count == 2)
    }

    @Test func `secrets are not stored, and the program must add them again`() async throws {
        var request = fixture.post()
        request.request.setValue("Bearer first-secret", forHTTPHeaderField: "Authorization")
        request.request.setValue("key-secret", forHTTPHeaderField: "X-Api-Key")
        request.request.setValue("https://a.example/?token=url-secret", forHTTPHeaderField: "Referer")
        request.request.setValue("marked-secret", forHTTPHeaderField: "X-Marked")
        request.request.setValue("plain", forHTTPHeaderField: "X-Plain")
        fixture.manager.connectionConfiguration.sensitiveHeaders = ["x-marked"]
        let queue = try fixture.open()
        try await queue.enqueue(request)
        await queue.close()
        for name in try FileManager.default.subpathsOfDirectory(atPath: fixture.home.path) {
            let contents = (try? Data(contentsOf: fixture.home.appendingPathComponent(name))) ?? Data()
            #expect(contents.range(of: Data("-secret".utf8)) == nil, "\(name)")
        }
        let lacking = try fixture.openAsAfterKill { operation, _ in
            operation.prepare = { $0.setValue("Bearer second", forHTTPHeaderField: "Authorization") }
        }
        let operation = try #require(lacking.operation(for: request.id))
        lacking.start()
        let missing = DownloadQueueError.missingSecrets(["Referer", "X-Api-Key", "X-Marked"])
        await #expect(throws: missing) { try await operation.finished() }
        try await lacking.waitUntilAllFinished()
        #expect(lacking.states == [.failed])
        #expect(fixture.server.requests.isEmpty)
        let next = try fixture.open { operation, _ in
            operation.prepare = { request in
                for name in ["Authorization", "X-Api-Key", "X-Marked", "Referer"] {
                    request.setValue("second", forHTTPHeaderField: name)
                }
            }
        }
        next.start()
        try await next.waitUntilAllFinished()
        let headers = try #require(fixture.server.requests("/post").first).headers
        #expect(headers["Authorization"] == "second")
        #expect(headers["X-Plain"] == "plain")
        #expect(headers["X-Api-Key"] == "second")
        #expect(headers["Idempotency-Key"] == request.idempotencyKey)
    }

    @Test func `secrets are sent as long as the process runs`() async throws {
        fixture.server.route("POST", "/post", inTurn: [.status(500), .text("ok")])
        var request = fixture.post()
        request.request.setValue("Bearer secret", forHTTPHeaderField: "Authorization")
        let queue = try fixture.open()
        queue.start()
        try await queue.enqueue(request)
        try await queue.waitUntilAllFinished()
        try queue.retry(request.id)
        try await queue.waitUntilAllFinished()
        let sent = fixture.server.requests("/post").map { $0.headers["Authorization"] }
        #expect(sent == ["Bearer secret", "Bearer secret"])
    }

    @Test func `a URL with a secret is rejected unless it is allowed`() async throws {
        let queue = try fixture.open()
        let signed = try #require(URL(string: fixture.server.url("/file").absoluteString + "?X-Amz-Signature=abc"))
        var request = DownloadRequest(signed, destination: fixture.file("signed"))
        await #expect {
            try await queue.enqueue(request)
        } throws: { error in
            if case .secretInURL(let url)? = error as? DownloadQueueError { !url.contains("abc") } else { false }
        }
        request.storesSecretsInURL = true
        try await queue.enqueue(request)
        var mirrored = fixture.download("/file", to: "mirrored")
        mirrored.mirrors = [signed]
        await #expect(throws: DownloadQueueError.self) { try await queue.enqueue(mirrored) }
        let user = try #require(URL(string: "http://user:password@127.0.0.1/"))
        request = DownloadRequest(user, destination: fixture.file("user"))
        request.storesSecretsInURL = true
        await #expect(throws: DownloadQueueError.self) { try await queue.enqueue(request) }
        #expect(queue.entries.count == 1)
    }
}
