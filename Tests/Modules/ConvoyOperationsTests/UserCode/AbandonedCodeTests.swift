import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Promises 1 and 2: an operation that is cancelled or has timed out ends immediately, regardless of the user code that
/// is running for it.
@Suite struct AbandonedCodeTests {
    /// The user code that blocks.
    enum Place: CaseIterable, Sendable {
        case prepare, traceContext, replay, open, write, rewind, close, commit, serializer

        var isOfStream: Bool {
            switch self {
            case .open, .write, .rewind, .close: true
            case .prepare, .traceContext, .replay, .commit, .serializer: false
            }
        }
    }

    enum Ending: CaseIterable, Sendable { case cancel, pauseAndCancel, timeout, pauseAndTimeout }

    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("GET", "/file", .pattern(count: 100_000))
        // Without a validator, the second attempt starts over.
        server.route("GET", "/cut", .pattern(count: 100_000).truncated(afterBytes: 50_000))
        server.route("PUT", "/file", inTurn: [.text("").resetBeforeHead(), .text("thanks")])
    }

    @Test(arguments: Ending.allCases)
    func `an operation ends even if user code does not return`(ending: Ending) async throws {
        // All places run concurrently, each with its own server, because every second ending takes a second.
        try await withThrowingTaskGroup(of: Void.self) { group in
            for place in Place.allCases {
                group.addTask {
                    try await withCheckedThrowingContinuation { continuation in
                        Thread {
                            continuation.resume(with: Result { try Self().expectAnEnd(by: ending, blockedAt: place) })
                        }.start()
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private func expectAnEnd(by ending: Ending, blockedAt place: Place) throws {
        let block = Block()
        defer { block.letThrough() }
        let stream = BlockingStream(at: place, block)
        let sink = ProvisionalSink(onCommit: block.enter)
        let probe = probe(blockedAt: place, block, stream, sink)
        if ending == .timeout || ending == .pauseAndTimeout { probe.operation.totalTimeout = 1 }
        let after = Probe(server.url("/file"))
        after.operation.addDependency(probe.operation)
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        queue.addOperations([probe.operation, after.operation], waitUntilFinished: false)
        try #require(block.entered.wait(within: 30), "\(place) was not reached")
        if ending == .pauseAndCancel || ending == .pauseAndTimeout { probe.operation.pause() }
        if ending == .cancel || ending == .pauseAndCancel { probe.operation.cancel() }
        let isCancelled = ending == .cancel || ending == .pauseAndCancel
        let code = isCancelled ? URLError.cancelled : .timedOut
        #expect(probe.outcome(within: 30) == ["failure \(code.rawValue)", "completion"], "\(place) \(ending)")
        #expect(probe.operation.isCancelled == isCancelled, "\(place) \(ending)")
        // The blocked code does not hold up other operations.
        #expect(after.outcome(within: 30) == Probe.succeeded)
        // Late user code has no effect, except that its stream is closed by the thread that used it.
        let calls = stream.calls
        block.letThrough()
        if place.isOfStream { try eventually("the stream to be closed") { stream.calls.contains("close") } }
        #expect(stream.calls.filter { $0 == "close" }.count <= 1, "\(calls), then \(stream.calls)")
        if place == .commit { #expect(sink.discarded.wait(within: 30)) }
        #expect(sink.calls == (place == .commit ? ["open", "synchronize", "commit", "discard"] : []))
        #expect((probe.operation.error as? URLError)?.code == code)
        #expect(probe.operation.responseObject == nil)
    }

    private func probe(blockedAt place: Place, _ block: Block, _ stream: BlockingStream, _ sink: ProvisionalSink) -> Probe {
        let path = place == .rewind ? "/cut" : "/file"
        let probe = Probe(
            server.url(path), method: place == .replay ? "PUT" : "GET", output: place.isOfStream ? stream : nil,
            into: place == .commit ? sink : nil)
        let operation = probe.operation
        switch place {
        case .prepare: operation.prepare = { _ in block.enter() }
        case .traceContext:
            operation.traceContextProvider = { _ in
                block.enter()
                return nil
            }
        case .serializer: operation.responseSerializer = BlockingSerializer(block: block)
        case .replay: operation.inputStream = BlockingBody(block)
        case .open, .write, .rewind, .close, .commit: break
        }
        if place == .rewind || place == .replay {
            operation.retryPolicy = RetryPolicy(maximumRetryCount: 5)
            operation.retryPolicy?.initialDelay = 0.001
            operation.retryPolicy?.budget = nil
        }
        return probe
    }

    @Test func `bytes passed to a blocked stream after its operation has ended are not written`() throws {
        let block = Block()
        let stream = BlockingStream(at: .write, block)
        let probe = Probe(server.url("/file"), output: stream)
        probe.operation.start()
        try #require(block.entered.wait(within: 30))
        probe.operation.cancel()
        #expect(probe.outcome(within: 30) == Probe.cancelled)
        block.letThrough()
        try eventually("the stream to be closed") { stream.calls.contains("close") }
        #expect(stream.calls.filter { $0 == "write" }.count == 1)
    }

    @Test func `a connection that ends late does not wait for a blocked stream`() throws {
        let network = ThreadedTransport()
        network.beSlowToCancel()
        let stream = GatedStream()
        defer { stream.letThrough() }
        let operation = HTTPRequestOperation(request: URLRequest(url: server.url("/file")), transport: network)
        (operation.completionQueue, operation.outputStream) = (testQueue, stream)
        let done = Signal()
        operation.completionBlock = { done.fire() }
        operation.start()
        try eventually("a connection") { network.openCount == 1 }
        network.respond()
        try eventually("a write") { stream.isWaiting }
        operation.cancel()
        network.serve()
        #expect(done.wait(within: 30))
        #expect(operation.isCancelled && (operation.error as? URLError)?.code == .cancelled)
    }

    @Test func `an operation that is already cancelled does not wait for its serializer`() throws {
        let block = Block()
        defer { block.letThrough() }
        let operation = LateCancelledOperation(request: URLRequest(url: server.url("/file")))
        operation.responseSerializer = BlockingSerializer(block: block)
        operation.completionQueue = testQueue
        let done = Signal()
        operation.completionBlock = { done.fire() }
        operation.start()
        #expect(done.wait(within: 30))
        #expect(operation.isCancelled && (operation.error as? URLError)?.code == .cancelled)
    }

    @Test func `a paused operation with a blocked stream continues when the stream does`() throws {
        let block = Block()
        let stream = BlockingStream(at: .write, block)
        let probe = Probe(server.url("/file"), output: stream)
        probe.operation.start()
        try #require(block.entered.wait(within: 30))
        probe.operation.pause()
        probe.operation.resume()
        block.letThrough()
        #expect(probe.outcome() == Probe.succeeded)
        #expect(stream.bytes == PatternBytes.data(count: 100_000))
    }
}

/// An operation that is cancelled after its connection has ended and before its response is serialized.
private final class LateCancelledOperation: HTTPRequestOperation, @unchecked Sendable {
    private let calls = Guarded(0)

    override var serializesResponse: Bool {
        // The first query occurs when the connection is created.
        let number = calls.withLock { calls in
            calls += 1
            return calls
        }
        if number == 2 { cancel() }
        return true
    }
}

/// A block that waits until the test lets it return.
private final class Block: Sendable {
    let entered = Signal()
    private let gate = DispatchSemaphore(value: 0)

    @Sendable func enter() {
        entered.fire()
        gate.wait()
        gate.signal()
    }

    func letThrough() { gate.signal() }
}

private struct BlockingSerializer: HTTPResponseSerialization {
    let block: Block
    var http = HTTPResponseSerializer()

    func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        block.enter()
        return data
    }
}

/// A body that blocks when it is read for the second time.
private final class BlockingBody: InputStream, ReplayableBodyStream {
    private let block: Block
    private var isAtEnd = false

    init(_ block: Block) {
        self.block = block
        super.init(data: Data())
    }

    func replay() throws -> InputStream {
        block.enter()
        return InputStream(data: Data("body".utf8))
    }

    override var streamStatus: Stream.Status { isAtEnd ? .atEnd : .open }
    override var streamError: (any Error)? { nil }
    override func open() {}
    override func close() {}
    override var hasBytesAvailable: Bool { !isAtEnd }

    override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength length: Int) -> Int {
        defer { isAtEnd = true }
        guard !isAtEnd, length >= 4 else { return 0 }
        for (index, byte) in "body".utf8.enumerated() { buffer[index] = byte }
        return 4
    }
}

/// A user's stream that blocks in one of its methods on the first call.
private final class BlockingStream: OutputStream, RewindableOutputStream {
    private struct State {
        var calls: [String] = []
        var bytes = Data()
        var status = Stream.Status.notOpen
    }

    private let state = Guarded(State())
    private let place: AbandonedCodeTests.Place
    private let block: Block

    init(at place: AbandonedCodeTests.Place, _ block: Block) {
        self.place = place
        self.block = block
        super.init(toMemory: ())
    }

    /// Required by Foundation.
    required init(toMemory: ()) {
        place = .write
        block = Block()
        super.init(toMemory: ())
    }

    var calls: [String] { state.withLock { $0.calls } }
    var bytes: Data { state.withLock { $0.bytes } }

    private func enter(_ call: String, _ place: AbandonedCodeTests.Place) {
        let isFirst = state.withLock { state in
            defer { state.calls.append(call) }
            return !state.calls.contains(call)
        }
        if isFirst, place == self.place { block.enter() }
    }

    override var streamStatus: Stream.Status { state.withLock { $0.status } }
    override var streamError: (any Error)? { nil }
    override var hasSpaceAvailable: Bool { true }

    override func open() {
        enter("open", .open)
        state.withLock { $0.status = .open }
    }

    override func close() {
        enter("close", .close)
        state.withLock { $0.status = .closed }
    }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int {
        enter("write", .write)
        state.withLock { $0.bytes.append(buffer, count: length) }
        return length
    }

    func rewind() {
        enter("rewind", .rewind)
        state.withLock { $0.bytes = Data() }
    }
}
