import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Streams that keep the body provisional until the response is accepted: the commit is part of the operation.
@Suite struct CommittingStreamTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("GET", "/file", .pattern(count: 100_000))
        server.route("GET", "/empty", .bytes(Data()))
        server.route("GET", "/missing", .text("not here", status: 404))
        server.route("GET", "/cut", .pattern(count: 100_000).truncated(afterBytes: 50_000))
        server.route("GET", "/after", .text("after"))
    }

    @Test(arguments: ["/file", "/empty"])
    func `what was received is committed once, before the operation finishes`(_ path: String) throws {
        let stream = CommittingStream()
        let probe = Probe(server.url(path), output: stream)
        let wasFinished = Guarded<Bool?>(nil)
        stream.onCommit = { [operation = probe.operation] in wasFinished.withLock { $0 = operation.isFinished } }
        probe.operation.start()
        #expect(probe.outcome() == Probe.succeeded, "\(String(describing: probe.error))")
        #expect(wasFinished.withLock { $0 } == false)
        #expect(stream.count == (path == "/file" ? 100_000 : 0))
        try #require(stream.closed.wait())
        #expect(stream.calls == ["open", "commit", "close"])
    }

    @Test func `an operation whose stream cannot commit fails, and what depends on it is not sent`() throws {
        let stream = CommittingStream()
        stream.onCommit = { throw POSIXError(.EEXIST) }
        let probe = Probe(server.url("/file"), output: stream)
        let after = Probe(server.url("/after"))
        after.operation.dependencyFailurePolicy = .cancel
        after.operation.addDependency(probe.operation)
        let queue = RequestOperationQueue()
        queue.addOperations([after.operation, probe.operation], waitUntilFinished: false)
        #expect(after.outcome() == Probe.cancelled)
        #expect(probe.outcome() == ["failure \(EEXIST)", "completion"])
        #expect(probe.operation.error is POSIXError)
        #expect(probe.operation.statusCode == 200)
        #expect(server.requests.map(\.path) == ["/file"])
    }

    @Test(arguments: ["/missing", "/cut", "/file"])
    func `a response that is not accepted is not committed`(_ path: String) throws {
        let stream = CommittingStream()
        let probe = Probe(server.url(path), output: stream)
        if path == "/file" { probe.operation.responseSerializer = RefusingSerializer() }
        probe.operation.start()
        #expect(probe.outcome()?.first?.hasPrefix("failure") == true)
        try #require(stream.closed.wait())
        #expect(stream.calls == ["open", "close"])
    }

    @Test func `a pause while the stream commits lasts until the resume, and a cancel changes nothing`() throws {
        for cancels in [false, true] {
            let stream = CommittingStream()
            let (isCommitting, goesOn) = (Signal(), Signal())
            stream.onCommit = {
                isCommitting.fire()
                _ = goesOn.wait()
            }
            let probe = Probe(server.url("/file"), output: stream)
            probe.operation.start()
            try #require(isCommitting.wait())
            probe.operation.pause()
            if cancels { probe.operation.cancel() } else { probe.operation.resume() }
            goesOn.fire()
            #expect(probe.outcome() == Probe.succeeded)
            #expect(!probe.operation.isCancelled && probe.operation.error == nil)
            try #require(stream.closed.wait())
            #expect(stream.calls == ["open", "commit", "close"])
        }
    }

    enum End: CaseIterable { case cancel, expire }

    @Test(arguments: End.allCases)
    func `an operation that ends while its stream commits has the outcome of the commit`(end: End) throws {
        for fails in [false, true] {
            let stream = CommittingStream()
            let (isCommitting, goesOn) = (Signal(), Signal())
            stream.onCommit = {
                isCommitting.fire()
                _ = goesOn.wait()
                if fails { throw POSIXError(.EEXIST) }
            }
            let probe = Probe(server.url("/file"), output: stream)
            probe.operation.start()
            try #require(isCommitting.wait())
            if end == .cancel { probe.operation.cancel() } else { probe.operation.handle(.expire) }
            #expect(!probe.operation.isCancelled && !probe.operation.isFinished)
            goesOn.fire()
            #expect(probe.outcome() == (fails ? ["failure \(EEXIST)", "completion"] : Probe.succeeded))
            #expect(!probe.operation.isCancelled)
            try #require(stream.closed.wait())
            #expect(stream.calls == ["open", "commit", "close"])
        }
    }

    @Test(arguments: End.allCases)
    func `a commit that never ends is given up, and its stream is closed only when it has ended`(end: End) throws {
        let stream = CommittingStream()
        let (isCommitting, goesOn) = (Signal(), Signal())
        stream.onCommit = {
            isCommitting.fire()
            _ = goesOn.wait()
        }
        let probe = Probe(server.url("/file"), output: stream)
        let clock = ManualClock()
        probe.operation.change { $0.holder.clock = clock }
        probe.operation.start()
        try #require(isCommitting.wait())
        if end == .cancel { probe.operation.cancel() } else { probe.operation.handle(.expire) }
        clock.advance(by: 0.9)
        #expect(!probe.operation.isFinished)
        clock.advance(by: 0.2)
        #expect(probe.operation.isFinished && clock.timerCount == 0)
        #expect(probe.operation.isCancelled == (end == .cancel))
        #expect((probe.operation.error as? URLError)?.code == (end == .cancel ? .cancelled : .timedOut))
        #expect(probe.outcome()?.count == 2)
        #expect(stream.calls == ["open", "commit"])
        goesOn.fire()
        try #require(stream.closed.wait())
        #expect(stream.calls == ["open", "commit", "close"])
    }
}

/// Records its calls, except `write`; a run of the same call is recorded once.
private final class CommittingStream: OutputStream, CommittingOutputStream {
    private struct State {
        var calls: [String] = []
        var count = 0
        var status = Stream.Status.notOpen
        var commit: @Sendable () throws -> Void = {}
    }

    private let state = Guarded(State())
    let closed = Signal()

    init() { super.init(toMemory: ()) }
    required init(toMemory: ()) { super.init(toMemory: ()) }

    var calls: [String] { state.withLock { $0.calls } }
    var count: Int { state.withLock { $0.count } }
    var onCommit: @Sendable () throws -> Void {
        get { state.withLock { $0.commit } }
        set { state.withLock { $0.commit = newValue } }
    }

    override var streamStatus: Stream.Status { state.withLock { $0.status } }
    override var streamError: (any Error)? { nil }
    override var hasSpaceAvailable: Bool { true }

    private func note(_ call: String, _ status: Stream.Status) {
        state.withLock { state in
            state.calls.append(call)
            state.status = status
        }
    }

    override func open() { note("open", .open) }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int {
        state.withLock { $0.count += length }
        return length
    }

    func rewind() { state.withLock { $0.count = 0 } }

    func commit() throws {
        note("commit", .open)
        try onCommit()
    }

    override func close() {
        note("close", .closed)
        closed.fire()
    }
}

/// Accepts the status and refuses the response.
private struct RefusingSerializer: HTTPResponseSerialization {
    var http = HTTPResponseSerializer()

    func responseObject(for response: URLResponse?, data: Data?) throws -> Any? { throw URLError(.cannotParseResponse) }
}
