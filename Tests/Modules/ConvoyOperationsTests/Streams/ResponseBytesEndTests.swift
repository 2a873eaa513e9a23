import ConvoyStorySupport
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Loops over a response's bytes that end early.
@Suite(.timeLimit(.minutes(2))) struct ResponseBytesEndTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
    }

    @Test func `leaving the loop ends the transfer even if the sequence is still referenced`() async throws {
        let sender = try EndlessSender()
        defer { sender.stop() }
        let (bytes, _) = try await manager.bytes(.get, try #require(sender.url))
        for try await line in bytes.lines {
            #expect(line.count == EndlessSender.lineLength - 1)
            break
        }
        let left = DispatchTime.now()
        try await waitUntil("the server to see the end") { !sender.progress.ends.isEmpty }
        let end = try #require(sender.progress.ends.first)
        // The server may have detected the end before this task continued.
        let delay = Double(end.uptimeNanoseconds) - Double(left.uptimeNanoseconds)
        print("the server saw the end after \(delay / 1e6) ms")
        try await waitUntil("the end") { bytes.operation.isFinished }
        #expect(bytes.operation.isCancelled)
    }

    @Test func `an abandoned transfer closes its connection, and later ones keep theirs`() async throws {
        server.route("GET", "/x", .pattern(count: 10_000).stalls(afterBytes: 1000))
        server.route("GET", "/small", .text("a"))
        let (bytes, _) = try await manager.bytes(.get, "x")
        for try await _ in bytes { break }
        try await waitUntil("the end") { server.statistics.openConnectionCount == 0 }
        for _ in 0..<3 { let _: String = try await manager.get("small") }
        #expect(server.statistics.totalConnectionCount == 2)
    }

    @Test func `a transfer that waits for a reader ends when the reader is gone`() throws {
        let pipe = ResponsePipe()
        [UInt8](repeating: 0, count: ResponsePipe.capacity).withUnsafeBytes { pipe.write($0) }
        let calls = Locked(0)
        #expect(pipe.waitsForRoom { calls.withLock { $0 += 1 } })
        #expect(calls.withLock { $0 } == 0)
        pipe.abandon()
        #expect(calls.withLock { $0 } == 1)
        #expect(!pipe.waitsForRoom {})
    }

    @Test func `bytes that are not read are not fetched`() async throws {
        let sender = try EndlessSender()
        defer { sender.stop() }
        func operationOfDroppedBytes() async throws -> URLConnectionOperation {
            try await manager.bytes(.get, try #require(sender.url)).0.operation
        }
        let operation = try await operationOfDroppedBytes()
        try await waitUntil("the end") { operation.isFinished && !sender.progress.ends.isEmpty }
        #expect(operation.isCancelled)
    }

    @Test(arguments: [true, false])
    func `cancelling the task cancels the operation, and the loop throws`(waits: Bool) async throws {
        server.route("GET", "/x", .bytes(Data("a\nb\nc\nd\n".utf8)).stalls(afterBytes: waits ? 2 : 6))
        let (bytes, _) = try await manager.bytes(.get, "x")
        let gate = TestServer.Gate()
        let task = Task {
            var lines: [String] = []
            do {
                for try await line in bytes.lines {
                    lines.append(line)
                    if !waits {
                        // The task is cancelled in the middle of the loop, with lines available.
                        gate.open()
                        while !Task.isCancelled { await Task.yield() }
                    }
                }
            } catch let error as URLError {
                return (lines, error.code)
            }
            return (lines, URLError.Code.unknown)
        }
        try await waitUntil("a line") { waits ? bytes.operation.transferProgress.bytesReceived == 2 : gate.isOpen }
        task.cancel()
        let (lines, code) = try await task.value
        #expect(code == .cancelled && lines.count <= 1)
        #expect(bytes.operation.isCancelled && bytes.operation.isFinished)
    }

    @Test func `a task that is already cancelled sends nothing`() async throws {
        server.route("GET", "/x", .text("a"))
        let manager = manager
        let listener = StoryListener()
        manager.eventMonitors = [listener.monitor]
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            return try await manager.bytes(.get, "x").1
        }
        task.cancel()
        let error = await #expect(throws: URLError.self) { _ = try await task.value }
        #expect(error?.code == .cancelled)
        #expect(server.requests.isEmpty)
        // The operation is cancelled before it is enqueued.
        #expect(listener.faults().isEmpty)
        guard case .stopped = listener.events.dropFirst().first?.kind else {
            return #expect(Bool(false), "\(listener.events)")
        }
    }

    @Test func `cancelling the operation inside the loop ends it`() async throws {
        server.route("GET", "/x", .bytes(Data("a\nb\n".utf8)).stalls(afterBytes: 2))
        let (bytes, _) = try await manager.bytes(.get, "x")
        let error = await #expect(throws: URLError.self) {
            for try await _ in bytes.lines { bytes.operation.cancel() }
        }
        #expect(error?.code == .cancelled)
    }

    @Test func `a truncated body throws after the received bytes`() async throws {
        server.route("GET", "/x", .pattern(count: 1000).truncated(afterBytes: 600))
        let (bytes, _) = try await manager.bytes(.get, "x")
        var data = Data()
        let error = await #expect(throws: URLError.self) { for try await byte in bytes { data.append(byte) } }
        #expect(error?.code == .networkConnectionLost)
        #expect(data == PatternBytes.data(count: 600))
    }

    @Test func `an operation that was read and has finished is released`() async throws {
        server.route("GET", "/x", .pattern(count: 1_000_000))
        weak var operation: URLConnectionOperation?
        func read() async throws {
            let (bytes, _) = try await manager.bytes(.get, "x")
            operation = bytes.operation
            for try await _ in bytes.chunks {}
        }
        try await read()
        try await waitUntil("the operation to be released") { operation == nil }
    }
}
