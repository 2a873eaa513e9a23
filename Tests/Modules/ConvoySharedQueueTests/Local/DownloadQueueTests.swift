import ConvoyDownloads
import ConvoyOperations
import ConvoySharedQueue
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

struct DownloadQueueTests {
    private let fixture: QueueFixture
    private let bytes = PatternBytes.data(count: 200_000)

    init() throws {
        fixture = try QueueFixture()
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        fixture.server.route("POST", "/post", .text("thanks", status: 201))
    }

    @Test func `an enqueued download produces its file`() async throws {
        let queue = try fixture.open()
        queue.start()
        let request = fixture.download()
        let operation = try await queue.enqueue(request)
        try await operation.finished()
        #expect(fixture.contents("file.bin") == bytes)
        try await queue.waitUntilAllFinished()
        let entry = try #require(queue.entry(request.id))
        #expect(entry.state == .finished)
        #expect(entry.attempts == 1)
        #expect(entry.bytesCompleted == Int64(bytes.count))
        #expect(entry.bytesExpected == Int64(bytes.count))
        #expect(entry.file?.path == fixture.file("file.bin").path)
        #expect(entry.statusCode == 200)
        #expect(entry.kind == .download)
        #expect(queue.operation(for: request.id) == nil)
    }

    @Test func `a file is synchronized before its entry is stored as finished`() async throws {
        let log = Locked<[String]>([])
        var calls = FileCalls()
        let real = calls
        calls.synchronize = { descriptor in
            log.withLock { $0.append(FileIdentity(descriptor)?.isPlain == true ? "file" : "directory") }
            return real.synchronize(descriptor)
        }
        let logging = calls
        let queue = try fixture.open { operation, _ in (operation as? DownloadOperation)?.fileCalls = logging }
        queue.start()
        try await queue.enqueue(fixture.download())
        try await queue.waitUntilAllFinished()
        #expect(log.withLock { $0 } == ["file", "directory"])
    }

    @Test func `a POST arrives with its body and its Idempotency-Key`() async throws {
        let queue = try fixture.open()
        queue.start()
        let request = fixture.post("/post", "hello")
        let operation = try await queue.enqueue(request)
        try await operation.finished()
        #expect(operation.responseString == "thanks")
        let received = try #require(fixture.server.requests("/post").first)
        #expect(received.text == "hello")
        #expect(received.headers["Idempotency-Key"] == request.idempotencyKey)
        #expect(received.headers["Content-Length"] == "5")
        #expect(received.headers["Content-Type"] == "application/octet-stream")
        try await queue.waitUntilAllFinished()
        #expect(queue.entry(request.id)?.idempotencyKey == request.idempotencyKey)
        try await waitUntil("the body to be removed") { fixture.bodies.isEmpty }
    }

    @Test func `a body file is copied when it is enqueued`() async throws {
        let queue = try fixture.open()
        let large = PatternBytes.data(count: 1_000_000)
        try large.write(to: fixture.file("body"))
        var request = URLRequest(url: fixture.server.url("/post"))
        request.httpMethod = "POST"
        request.setValue("image/png", forHTTPHeaderField: "Content-Type")
        request.setValue("\"mine\"", forHTTPHeaderField: "Idempotency-Key")
        try await queue.enqueue(OutboxRequest(request, body: .file(fixture.file("body"))))
        try FileManager.default.removeItem(at: fixture.file("body"))
        queue.start()
        try await queue.waitUntilAllFinished()
        let received = try #require(fixture.server.requests("/post").first)
        #expect(received.body == large)
        #expect(received.headers["Content-Type"] == "image/png")
        #expect(received.headers["Idempotency-Key"] == "\"mine\"")
    }

    @Test func `nothing runs before start()`() async throws {
        let queue = try fixture.open()
        let operation = try await queue.enqueue(fixture.download())
        // Awaiting an operation usually starts it, but not if it is in a queue.
        let waiting = Task { try await operation.finished() }
        try await queue.flush()
        #expect(queue.states == [.waiting])
        #expect(!operation.isExecuting)
        #expect(fixture.server.requests.isEmpty)
        queue.start()
        try await waiting.value
        #expect(fixture.contents("file.bin") == bytes)
    }

    @Test func `each operation is configured once with its entry`() async throws {
        let seen = Locked<[String]>([])
        let queue = try fixture.open { operation, entry in
            seen.withLock { $0.append("\(entry.tag ?? "") \(entry.state) \(operation.state)") }
        }
        queue.start()
        var request = fixture.download()
        request.tag = "photo"
        try await queue.enqueue(request)
        try await queue.waitUntilAllFinished()
        #expect(seen.withLock { $0 } == ["photo waiting ready"])
    }

    @Test func `handlers run after the outcome is stored`() async throws {
        let stored = Locked<DownloadQueue.State?>(nil)
        let queue = try fixture.open()
        let request = fixture.post()
        let operation = try await queue.enqueue(request)
        operation.setCompletionHandler(success: { [fixture] _, _ in
            let copy = try? fixture.openAsAfterKill()
            stored.withLock { $0 = copy?.entry(request.id)?.state }
        })
        queue.start()
        try await operation.finished()
        #expect(stored.withLock { $0 } == .finished)
    }

    @Test func `a failed entry is listed and can be retried`() async throws {
        fixture.server.route("/broken", .status(500))
        let queue = try fixture.open()
        queue.start()
        let request = fixture.download("/broken")
        let operation = try await queue.enqueue(request)
        await #expect(throws: (any Error).self) { try await operation.finished() }
        try await queue.waitUntilAllFinished()
        let failed = try #require(queue.entry(request.id))
        #expect(failed.state == .failed)
        #expect(failed.statusCode == 500)
        #expect(failed.errorDescription?.contains("500") == true)
        fixture.server.serve(bytes, at: "/broken")
        try queue.retry(request.id)
        try await queue.waitUntilAllFinished()
        let entry = try #require(queue.entry(request.id))
        #expect(entry.state == .finished)
        #expect(entry.attempts == 2)
        #expect(entry.errorDescription == nil)
        #expect(throws: DownloadQueueError.cannotRetry(request.id)) { try queue.retry(request.id) }
    }

    @Test func `retries of the operation count as attempts`() async throws {
        fixture.server.route("POST", "/post", inTurn: [.status(503), .status(503), .text("ok")])
        let queue = try fixture.open { operation, _ in
            var policy = RetryPolicy()
            (policy.initialDelay, policy.maximumGateDuration) = (0.001, 0)
            operation.retryPolicy = policy
        }
        queue.start()
        let request = fixture.post()
        try await queue.enqueue(request)
        try await queue.waitUntilAllFinished()
        // A POST is retried because of its key.
        #expect(queue.entry(request.id)?.state == .finished)
        #expect(queue.entry(request.id)?.attempts == 3)
        #expect(Set(fixture.server.requests("/post").map { $0.headers["Idempotency-Key"] }).count == 1)
        #expect(fixture.server.requests("/post").map(\.text) == ["text", "text", "text"])
    }

    @Test func `a paused entry stops and resumes`() async throws {
        let gate = TestServer.Gate()
        fixture.server.serve(bytes, at: "/slow", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: 50_000) : response
        }
        defer { gate.open() }
        let queue = try fixture.open()
        queue.start()
        let request = fixture.download("/slow")
        try await queue.enqueue(request)
        try await waitUntil("half") { (queue.entry(request.id)?.bytesCompleted ?? 0) >= 50_000 }
        try queue.pause(request.id)
        try await queue.waitFor(.paused, of: request.id)
        try await queue.waitUntilAllFinished()
        #expect(queue.operation(for: request.id)?.isPaused == true)
        try queue.resume(request.id)
        try await queue.waitUntilAllFinished()
        #expect(queue.entry(request.id)?.state == .finished)
        #expect(queue.entry(request.id)?.attempts == 1)
        #expect(fixture.contents("file.bin") == bytes)
    }

    @Test func `pausing the operation pauses the entry`() async throws {
        let queue = try fixture.open()
        let request = fixture.download()
        let operation = try await queue.enqueue(request)
        operation.pause()
        queue.start()
        #expect(queue.entry(request.id)?.state == .paused)
        #expect(operation.isPaused)
        operation.resume()
        try await operation.finished()
        #expect(fixture.contents("file.bin") == bytes)
    }

    @Test func `a paused queue starts nothing until it resumes all entries that are not paused individually`() async throws {
        let queue = try fixture.open()
        queue.start()
        queue.pause()
        let requests = (0..<5).map { fixture.download("/file", to: "\($0)") }
        try await queue.enqueue(requests)
        try queue.pause(requests[2].id)
        try await queue.flush()
        #expect(queue.isPaused)
        #expect(fixture.server.requests.isEmpty)
        queue.resume()
        try await queue.waitUntilAllFinished()
        #expect(queue.states == [.finished, .finished, .paused, .finished, .finished])
        try queue.resume(requests[2].id)
        try await queue.waitUntilAllFinished()
        #expect(queue.states.allSatisfy { $0 == .finished })
        queue.removeFinished()
        #expect(queue.entries.isEmpty)
    }

    @Test(arguments: ["waiting", "running", "paused", "failed", "finished"])
    func `a cancelled entry is removed in any state`(_ state: String) async throws {
        let gate = TestServer.Gate()
        defer { gate.open() }
        fixture.server.route("POST", "/hold", .text("late").held(by: gate))
        fixture.server.route("POST", "/broken", .status(500))
        let queue = try fixture.open()
        if state != "waiting" { queue.start() }
        let request = fixture.post(state == "failed" ? "/broken" : state == "finished" ? "/post" : "/hold")
        let operation = try await queue.enqueue(request)
        switch state {
        case "running", "paused": try await queue.waitFor(.running, of: request.id)
        case "failed", "finished": try await queue.waitUntilAllFinished()
        default: break
        }
        if state == "paused" { try queue.pause(request.id) }
        try queue.cancel(request.id)
        #expect(queue.entry(request.id) == nil)
        #expect(throws: DownloadQueueError.unknownEntry(request.id)) { try queue.cancel(request.id) }
        try? await operation.finished()
        #expect(operation.isFinished)
        try await queue.flush()
        try await waitUntil("the body to be removed") { fixture.bodies.isEmpty }
        await queue.close()
        #expect(try fixture.open().entries.isEmpty)
    }

    @Test func `a cancelled download leaves no partial file`() async throws {
        let gate = TestServer.Gate()
        defer { gate.open() }
        fixture.server.serve(bytes, at: "/slow", etag: "\"1\"") { _, response in
            response.heldBody(by: gate, afterBytes: 50_000)
        }
        let queue = try fixture.open()
        queue.start()
        let request = fixture.download("/slow")
        let operation = try await queue.enqueue(request)
        try await waitUntil("half") { operation.downloadProgress.bytesReceived >= 50_000 }
        operation.cancel()
        try? await operation.finished()
        try await waitUntil("the files to be removed") {
            try FileManager.default.contentsOfDirectory(atPath: fixture.directory.url.path) == ["queue"]
        }
        #expect(queue.entries.isEmpty)
    }

    @Test func `entries run in the order of their priorities`() async throws {
        fixture.manager.maxConcurrentOperationCount = 1
        let queue = try fixture.open()
        let requests = (0..<4).map { index in
            var request = fixture.post("/post", "\(index)")
            request.priority = index == 2 ? .high : .normal
            return request
        }
        try await queue.enqueue(requests)
        try queue.setPriority(.veryHigh, of: requests[3].id)
        queue.start()
        try await queue.waitUntilAllFinished()
        #expect(fixture.server.requests("/post").map(\.text) == ["3", "2", "0", "1"])
    }

    @Test func `updates report each state and end with the queue`() async throws {
        let queue = try fixture.open()
        let updates = queue.updates
        let request = fixture.post()
        try await queue.enqueue(request)
        queue.start()
        try await queue.waitUntilAllFinished()
        try queue.cancel(request.id)
        await queue.close()
        var states: [DownloadQueue.State] = []
        for await entry in updates {
            #expect(entry.id == request.id)
            states.append(entry.state)
        }
        #expect(states == [.waiting, .running, .finished, .cancelled])
    }

    @Test func `the updates of a closed queue end immediately`() async throws {
        let queue = try fixture.open()
        await queue.close()
        let updates = queue.updates
        let hasEnded = Locked(false)
        let reading = Task {
            for await entry in updates { Issue.record("\(entry)") }
            hasEnded.withLock { $0 = true }
        }
        defer { reading.cancel() }
        try await waitUntil("the end of the updates") { hasEnded.withLock { $0 } }
    }

    @Test func `operations can run in a Foundation operation queue`() async throws {
        let foundation = OperationQueue()
        foundation.maxConcurrentOperationCount = 2
        let queue = try fixture.open(operationQueue: foundation)
        queue.start()
        let requests = (0..<20).map { fixture.post("/post", "\($0)") }
        try await queue.enqueue(requests)
        try await queue.waitUntilAllFinished()
        #expect(Set(fixture.server.requests("/post").map(\.text)).count == 20)
    }

    @Test func `closing the queue ends all operations and keeps the entries`() async throws {
        let gate = TestServer.Gate()
        defer { gate.open() }
        fixture.server.route("POST", "/hold", .text("late").held(by: gate))
        let queue = try fixture.open()
        queue.start()
        let running = try await queue.enqueue(fixture.post("/hold"))
        var second = fixture.post("/hold")
        second.dependencies = Set(queue.entries.map(\.id))
        let waiting = try await queue.enqueue(second)
        try await fixture.server.waitForRequests(count: 1)
        let all = Task { try await queue.waitUntilAllFinished() }
        await queue.close()
        try? await running.finished()
        #expect(running.isFinished)
        #expect(running.cancellationReason as? DownloadQueueError == .closed)
        // The error is not a cancellation, which many programs ignore.
        try? await waiting.finished()
        #expect(waiting.isFinished)
        #expect(waiting.error as? DownloadQueueError == .closed)
        // The call may have begun after the queue was closed.
        await #expect(throws: DownloadQueueError.closed) { try await all.value }
        await #expect(throws: DownloadQueueError.closed) { try await queue.enqueue(fixture.post()) }
        let next = try fixture.open()
        #expect(next.states == [.waiting, .waiting])
        #expect(next.entries.map(\.attempts) == [1, 0])
    }

    @Test func `releasing the queue closes it`() async throws {
        var queue: DownloadQueue? = try fixture.open()
        try await queue?.enqueue(fixture.post())
        queue = nil
        var next: DownloadQueue?
        try await waitUntil("the lock to be released") {
            next = try? fixture.open()
            return next != nil
        }
        #expect(next?.states == [.waiting])
    }

    @Test func `10,000 requests are enqueued in one call within 20 seconds`() async throws {
        let queue = try fixture.open()
        let requests = (0..<10_000).map { fixture.download("/file", to: "\($0)") }
        let clock = ContinuousClock()
        let duration = try await clock.measure { try await queue.enqueue(requests) }
        print("10,000 enqueued in \(duration)")
        #expect(duration < .seconds(20))
        #expect(queue.entries.map(\.id) == requests.map(\.id))
        await queue.close()
        let start = clock.now
        let next = try fixture.open()
        print("opened in \(start.duration(to: clock.now))")
        #expect(next.entries.map(\.id) == requests.map(\.id))
    }
}
