import ConvoyOperations
import ConvoyRealtime
import ConvoySerialization
import ConvoySession
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Event sources among other operations.
@Suite struct EventSourceOperationTests {
    private let server: TestServer
    private let recorder = EventRecorder()

    init() throws {
        server = try TestServer()
        server.route("/open", .openEvents("data: a\n\n"))
        server.route("/get", .text("got"))
    }

    private func manager() -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = DispatchQueue(label: "handlers")
        manager.responseSerializer = StringResponseSerializer()
        return manager
    }

    @Test func `200 open sources do not delay other requests`() async throws {
        let manager = manager()
        manager.maxConcurrentOperationCount = 2
        manager.maxConcurrentOperationCountPerHost = 1
        manager.maximumStartRate = StartRate(perSecond: 0.001)
        let sources = (0..<200).map { _ in manager.eventSource("open") }
        try await waitUntil { sources.allSatisfy { $0.readyState == .open } }
        let text: String = try await manager.get("get")
        #expect(text == "got")
        #expect(manager.queuedOperationCount == 200)
        for source in sources { source.close() }
        for source in sources { try await source.finished() }
        #expect(manager.queuedOperationCount == 0)
    }

    @Test func `a source waits for its dependencies, a suspended queue and a barrier`() async throws {
        server.route("/login", .text("token"))
        let manager = manager()
        let login = try manager.makeOperation(.get, "login")
        let source = try manager.makeEventSource("open")
        source.addDependency(login)
        source.prepare = { request in
            request.setValue(login.responseString, forHTTPHeaderField: "Authorization")
        }
        manager.enqueue(source)
        // Wait for a request that is enqueued after the source.
        let _: String = try await manager.get("get")
        #expect(server.requests("/open").isEmpty)
        manager.enqueue(login)
        try await waitUntil { source.readyState == .open }
        #expect(server.requests("/open").map { $0.headers["Authorization"] } == ["token"])
        manager.operationQueue.isSuspended = true
        let suspended = manager.eventSource("open")
        let _: String = try await self.manager().get("get")
        #expect(server.requests("/open").count == 1)
        let recorder = recorder
        manager.operationQueue.addBarrierBlock { recorder.note("barrier") }
        let behind = manager.eventSource("open")
        manager.operationQueue.isSuspended = false
        try await waitUntil { suspended.readyState == .open }
        #expect(behind.readyState == .connecting)
        source.close()
        suspended.close()
        try await waitUntil { behind.readyState == .open }
        #expect(recorder.notes == ["barrier"])
        behind.close()
        try await behind.finished()
    }

    @Test func `other operations can wait until a source is open or closed`() async throws {
        let manager = manager()
        let source = try manager.makeEventSource("open")
        let (whenOpen, whenClosed) = (try manager.makeOperation(.get, "get"), try manager.makeOperation(.get, "get"))
        whenOpen.addDependency(source.opening)
        whenClosed.addDependency(source)
        manager.enqueue([whenOpen, whenClosed])
        let _: String = try await manager.get("get")
        #expect(server.requests.count == 1)
        manager.enqueue(source)
        try await whenOpen.finished()
        #expect(source.readyState == .open)
        #expect(!whenClosed.isFinished)
        #expect(source.opening.isFinished)
        source.close()
        try await whenClosed.finished()
    }

    @Test func `operations that depend on a failed opening follow their failure policy`() async throws {
        server.route("/gone", .status(410))
        let manager = manager()
        let source = try manager.makeEventSource("gone")
        let (run, cancelled) = (try manager.makeOperation(.get, "get"), try manager.makeOperation(.get, "get"))
        for operation in [run, cancelled] { operation.addDependency(source.opening) }
        cancelled.dependencyFailurePolicy = .cancel
        manager.enqueue([run, cancelled, source])
        try await run.finished()
        await #expect(throws: URLError.self) { try await cancelled.finished() }
        #expect((cancelled.cancellationReason as? HTTPError)?.statusCode == 410)
        #expect(source.opening.isCancelled)
        #expect((source.opening.cancellationReason as? HTTPError)?.statusCode == 410)
    }

    @Test func `an event source and its opening operation run in Foundation's and Convoy's queues`() async throws {
        let queue = OperationQueue()
        let source = EventSource.test(server.url("/open"))
        let (opened, closed) = (BlockOperation {}, BlockOperation {})
        opened.addDependency(source.opening)
        closed.addDependency(source)
        for operation in [opened, closed, source] { queue.addOperation(operation) }
        try await waitUntil { opened.isFinished }
        #expect(!closed.isFinished)
        source.close()
        try await waitUntil { closed.isFinished && queue.operationCount == 0 }
        let enqueued = EventSource.test(server.url("/open"))
        let own = RequestOperationQueue()
        own.maxConcurrentOperationCount = 1
        for operation in [enqueued.opening, enqueued] { own.addOperation(operation) }
        try await waitUntil { enqueued.opening.isFinished }
        enqueued.cancel()
        try await waitUntil { own.queuedOperationCount == 0 }
    }

    @Test func `a source without references lives until it is closed`() async throws {
        let gate = TestServer.Gate()
        server.route(
            "/",
            inTurn: [
                .chunked(["data: a\n\n", "data: b\n\n"], type: "text/event-stream").heldBody(by: gate, afterBytes: 9),
                .noMore,
            ])
        struct Weak { weak var source: EventSource? }
        let held = Locked(Weak())
        let recorder = recorder
        func begin() {
            let source = EventSource.test(server.url("/"), recorder)
            source.addListener { _ in _ = source.readyState }
            held.withLock { $0.source = source }
            source.start()
        }
        begin()
        try await waitUntil { recorder.data == ["a"] }
        gate.open()
        try await waitUntil { recorder.notes.last == "success" }
        #expect(recorder.data == ["a", "b"])
        try await waitUntil { held.withLock { $0.source == nil } }
        // A source that never started is released immediately, and an operation waiting for its opening continues.
        let waiting = BlockOperation {}
        func abandon() {
            let source = EventSource.test(server.url("/"))
            waiting.addDependency(source.opening)
        }
        abandon()
        #expect(waiting.isReady)
    }

    @Test func `leaving the loop over a manager's events closes their source`() async throws {
        let manager = manager()
        for try await event in try manager.events("open") {
            #expect(event.data == "a")
            break
        }
        try await waitUntil { manager.queuedOperationCount == 0 }
        let task = Task { for try await _ in try manager.events("open") {} }
        try await waitUntil { server.requests.count == 2 }
        task.cancel()
        _ = await task.result
        try await waitUntil { manager.queuedOperationCount == 0 }
    }

    @Test func `a session creates sources, and an invalid request fails its source`() async throws {
        let session = HTTPSessionManager(baseURL: server.url)
        session.completionQueue = DispatchQueue(label: "handlers")
        let recorder = recorder
        let source = session.eventSource("open") { source, event in
            recorder.note(event)
            source.close()
        }
        try await source.finished()
        #expect(recorder.data == ["a"])
        let broken = session.eventSource("http://")
        await #expect(throws: (any Error).self) { try await broken.finished() }
        #expect(broken.readyState == .closed)
    }

    @Test func `a source answers authentication challenges and keeps cookies`() async throws {
        server.route("/private") { request in
            guard request.headers["Authorization"] == "Basic YWRhOmxvdmU=" else {
                return .status(401, headers: ["WWW-Authenticate": "Basic realm=x"])
            }
            guard request.headers["Cookie"] == "seen=1" else {
                return .events("data: a\n\n").header("Set-Cookie", "seen=1")
            }
            return .noMore
        }
        let manager = manager()
        let source = try manager.makeEventSource("private")
        source.credential = URLCredential(user: "ada", password: "love", persistence: .forSession)
        source.retryInterval = 0.01
        recorder.listen(to: source)
        manager.enqueue(source)
        try await source.finished()
        #expect(recorder.notes == ["open", "a", "lost", "success"])
        let stranger = try manager.makeEventSource("private")
        manager.enqueue(stranger)
        let error = await #expect(throws: HTTPError.self) { try await stranger.finished() }
        #expect(error?.statusCode == 401)
    }

    @Test func `2,000 connections of one source do not leak memory`() async throws {
        let count = Locked(0)
        server.route("/") { _ in
            let number = count.withLock { count in
                count += 1
                return count
            }
            return number < 2_200 ? .events("id: \(number)\ndata: a\n\n") : .noMore
        }
        let source = EventSource.test(server.url("/"))
        source.retryInterval = 0
        let calls = Locked(0)
        source.eventHandler = { _, _ in calls.withLock { $0 += 1 } }
        source.start()
        try await waitUntil { calls.withLock { $0 } >= 200 }
        server.forgetRequests()
        let before = ProcessMeters.allocatedBytes
        try await source.finished()
        server.forgetRequests()
        #expect(calls.withLock { $0 } == 2_199)
        // Each connection may allocate less than 300 bytes.
        #expect(ProcessMeters.allocatedBytes - before < 600 << 10)
    }

    @Test func `a copy has the same settings and starts over`() async throws {
        server.route("/", inTurn: [.events("id: 7\ndata: a\n\n"), .noMore])
        let source = EventSource.test(server.url("/"), recorder)
        (source.readTimeout, source.maximumLineLength) = (5, 77)
        try await source.finished()
        let copy = source.makeCopy()
        #expect(copy.readTimeout == 5)
        #expect(copy.maximumLineLength == 77)
        #expect(copy.lastEventID == "")
        #expect(copy.readyState == .connecting)
        try await copy.finished()
        #expect(recorder.notes.count == 4)
    }

    @Test func `completion follows all events, and listeners are released`() async throws {
        let text = (0..<500).map { "data: \($0)\n\n" }.joined()
        server.route("/", inTurn: [.events(text), .noMore])
        let source = EventSource.test(server.url("/"), recorder)
        let token = Locked<Token?>(Token())
        struct Weak { weak var token: Token? }
        let weak = Locked(Weak(token: token.withLock { $0 }))
        source.addListener { [token = token.withLock { $0 }] _ in _ = token }
        token.withLock { $0 = nil }
        source.start()
        try await source.finished()
        #expect(recorder.notes.last == "success")
        #expect(recorder.data.count == 500)
        #expect(weak.withLock { $0.token == nil })
        // A late listener is released immediately.
        source.addListener { [late = Token()] _ in _ = late }
        #expect(Token.count.withLock { $0 } == 0)
    }

    private final class Token: Sendable {
        static let count = Locked(0)
        init() { Self.count.withLock { $0 += 1 } }
        deinit { Self.count.withLock { $0 -= 1 } }
    }
}
