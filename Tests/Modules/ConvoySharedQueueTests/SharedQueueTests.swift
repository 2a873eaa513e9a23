import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoySharedQueue

/// Queues, workers and a server.
@Suite struct SharedQueueTests {
    let server: TestServer

    init() throws { server = try TestServer() }

    private func manager() -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.operationQueue.maxConcurrentOperationCount = 64
        return manager
    }

    private func worker(
        _ queue: SharedQueue, lease: TimeInterval = 60, jobs: Int = 8,
        _ change: (inout SharedQueueWorker.Settings) -> Void = { _ in },
        configure: @escaping SharedQueueWorker.Configure = { _, _ in }
    ) -> SharedQueueWorker {
        var settings = SharedQueueWorker.Settings()
        (settings.leaseDuration, settings.maximumConcurrentJobs) = (lease, jobs)
        settings.retryPolicy.initialDelay = 0.01
        change(&settings)
        return SharedQueueWorker(queue: queue, manager: manager(), settings: settings, configure: configure)
    }

    private func get(_ path: String) -> SharedRequest { SharedRequest(URLRequest(url: server.url(path))) }

    /// Runs a worker until no entry is waiting or running.
    private func drain(_ queue: SharedQueue, _ worker: SharedQueueWorker) async throws {
        async let running: Void = worker.run()
        try await waitUntil("the queue to be empty") {
            try await queue.counts().allSatisfy { $0.key.isOver || $0.key == .held }
        }
        worker.stop()
        try await running
    }

    @Test("a worker reports a file that cannot be opened", .timeLimit(.minutes(1)))
    func unusable() async throws {
        let directory = try TemporaryDirectory(prefix: "convoy-shared")
        let file = try directory.write(Data(), to: "file").appendingPathComponent("queue")
        let worker = SharedQueueWorker(queue: SharedQueue(store: .sqlite(file)), manager: manager())
        await #expect { try await worker.run() } throws: { error in
            if case SharedQueueError.failed = error { true } else { false }
        }
    }

    @Test("a request is executed, and the requested part of its response is stored", arguments: StoreKind.available)
    func result(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/a", .text("hello").header("X-Name", "value").header("Set-Cookie", "id=secret"))
        var request = get("/a")
        request.responseBody = .entry()
        let long = {
            var long = get("/a"); long.responseBody = .entry(maximumLength: 4); return long
        }()
        try await queue.enqueue([request, long])
        try await drain(queue, worker(queue))
        let entry = try await queue.entry(request.id)
        #expect((entry.state, entry.statusCode, entry.size, entry.attempts) == (.done, 200, 5, 1))
        let result = try #require(try await queue.result(of: request.id))
        #expect(result.body == Data("hello".utf8))
        #expect(result.digest == "sha-256=2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
        let header = try #require(result.header)
        #expect(header.contains("X-Name: value"))
        #expect(!header.contains("secret"))
        #expect(try await queue.result(of: long.id)?.body == nil)
        #expect(try await queue.entry(long.id).errorDescription?.contains("was not stored") == true)
    }

    @Test("a failed POST is sent again with its Idempotency-Key until it succeeds", arguments: StoreKind.available)
    func retries(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("POST", "/hook", inTurn: [.status(500), .status(502), .text("fine")])
        var post = URLRequest(url: server.url("/hook"))
        post.httpMethod = "POST"
        let outbox = OutboxRequest(post, body: .data(Data("body".utf8)))
        let id = try await queue.enqueue(SharedRequest(outbox))
        try await drain(queue, worker(queue))
        #expect(try await queue.entry(id).state == .done)
        let requests = server.requests("POST", "/hook")
        #expect(requests.count == 3)
        #expect(Set(requests.compactMap { $0.headers["Idempotency-Key"] }) == [outbox.idempotencyKey])
        #expect(requests.allSatisfy { $0.body == Data("body".utf8) })
    }

    @Test("a request rejected by the server fails permanently, and can be retried manually", arguments: StoreKind.available)
    func failure(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/gone", inTurn: [.status(404), .text("back")])
        let request = get("/gone")
        try await queue.enqueue(request)
        try await drain(queue, worker(queue))
        let entry = try await queue.entry(request.id)
        #expect((entry.state, entry.statusCode) == (.failed, 404))
        #expect(entry.errorDescription?.contains("404") == true)
        #expect(try await queue.retry(SharedQueue.Filter(id: request.id)) == 1)
        try await drain(queue, worker(queue))
        #expect(try await queue.entry(request.id).state == .done)
    }

    @Test("waiting for an entry ends with it, or with an error", arguments: StoreKind.available)
    func waiting(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/a", .text("hello"))
        server.route("GET", "/gone", .status(404))
        var request = get("/a")
        request.responseBody = .entry()
        let gone = get("/gone")
        try await queue.enqueue([request, gone])
        async let done = queue.waitForEntry(request.id)
        async let failed = queue.waitForEntry(gone.id)
        try await drain(queue, worker(queue))
        #expect(try await (done.state, failed.state) == (.done, .failed))
        #expect(try await queue.result(of: request.id)?.body == Data("hello".utf8))
        await #expect(throws: SharedQueueError.self) { try await queue.waitForEntry(UUID()) }
        let held = get("/a"), task = Task { try await queue.waitForEntry(held.id) }
        try await queue.enqueue(held)
        task.cancel()
        await #expect(throws: (any Error).self) { try await task.value }
    }

    @Test("a group's completion runs once, after all members", arguments: StoreKind.available)
    func group(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/ok", .text("ok"))
        server.route("GET", "/bad", .status(404))
        server.route("POST", "/done", .text(""))
        var done = URLRequest(url: server.url("/done"))
        done.httpMethod = "POST"
        let members = (0..<20).map { get($0.isMultiple(of: 5) ? "/bad" : "/ok") }
        try await queue.enqueue(members, group: "nightly", completion: SharedRequest(OutboxRequest(done)))
        let workers = [worker(queue), worker(queue), worker(queue)]
        async let first: Void = workers[0].run()
        async let second: Void = workers[1].run()
        async let third: Void = workers[2].run()
        let counts = try await queue.waitForGroup("nightly")
        #expect(counts == [.done: 16, .failed: 4])
        try await waitUntil("the completion") { server.requests("POST", "/done").count == 1 }
        for worker in workers { worker.stop() }
        _ = try await (first, second, third)
        #expect(server.requests.last?.path == "/done")
        #expect(server.requests("POST", "/done").count == 1)
    }

    @Test("a download writes its file, and its result contains the location", arguments: StoreKind.available)
    func download(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/file", .pattern(count: 300_000))
        let file = test.directory.file("file")
        let id = try await queue.enqueue(SharedRequest(DownloadRequest(server.url("/file"), destination: file)))
        try await drain(queue, worker(queue))
        #expect(try Data(contentsOf: file).count == 300_000)
        #expect(try await queue.result(of: id)?.place == file.absoluteString)
    }

    /// The arguments are a length that a download usually keeps in memory, and a longer one.
    @Test(
        "a download that has lost its lease does not write its file, even if its worker is not yet aware of it",
        arguments: StoreKind.available, [1000, 200_000])
    func lostLease(kind: StoreKind, length: Int) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store), store = try test.open()
        let gate = TestServer.Gate()
        server.route("GET", "/file", .pattern(count: length).heldBody(by: gate, afterBytes: 500))
        let file = test.directory.file("file")
        try await queue.enqueue(SharedRequest(DownloadRequest(server.url("/file"), destination: file)))
        let worker = worker(queue)
        async let running: Void = worker.run()
        _ = try await server.waitForRequests(count: 1)
        // Simulate another worker, without an announcement.
        _ = try store.database.query("UPDATE entry SET lease = lease + 1", [])
        gate.open()
        try await waitUntil("the attempt to end") { worker.statistics.running == 0 }
        #expect(!FileManager.default.fileExists(atPath: file.path))
        #expect(worker.statistics.succeeded == 0)
        worker.stop(.now)
        try await running
    }

    @Test("secrets are not stored, and an entry waits until configure provides them", arguments: StoreKind.available)
    func secrets(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/private", .text("in"))
        var request = URLRequest(url: server.url("/private"))
        request.setValue("Bearer abc123", forHTTPHeaderField: "Authorization")
        let id = try await queue.enqueue(SharedRequest(request))
        let poor = worker(queue)
        async let running: Void = poor.run()
        try await waitUntil("the attempt to fail") { try await queue.entry(id).state == .retrying }
        poor.stop()
        try await running
        #expect(try await queue.entry(id).errorDescription?.contains("Authorization") == true)
        #expect(server.requests.isEmpty)
        try await queue.retry(SharedQueue.Filter(id: id))
        try await drain(
            queue,
            worker(
                queue,
                configure: { operation, _ in
                    operation.prepare = { $0.setValue("Bearer new", forHTTPHeaderField: "Authorization") }
                }))
        #expect(server.requests.map { $0.headers["Authorization"] } == ["Bearer new"])
        await #expect(throws: SharedQueueError.self) {
            try await queue.enqueue(SharedRequest(URLRequest(url: URL(string: "http://user:pass@example.com/")!)))
        }
    }

    @Test(
        "a running entry is stopped when cancelled or paused, and a paused one can be resumed",
        arguments: StoreKind.available)
    func control(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        let gate = TestServer.Gate()
        server.route("GET", "/slow", .text("late").held(by: gate))
        let (one, other) = (get("/slow"), get("/slow"))
        try await queue.enqueue([one, other])
        let worker = worker(queue)
        async let running: Void = worker.run()
        _ = try await server.waitForRequests(count: 2)
        #expect(try await queue.cancel(SharedQueue.Filter(id: one.id)) == 1)
        #expect(try await queue.pause(SharedQueue.Filter(id: other.id)) == 1)
        try await waitUntil("both to be stopped") { worker.statistics.running == 0 }
        gate.open()
        #expect(try await queue.resume(SharedQueue.Filter(id: other.id)) == 1)
        try await waitUntil("the other one to be done") { try await queue.entry(other.id).state == .done }
        worker.stop()
        try await running
        #expect(try await queue.entry(one.id).state == .cancelled)
    }

    @Test("a worker that stops immediately returns its entries without an attempt", arguments: StoreKind.available)
    func stop(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        let gate = TestServer.Gate()
        server.route("GET", "/slow", .text("late").held(by: gate))
        let request = get("/slow")
        try await queue.enqueue(request)
        let worker = worker(queue)
        async let running: Void = worker.run()
        _ = try await server.waitForRequests(count: 1)
        worker.stop(.now)
        try await running
        let entry = try await queue.entry(request.id)
        #expect((entry.state, entry.attempts) == (.ready, 0))
        #expect(try await queue.workers().isEmpty)
        gate.open()
    }

    @Test("limits per host apply to all workers together", arguments: StoreKind.available)
    func limits(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        let meter = Locked((now: 0, most: 0))
        server.route("GET", "/count") { _ in
            meter.withLock { ($0.now, $0.most) = ($0.now + 1, max($0.most, $0.now + 1)) }
            usleep(3000)
            meter.withLock { $0.now -= 1 }
            return .text("")
        }
        try await queue.setLimits(HostLimits(maximumConcurrentRequests: 3), host: "127.0.0.1:\(server.port)")
        try await queue.enqueue((0..<150).map { _ in get("/count") })
        let workers = (0..<4).map { _ in worker(queue, jobs: 8) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in workers { group.addTask { try await worker.run() } }
            try await waitUntil("all to be done") { try await queue.counts() == [.done: 150] }
            for worker in workers { worker.stop() }
            try await group.waitForAll()
        }
        #expect(meter.withLock { $0.most } <= 3)
    }

    @Test("a POST without a key is sent once, and entries claimed in advance continue", arguments: StoreKind.available)
    func once(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        let gate = TestServer.Gate()
        server.route("POST", "/once", .text("late").held(by: gate))
        var post = URLRequest(url: server.url("/once"))
        post.httpMethod = "POST"
        let requests = (0..<4).map { _ in SharedRequest(post) }
        try await queue.enqueue(requests)
        let worker = worker(queue, jobs: 2)
        async let running: Void = worker.run()
        _ = try await server.waitForRequests(count: 2)
        worker.stop(.now)
        try await running
        gate.open()
        let states = try await queue.counts()
        #expect(states == [.failed: 2, .ready: 2])
        let errors = try await queue.entries().compactMap(\.errorDescription)
        #expect(errors.count == 2)
        #expect(errors.allSatisfy { $0.hasPrefix(WorkStanding.unknownOutcome) })
        #expect(server.requests.allSatisfy { $0.headers["Idempotency-Key"] == nil })
    }

    @Test(
        "the limits of a host apply with and without its default port",
        arguments: [
            ("a.example:80", "a.example"), ("a.example:443", "a.example"), ("https://A.example", "a.example"),
            ("a.example:81", "a.example:81"),
        ])
    func hostNames(given: String, name: String) async throws {
        let test = try TestStore(.sqlite), queue = SharedQueue(store: test.store)
        try await queue.setLimits(HostLimits(maximumConcurrentRequests: 1), host: given)
        #expect(try await queue.hosts().map(\.name) == [name])
        await #expect(throws: SharedQueueError.self) { try await queue.setLimits(nil, host: "a b") }
    }

    @Test(
        "a worker respects its maximum number of concurrent entries, even if it claims more in advance",
        arguments: StoreKind.available)
    func jobs(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        let meter = Locked((now: 0, most: 0))
        server.route("GET", "/count") { _ in
            meter.withLock { ($0.now, $0.most) = ($0.now + 1, max($0.most, $0.now + 1)) }
            usleep(500)
            meter.withLock { $0.now -= 1 }
            return .text("")
        }
        try await queue.enqueue((0..<200).map { _ in get("/count") })
        try await drain(queue, worker(queue, jobs: 3))
        #expect(meter.withLock { $0.most } <= 3)
        #expect(try await queue.counts() == [.done: 200])
    }

    @Test("the trace of the enqueuing caller continues in the request", arguments: StoreKind.available)
    func trace(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/a", .text(""))
        var request = get("/a")
        let trace = TraceContext.root()
        request.traceContext = trace
        try await queue.enqueue(request)
        try await drain(queue, worker(queue))
        let sent = try #require(server.requests.first?.headers["traceparent"].flatMap { TraceContext(traceparent: $0) })
        #expect(sent.traceID == trace.traceID)
        #expect(sent.parentID != trace.parentID)
    }

    @Test(
        "a body is written to a folder that the worker knows, and left to another worker otherwise",
        arguments: StoreKind.available)
    func folders(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/a", .text("contents"))
        var request = get("/a")
        request.responseBody = .folder("exports", path: "2026/a.txt")
        try await queue.enqueue(request)
        try await drain(queue, worker(queue) { $0.folders = ["exports": test.directory.url] })
        #expect(try String(contentsOf: test.directory.file("2026/a.txt"), encoding: .utf8) == "contents")
        // The system sees a parent directory in the last path, although Swift sees no slash.
        for path in ["../a.txt", "a/../b", "a//b", "/a", "a/", "", ".", "../\u{301}"] {
            var escaping = get("/a")
            escaping.responseBody = .folder("exports", path: path)
            await #expect(throws: SharedQueueError.self, "\(path)") { try await queue.enqueue(escaping) }
        }
    }

    @Test(
        "an entry whose file cannot be written on one machine is left to another worker", arguments: StoreKind.available)
    func unwritable(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/a", .text("contents"))
        let place = test.directory.file("missing/file")
        let id = try await queue.enqueue(SharedRequest(DownloadRequest(server.url("/a"), destination: place)))
        let worker = worker(queue)
        async let running: Void = worker.run()
        try await waitUntil("the attempt to fail") { try await queue.entry(id).state == .retrying }
        try FileManager.default.createDirectory(at: test.directory.file("missing"), withIntermediateDirectories: false)
        try await queue.retry(SharedQueue.Filter(id: id))
        try await waitUntil("the next one to succeed") { try await queue.entry(id).state == .done }
        worker.stop()
        try await running
        #expect(try String(contentsOf: place, encoding: .utf8) == "contents")
    }

    @Test("a path written by another program cannot leave its folder", arguments: StoreKind.available)
    func escapingRow(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/a", .text("contents"))
        let inner = test.directory.file("inner")
        try FileManager.default.createDirectory(at: inner, withIntermediateDirectories: false)
        var request = get("/a")
        (request.responseBody, request.maximumAttempts) = (.folder("exports", path: "xx/a.txt"), 1)
        try await queue.enqueue(request)
        let changed = "UPDATE request SET payload = replace(payload, 'xx\\/a.txt', '..\\/a.txt')"
        _ = try test.open().database.query(changed, [])
        try await drain(queue, worker(queue) { $0.folders = ["exports": inner] })
        #expect(try await queue.entry(request.id).state == .failed)
        #expect(try await queue.entry(request.id).errorDescription?.contains("outside its folder") == true)
        #expect(!FileManager.default.fileExists(atPath: test.directory.file("a.txt").path))
    }

    @Test("an unreadable row affects only its own entry", arguments: StoreKind.available)
    func unreadable(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/a", .text(""))
        let odd = WorkItem.plain { ($0.payload, $0.standing.maximumAttempts) = ("{\"later\":1}", 1) }
        try test.open().enqueue([odd])
        let fine = get("/a")
        try await queue.enqueue(fine)
        let worker = worker(queue)
        async let running: Void = worker.run()
        // A worker of a later version may be able to read the entry.
        try await waitUntil("the entries") { try await queue.counts() == [.done: 1, .retrying: 1] }
        worker.stop()
        try await running
        #expect(try await queue.entry(odd.id).attempts == 0)
    }
}
