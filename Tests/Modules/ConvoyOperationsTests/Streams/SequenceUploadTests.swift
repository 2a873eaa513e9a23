import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations
@testable import ConvoySerialization

/// Bodies from asynchronous sequences.
@Suite(.timeLimit(.minutes(2))) struct SequenceUploadTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
    }

    struct Broken: Error, Equatable { let reason: String }

    /// Elements that are created when requested, and counted.
    private struct Pieces: AsyncSequence, Sendable {
        let count: Int
        let size: Int
        var failure: Broken?
        let asked: Counter

        struct AsyncIterator: AsyncIteratorProtocol {
            let pieces: Pieces
            var next = 0
            mutating func next() async throws -> Data? {
                pieces.asked.increment()
                guard next < pieces.count else {
                    if let failure = pieces.failure { throw failure }
                    return nil
                }
                defer { next += 1 }
                return PatternBytes.data(count: pieces.size, offset: next * pieces.size)
            }
        }

        func makeAsyncIterator() -> AsyncIterator { AsyncIterator(pieces: self) }
    }

    private final class Counter: Sendable {
        private let number = Atomic(0)
        var value: Int { number.load(ordering: .sequentiallyConsistent) }
        func increment() { number.wrappingAdd(1, ordering: .sequentiallyConsistent) }
    }

    /// Returns a sequence that yields one element and then waits until its task is cancelled.
    private func stuckPieces(_ ended: Counter) -> AsyncStream<Data> {
        let (stream, continuation) = AsyncStream.makeStream(of: Data.self)
        continuation.yield(Data("begun".utf8))
        continuation.onTermination = { _ in ended.increment() }
        return stream
    }

    @Test(arguments: [nil, 3_000_000] as [Int64?])
    func `the elements form the body, in chunks or with a known length`(length: Int64?) async throws {
        server.route("PUT", "/x", .text("ok"))
        let asked = Counter()
        try await manager.upload(
            "x", method: .put, from: .sequence(Pieces(count: 30, size: 100_000, asked: asked), length: length))
        let request = try #require(server.requests.first)
        #expect(request.body == PatternBytes.data(count: 3_000_000))
        #expect(request.headers["Content-Length"] == length.map { String($0) })
        #expect(request.headers["Transfer-Encoding"] == (length == nil ? "chunked" : nil))
        #expect(request.headers["Content-Type"] == "application/octet-stream")
        #expect(asked.value == 31)
    }

    @Test func `byte arrays and empty elements are valid, and the response's value is decoded`() async throws {
        server.route("POST", "/x", .json(text: #"{"id": 7}"#))
        struct Answer: Decodable { let id: Int }
        let pieces = AsyncStream<[UInt8]> { continuation in
            for piece in [[], [1, 2], [], [3], []] as [[UInt8]] { continuation.yield(piece) }
            continuation.finish()
        }
        let answer: Answer = try await manager.upload("x", from: .sequence(pieces))
        #expect(answer.id == 7)
        #expect(server.requests.first?.body == Data([1, 2, 3]))
    }

    @Test func `a sequence of empty elements is an empty body`() async throws {
        server.route("POST", "/x", .text("ok"))
        try await manager.upload("x", from: .sequence(AsyncStream<Data> { $0.finish() }))
        #expect(server.requests.first?.bodyLength == 0)
    }

    @Test func `the bytes of a response are uploaded as they arrive`() async throws {
        server.route("GET", "/from", .pattern(count: 5_000_000))
        server.route("POST", "/to", .text("ok"))
        let (bytes, _) = try await manager.bytes(.get, "from")
        try await manager.upload("to", from: .sequence(bytes.chunks))
        #expect(server.requests.last?.body == PatternBytes.data(count: 5_000_000))
    }

    @Test(arguments: [0, 3]) func `an error of the sequence is the operation's error`(count: Int) async throws {
        server.route("POST", "/x", .text("ok"))
        manager.retryPolicy = RetryPolicy()
        let broken = Broken(reason: "no more")
        let pieces = Pieces(count: count, size: 10, failure: broken, asked: Counter())
        await #expect(throws: broken) { try await manager.upload("x", from: .sequence(pieces)) }
        // The upload also fails if the sequence could be created again.
        await #expect(throws: broken) { try await manager.upload("x", from: .sequence { pieces }) }
        await #expect(throws: broken) {
            try await manager.upload("x", from: .sequence { () throws -> AsyncStream<Data> in throw broken })
        }
    }

    @Test(arguments: [2_000, 4_000] as [Int64]) func `a sequence whose length differs from the announced one fails`(
        length: Int64
    ) async throws {
        server.route("POST", "/x", .text("ok"))
        let pieces = Pieces(count: 3, size: 1_000, asked: Counter())
        let error = await #expect(throws: URLError.self) {
            try await manager.upload("x", from: .sequence(pieces, length: length))
        }
        #expect(error?.code == .requestBodyStreamExhausted)
    }

    @Test func `a negative length is rejected`() async throws {
        let pieces = Pieces(count: 3, size: 1_000, asked: Counter())
        await #expect(throws: (any Error).self) { try await manager.upload("x", from: .sequence(pieces, length: -1)) }
    }

    @Test func `nothing is requested from the sequence while the server reads nothing`() async throws {
        let (listener, port) = try LoopbackPort.listener()
        defer { close(listener) }
        let asked = Counter()
        var request = URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(port)/x")))
        request.httpMethod = "PUT"
        try request.setBody(Pieces(count: .max, size: 100_000, asked: asked))
        let operation = HTTPRequestOperation(request: request)
        operation.completionQueue = testQueue
        let task = Task { try await operation.finished() }
        var (last, stable) = (0, 0)
        try await waitUntil("full buffers") {
            stable = asked.value == last && last > 0 ? stable + 1 : 0
            last = asked.value
            return stable > 50
        }
        // All requested elements are in the kernel, except for two elements and libcurl's buffer.
        let bytes = Int64(last) * 100_000
        #expect(bytes - operation.transferProgress.bytesSent <= 300_000, "\(bytes), \(operation.transferProgress)")
        #expect(bytes < 32 << 20)
        task.cancel()
        await #expect(throws: URLError.self) { try await task.value }
    }

    @Test func `cancelling the upload ends the iteration`() async throws {
        server.route("POST", "/x", .text("ok"))
        let ended = Counter()
        let pieces = stuckPieces(ended)
        let manager = manager
        let task = Task { try await manager.upload("x", from: .sequence(pieces)) }
        try await waitUntil("the first piece") { server.statistics.receivedBodyBytes == 5 }
        task.cancel()
        let error = await #expect(throws: URLError.self) { try await task.value }
        #expect(error?.code == .cancelled)
        try await waitUntil("the end of the iteration") { ended.value == 1 }
    }

    @Test(arguments: [true, false]) func `a redirect sends the body again if it can be created again`(
        isAnew: Bool
    ) async throws {
        server.route("POST", "/old", .redirect(to: "/new", status: 307))
        server.route("POST", "/new", .text("ok"))
        let made = Counter()
        let make: @Sendable () -> Pieces = {
            made.increment()
            return Pieces(count: 20, size: 50_000, asked: Counter())
        }
        if isAnew {
            try await manager.upload("old", from: .sequence(making: make))
            #expect(server.requests.last?.path == "/new")
            #expect(server.requests.last?.body == PatternBytes.data(count: 1_000_000))
            #expect(made.value == 2)
        } else {
            let error = await #expect(throws: (any Error).self) { try await manager.upload("old", from: .sequence(make())) }
            #expect(error != nil)
            #expect(server.requests.allSatisfy { $0.path == "/old" })
        }
    }

    @Test(arguments: [true, false]) func `a retry sends the body again if it can be created again`(isAnew: Bool) async throws
    {
        server.route("PUT", "/x", inTurn: [.text("later", status: 503), .text("ok")])
        var policy = RetryPolicy()
        policy.initialDelay = 0.01
        manager.retryPolicy = policy
        let pieces = Pieces(count: 20, size: 50_000, asked: Counter())
        if isAnew {
            try await manager.upload("x", method: .put, from: .sequence { pieces })
            #expect(server.requests.map(\.body) == Array(repeating: PatternBytes.data(count: 1_000_000), count: 2))
        } else {
            await #expect(throws: (any Error).self) { try await manager.upload("x", method: .put, from: .sequence(pieces)) }
            #expect(server.requests.count == 1)
        }
    }

    @Test func `a sequence can also be read as a stream`() async throws {
        let stream = SequenceBodyStream(SequencePump { Pieces(count: 3, size: 1000, asked: Counter()) })
        struct Box: @unchecked Sendable { let stream: InputStream }
        let box = Box(stream: stream)
        let data = await withCheckedContinuation { continuation in
            BlockingWorkers.shared.perform {
                var data = Data()
                var buffer = [UInt8](repeating: 0, count: 700)
                box.stream.open()
                while case let count = box.stream.read(&buffer, maxLength: buffer.count), count > 0 {
                    data += buffer[..<count]
                }
                box.stream.close()
                continuation.resume(returning: data)
            }
        }
        #expect(data == PatternBytes.data(count: 3000))
    }
}
