import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySharedQueue

struct DownloadQueueFailureTests {
    private let fixture: QueueFixture

    init() throws {
        fixture = try QueueFixture()
        fixture.server.route("POST", "/post", .text("thanks"))
    }

    private var database: URL { fixture.home.appendingPathComponent("queue.sqlite") }

    /// The call that fails synchronizes either the body or its name in the folder.
    @Test(arguments: [true, false]) func `a body that cannot be synchronized is rejected`(isFile: Bool) throws {
        let path = fixture.home.path + "-bodies"
        defer { try? FileManager.default.removeItem(atPath: path) }
        var folder = try BodyFolder(path)
        #expect(try folder.store([.data(Data("a".utf8)), nil]).count == 2)
        folder.calls.synchronize = { descriptor in
            guard FileIdentity(descriptor)?.isPlain == isFile else { return 0 }
            errno = EIO
            return -1
        }
        #expect { try folder.store([.data(Data("b".utf8))]) } throws: { error in
            if case DownloadQueueError.cannotWrite = error { true } else { false }
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: path).count == 1)
    }

    /// A program may retain the operation as long as it likes.
    @Test func `a finished operation retains nothing of its queue`() async throws {
        let queue = try fixture.open()
        let request = fixture.post()
        let operation = try await queue.enqueue(request)
        let link = try #require(operation as? any QueuedOperation).link
        #expect(link.entry?.id == request.id)
        queue.start()
        try await queue.waitUntilAllFinished()
        #expect(link.entry == nil)
    }

    @Test func `a directory cannot be opened by two queues`() async throws {
        let queue = try fixture.open()
        #expect(throws: DownloadQueueError.inUse(fixture.home, process: getpid())) { try fixture.open() }
        await queue.close()
        _ = try fixture.open()
    }

    @Test func `exactly one of many concurrent attempts to open a queue succeeds`() async throws {
        let opened = Locked<[DownloadQueue]>([])
        let refused = Locked(0)
        DispatchQueue.concurrentPerform(iterations: 16) { _ in
            do {
                let queue = try fixture.open()
                opened.withLock { $0.append(queue) }
            } catch DownloadQueueError.inUse {
                refused.withLock { $0 += 1 }
            } catch {
                Issue.record(error)
            }
        }
        #expect(opened.withLock { $0.count } == 1)
        #expect(refused.withLock { $0 } == 15)
    }

    @Test func `a damaged database is reported and left unchanged`() async throws {
        let queue = try fixture.open()
        try await queue.enqueue(fixture.post())
        await queue.close()
        for name in ["queue.sqlite-wal", "queue.sqlite-shm"] {
            try? FileManager.default.removeItem(at: fixture.home.appendingPathComponent(name))
        }
        let garbage = Data("this has never been a database ".utf8 + [UInt8](repeating: 7, count: 5000))
        try garbage.write(to: database)
        #expect {
            try fixture.open()
        } throws: { error in
            if case .damaged? = error as? DownloadQueueError { true } else { false }
        }
        #expect(try Data(contentsOf: database) == garbage)
        // The body outside the database is not removed.
        #expect(fixture.bodies.count == 1)
    }

    @Test func `unreadable rows are set aside, and the other entries run`() async throws {
        fixture.server.route("POST", "/post", .text("thanks"))
        fixture.server.serve(Data("file".utf8), at: "/file", etag: "\"1\"")
        let queue = try fixture.open()
        try await queue.enqueue([fixture.post(), fixture.download()])
        await queue.close()
        let work = "$.request.work.download._0"
        for change in [
            "entry SET state = 17 WHERE sequence = 1", "entry SET id = x'00' WHERE sequence = 1",
            "request SET payload = '{' WHERE method = 'POST'",
            "request SET payload = json_set(payload, '$.request.url', '') WHERE method = 'POST'",
            "request SET payload = json_set(payload, '$.request.work.send._0.body.name', '../../etc/passwd') "
                + "WHERE method = 'POST'",
            "request SET payload = json_set(payload, '\(work).options.existing', json('{\"later\":{}}')) WHERE method = 'GET'",
            "request SET payload = json_set(payload, '\(work).place', 'http://a/') WHERE method = 'GET'",
        ] {
            let copy = fixture.directory.url.appendingPathComponent("bad")
            try? FileManager.default.removeItem(at: copy)
            try FileManager.default.copyItem(at: fixture.home, to: copy)
            let path = copy.appendingPathComponent("queue.sqlite").path
            let result = try ProcessRunner.run("sqlite3", [path, "UPDATE \(change)"])
            #expect(result.status == 0, "\(result.errorText)")
            let next = try fixture.open(copy)
            #expect(next.unreadableEntries.count == 1, "\(change)")
            #expect(next.entries.count == 1, "\(change)")
            // The new entry gets an unused position.
            try await next.enqueue(fixture.post())
            next.start()
            try await next.waitUntilAllFinished()
            #expect(next.states == [.finished, .finished], "\(change)")
            await next.close()
            let last = try fixture.open(copy)
            #expect(last.unreadableEntries.count == 1, "\(change)")
            await last.close()
            try? FileManager.default.removeItem(at: fixture.file("file.bin"))
        }
    }

    @Test func `unknown options written by another version are ignored`() async throws {
        fixture.server.serve(Data("file".utf8), at: "/file", etag: "\"1\"")
        let queue = try fixture.open()
        try await queue.enqueue(fixture.download())
        await queue.close()
        let result = try ProcessRunner.run(
            "sqlite3",
            [
                database.path,
                "UPDATE request SET payload = json_set(payload, '$.request.work.download._0.options', "
                    + "json('{\"segments\":2,\"later\":true}'))",
            ])
        #expect(result.status == 0, "\(result.errorText)")
        let next = try fixture.open()
        next.start()
        try await next.waitUntilAllFinished()
        #expect(next.states == [.finished])
    }

    @Test func `databases of other programs are left unchanged`() throws {
        try FileManager.default.createDirectory(at: fixture.home, withIntermediateDirectories: true)
        let path = database.path
        _ = try ProcessRunner.run("sqlite3", [path, "CREATE TABLE mine (a); INSERT INTO mine VALUES (1)"])
        #expect {
            try fixture.open()
        } throws: { error in
            if case .foreign? = error as? DownloadQueueError { true } else { false }
        }
        let result = try ProcessRunner.run("sqlite3", [path, "SELECT a FROM mine"])
        #expect(result.text == "1\n")
    }

    /// Other versions recognize the database by this identifier.
    @Test func `the database has the application ID of a queue`() async throws {
        await (try fixture.open()).close()
        let result = try ProcessRunner.run("sqlite3", [database.path, "PRAGMA application_id"])
        #expect(result.text == "\(0x4376_5175)\n")
    }

    @Test func `a database of a newer version is rejected`() async throws {
        await (try fixture.open()).close()
        _ = try ProcessRunner.run("sqlite3", [database.path, "PRAGMA user_version = 99"])
        #expect {
            try fixture.open()
        } throws: { error in
            if case .newerVersion? = error as? DownloadQueueError { true } else { false }
        }
    }

    @Test func `a queue rejects a directory or database that other users can modify`() async throws {
        let other: uid_t = 65534
        try await fixture.open().close()
        func refusal(_ comment: String) {
            let error = #expect(throws: DownloadQueueError.self, "\(comment)") { try fixture.open() }
            guard case .unsafe = error else { return #expect(Bool(false), "\(comment): \(String(describing: error))") }
        }
        for name in ["", "bodies", "queue.sqlite", "queue.lock"] {
            let path = fixture.home.appendingPathComponent(name).path
            var facts = stat()
            try #require(stat(path, &facts) == 0)
            try #require(chmod(path, facts.st_mode & 0o777 | 0o022) == 0)
            refusal("others can write to \(name)")
            try #require(chmod(path, facts.st_mode & 0o777) == 0)
            guard geteuid() == 0 else { continue }
            try #require(chown(path, other, other) == 0)
            refusal("\(name) is another user's")
            try #require(chown(path, 0, 0) == 0)
        }
        try await fixture.open().close()
    }

    @Test func `a location that is not a directory is rejected`() throws {
        try Data().write(to: fixture.file("plain"))
        for place in [fixture.file("plain"), fixture.file("plain").appendingPathComponent("below")] {
            #expect {
                try fixture.open(place)
            } throws: { error in
                if case .cannotOpen? = error as? DownloadQueueError { true } else { false }
            }
        }
        #expect(throws: DownloadQueueError.self) {
            try fixture.open(fixture.server.url("/queue"))
        }
    }

    @Test func `a missing body fails only its own entry`() async throws {
        let queue = try fixture.open()
        let requests = [fixture.post("/post", "lost"), fixture.post("/post", "kept")]
        try await queue.enqueue([requests[0]])
        let lost = try #require(fixture.bodies.first)
        try await queue.enqueue([requests[1]])
        await queue.close()
        try FileManager.default.removeItem(at: fixture.home.appendingPathComponent("bodies/\(lost)"))
        let stray = fixture.home.appendingPathComponent("bodies/\(UUID().uuidString)")
        try Data("stray".utf8).write(to: stray)
        let next = try fixture.open()
        #expect(next.states == [.failed, .waiting])
        #expect(next.entries[0].errorDescription == DownloadQueueError.bodyMissing(requests[0].id).description)
        #expect(throws: DownloadQueueError.bodyMissing(requests[0].id)) { try next.retry(requests[0].id) }
        #expect(!FileManager.default.fileExists(atPath: stray.path))
        next.start()
        try await next.waitUntilAllFinished()
        #expect(fixture.server.requests.map(\.text) == ["kept"])
    }

    @Test func `requests that cannot be stored are rejected`() async throws {
        struct Other: DurableRequest {
            var id = UUID()
            var dependencies: Set<UUID> = []
            var failedDependencyPolicy = FailedDependencyPolicy.hold
            var priority = Operation.QueuePriority.normal
            var tag: String?
        }
        let queue = try fixture.open()
        var posted = fixture.download()
        posted.request.httpMethod = "POST"
        var streamed = fixture.post()
        streamed.request.httpBodyStream = InputStream(data: Data())
        var local = fixture.download()
        local.request.url = URL(fileURLWithPath: "/etc/passwd")
        var nowhere = fixture.download()
        nowhere.destination = nil
        var remote = fixture.download()
        remote.destination = URL(string: "https://example.com/file")
        var broken = fixture.post()
        broken.request.allHTTPHeaderFields = ["X-Field": "a\r\nX-Other: b"]
        let unsuitable: [any DurableRequest] = [Other(), posted, streamed, local, nowhere, remote, broken]
        for request in unsuitable {
            await #expect("\(request)") {
                try await queue.enqueue([request])
            } throws: { error in
                if case .unsuitableRequest? = error as? DownloadQueueError { true } else { false }
            }
        }
        let missing = OutboxRequest(fixture.post().request, body: .file(fixture.file("missing")))
        let directory = OutboxRequest(fixture.post().request, body: .file(fixture.directory.url))
        for request in [missing, directory] {
            await #expect {
                try await queue.enqueue(request)
            } throws: { error in
                if case .unreadableBody? = error as? DownloadQueueError { true } else { false }
            }
        }
        #expect(queue.entries.isEmpty)
        #expect(fixture.bodies.isEmpty)
    }

    @Test func `unknown identifiers are rejected`() async throws {
        let queue = try fixture.open()
        let id = UUID()
        let unknown = DownloadQueueError.unknownEntry(id)
        #expect(throws: unknown) { try queue.pause(id) }
        #expect(throws: unknown) { try queue.resume(id) }
        #expect(throws: unknown) { try queue.cancel(id) }
        #expect(throws: unknown) { try queue.retry(id) }
        #expect(throws: unknown) { try queue.setPriority(.high, of: id) }
        #expect(queue.entry(id) == nil)
        #expect(queue.operation(for: id) == nil)
        #expect(try await queue.enqueue([]).isEmpty)
        await queue.close()
        await queue.close()
        #expect(throws: DownloadQueueError.closed) { try queue.pause(id) }
        await #expect(throws: DownloadQueueError.closed) { try await queue.flush() }
    }

    @Test func `an operation rejected by its operation queue fails its entry`() async throws {
        let bounded = RequestOperationQueue()
        bounded.maximumLength = 1
        bounded.isSuspended = true
        let queue = try fixture.open(operationQueue: bounded)
        queue.start()
        let requests = [fixture.post("/post", "0"), fixture.post("/post", "1")]
        try await queue.enqueue(requests)
        try await waitUntil("the rejection of an entry: \(queue.states) \(bounded.queuedOperations)") {
            queue.states == [.waiting, .failed]
        }
        bounded.isSuspended = false
        try await queue.waitUntilAllFinished()
        #expect(queue.states == [.finished, .failed])
    }
}
