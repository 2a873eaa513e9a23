import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Tests that identical GETs in flight share one transfer, if coalescing is enabled.
@Suite struct CoalescingTests {
    let server: TestServer
    let gate = TestServer.Gate()
    let manager: HTTPRequestOperationManager

    init() throws {
        var server = try TestServer()
        // A server that previously used this port may have sent challenges, in which case transfers are not shared.
        while ConnectionConfiguration().isAsked(about: Target(server.url("/"))) { server = try TestServer() }
        self.server = server
        server.route("GET", "/data", .pattern(count: 500_000).heldBody(by: gate, afterBytes: 100_000))
        manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = testQueue
        manager.responseSerializer = HTTPResponseSerializer()
        manager.coalescesIdenticalRequests = true
    }

    private func enqueue(_ path: String = "data", headers: [String: String?] = [:]) throws -> HTTPRequestOperation {
        manager.enqueue(try manager.makeOperation(.get, path, headers: headers))
    }

    private func isWhole(_ operation: HTTPRequestOperation) -> Bool {
        operation.responseData?.count == 500_000
            && operation.responseData?.withUnsafeBytes { PatternBytes.matches($0, offset: 0) } == true
    }

    @Test func `twenty identical operations share one transfer`() async throws {
        var operations = try (0..<10).map { _ in try enqueue() }
        try await server.waitForRequests(count: 1, timeout: 100)
        operations += try (0..<10).map { _ in try enqueue() }
        gate.open()
        for operation in operations {
            try await operation.finished()
            #expect(isWhole(operation))
        }
        #expect(server.requests.count == 1)
    }

    @Test func `cancelling one operation leaves the others running`() async throws {
        let operations = try (0..<3).map { _ in try enqueue() }
        try await server.waitForRequests(count: 1, timeout: 100)
        operations[0].cancel()
        await #expect(throws: URLError.self) { try await operations[0].finished() }
        gate.open()
        for operation in operations.dropFirst() {
            try await operation.finished()
            #expect(isWhole(operation))
        }
        #expect(server.requests.count == 1)
    }

    @Test func `cancelling all operations ends the transfer, and the next operation starts a new one`() async throws {
        let operations = try (0..<3).map { _ in try enqueue() }
        try await server.waitForRequests(count: 1, timeout: 100)
        for operation in operations { operation.cancel() }
        for operation in operations { await #expect(throws: URLError.self) { try await operation.finished() } }
        try await server.wait(timeout: 100) { $0.openConnectionCount == 0 }
        gate.open()
        let next = try enqueue()
        try await next.finished()
        #expect(isWhole(next) && server.requests.count == 2)
    }

    @Test func `a paused operation resumes with its own transfer`() async throws {
        server.removeRoute("/data")
        server.servePattern(count: 500_000, at: "/data", etag: "\"v1\"") { [gate] request, response in
            request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: 100_000) : response
        }
        let one = try manager.makeOperation(.get, "data"), flowing = Signal()
        one.onFirstBytes { flowing.fire() }
        manager.enqueue(one)
        let two = try enqueue()
        try await server.waitForRequests(count: 1, timeout: 100)
        #expect(await Task.detached { flowing.wait() }.value)
        one.pause()
        gate.open()
        try await two.finished()
        #expect(isWhole(two))
        one.resume()
        try await one.finished()
        #expect(isWhole(one))
    }

    @Test func `different requests do not share a transfer`() async throws {
        gate.open()
        let operations = [try enqueue(), try enqueue(headers: ["X-A": "1"]), try enqueue("data?x=1")]
        for operation in operations { try await operation.finished() }
        let post = try manager.makeOperation(.post, "data")
        _ = try? await manager.enqueue(post).finished()
        #expect(server.requests.count == 4)
    }

    /// The older file is truncated on a worker thread, so that the transfer must wait at its head.
    @Test func `an operation that joins late writes its file from the first byte`() async throws {
        let folder = try TemporaryDirectory()
        for number in 0..<5 {
            let file = folder.url.appendingPathComponent("\(number)")
            try Data(repeating: 7, count: 900_000).write(to: file)
            let gate = TestServer.Gate()
            let path = "data\(number)"
            server.route("GET", "/\(path)", .pattern(count: 500_000).heldBody(by: gate, afterBytes: 100_000))
            let first = try manager.makeOperation(.get, path)
            first.outputStream = OutputStream(toMemory: ())
            let flowing = Signal()
            first.onFirstBytes { flowing.fire() }
            manager.enqueue([first])
            #expect(await Task.detached { flowing.wait() }.value)
            let late = try manager.makeOperation(.get, path)
            late.outputStream = FileOutputStream(fileURL: file)
            manager.enqueue([late])
            gate.open()
            try await first.finished()
            try await late.finished()
            #expect(try Data(contentsOf: file) == PatternBytes.data(count: 500_000))
        }
    }

    @Test func `an operation with a blocked stream does not delay the others`() async throws {
        let stream = GatedStream()
        let stuck = try manager.makeOperation(.get, "data")
        stuck.outputStream = stream
        manager.enqueue([stuck])
        while !stream.isWaiting { await Task.yield() }
        let others = try (0..<3).map { _ in try manager.makeOperation(.get, "data") }
        for other in others { other.outputStream = OutputStream(toMemory: ()) }
        manager.enqueue(others)
        gate.open()
        let deadline = Date(timeIntervalSinceNow: 30)
        while others.contains(where: { !$0.isFinished }), Date() < deadline { await Task.yield() }
        #expect(others.allSatisfy { $0.isFinished && $0.error == nil } && !stuck.isFinished)
        stream.letThrough()
        try await stuck.finished()
        #expect(stream.bytes == PatternBytes.data(count: 500_000))
    }

    @Test func `operations share a transfer on the network thread of their choice`() async throws {
        server.route("GET", "/quick", .text("quick"))
        func operation(_ thread: NetworkThread, _ path: String, coalesces: Bool) -> HTTPRequestOperation {
            let operation = HTTPRequestOperation(request: URLRequest(url: server.url(path)), thread: thread)
            operation.coalescesIdenticalRequests = coalesces
            manager.enqueue([operation])
            return operation
        }
        do {
            let thread = NetworkThread()
            try await operation(thread, "/quick", coalesces: false).finished()
            // These operations use a connection that only this thread has kept.
            let shared = (0..<5).map { _ in operation(thread, "/data", coalesces: true) }
            try await server.waitForRequests(count: 2, timeout: 100)
            // An operation that begins after the transfer has ended has its own transfer.
            try await waitUntil { shared.allSatisfy { $0.responseHead != nil } }
            gate.open()
            for operation in shared {
                try await operation.finished()
                #expect(isWhole(operation))
            }
            #expect(server.requests.count == 2 && server.totalConnectionCount == 1)
        }
        // The thread and its connection have been released: no shared object retains them.
        try await server.wait(timeout: 100) { $0.openConnectionCount == 0 }
    }

    @Test func `the shared transport of a thread can be released while it is requested again`() {
        let thread = NetworkThread()
        let found = Atomic<Int>(0)
        DispatchQueue.concurrentPerform(iterations: 4) { _ in
            for _ in 0..<20_000 {
                // It is released at once, by whichever thread releases it last.
                if CoalescingTransport.over(thread).transferCount == 0 { found.add(1, ordering: .relaxed) }
            }
        }
        #expect(found.load(ordering: .relaxed) == 80_000)
    }

    @Test func `an operation fails if its network thread cannot start`() async throws {
        let thread = NetworkThread(stackSize: 1 << 50)
        for coalesces in [false, true] {
            let operation = HTTPRequestOperation(request: URLRequest(url: server.url("/data")), thread: thread)
            operation.coalescesIdenticalRequests = coalesces
            manager.enqueue([operation])
            await #expect(throws: URLError.self) { try await operation.finished() }
            #expect((operation.error as? URLError)?.code == .cannotLoadFromNetwork)
        }
    }

    @Test func `a failure is delivered to all operations that share the transfer`() async throws {
        server.route("GET", "/broken", .text("x").delayed(0.1).resetBeforeHead())
        let operations = try (0..<5).map { _ in try enqueue("broken") }
        for operation in operations {
            await #expect(throws: URLError.self) { try await operation.finished() }
            #expect((operation.error as? URLError)?.code == .networkConnectionLost)
        }
        #expect(server.requests.count == 1)
    }
}
