import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Sinks that keep the body provisional until the response is accepted. The commit is part of the operation.
@Suite struct ProvisionalSinkTests {
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
    func `the received body is committed once, before the operation finishes`(_ path: String) throws {
        let sink = ProvisionalSink()
        let probe = Probe(server.url(path), into: sink)
        let wasFinished = Guarded<Bool?>(nil)
        sink.onCommit = { [operation = probe.operation] in wasFinished.withLock { $0 = operation.isFinished } }
        probe.operation.start()
        #expect(probe.outcome() == Probe.succeeded, "\(String(describing: probe.error))")
        #expect(wasFinished.withLock { $0 } == false)
        #expect(sink.count == (path == "/file" ? 100_000 : 0))
        try #require(sink.discarded.wait())
        #expect(sink.calls == ["open", "synchronize", "commit", "discard"])
    }

    @Test func `an operation whose sink cannot commit fails, and its dependents are not sent`() throws {
        let sink = ProvisionalSink()
        sink.onCommit = { throw POSIXError(.EEXIST) }
        let probe = Probe(server.url("/file"), into: sink)
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
        let sink = ProvisionalSink()
        let probe = Probe(server.url(path), into: sink)
        if path == "/file" { probe.operation.responseSerializer = RefusingSerializer() }
        probe.operation.start()
        #expect(probe.outcome()?.first?.hasPrefix("failure") == true)
        try #require(sink.discarded.wait())
        #expect(sink.calls == ["open"] + (path == "/file" ? ["synchronize"] : []) + ["discard"])
    }

    @Test func `a pause during the commit lasts until the resume, and a cancellation changes nothing`() throws {
        for cancels in [false, true] {
            let sink = ProvisionalSink()
            let (isCommitting, goesOn) = (Signal(), Signal())
            sink.onCommit = {
                isCommitting.fire()
                _ = goesOn.wait()
            }
            let probe = Probe(server.url("/file"), into: sink)
            probe.operation.start()
            try #require(isCommitting.wait())
            probe.operation.pause()
            if cancels { probe.operation.cancel() } else { probe.operation.resume() }
            goesOn.fire()
            #expect(probe.outcome() == Probe.succeeded)
            #expect(!probe.operation.isCancelled && probe.operation.error == nil)
            try #require(sink.discarded.wait())
            #expect(sink.calls == ["open", "synchronize", "commit", "discard"])
        }
    }

    enum End: CaseIterable { case cancel, expire }

    @Test(arguments: End.allCases)
    func `an operation that ends during the commit has the outcome of the commit`(end: End) throws {
        for fails in [false, true] {
            let sink = ProvisionalSink()
            let (isCommitting, goesOn) = (Signal(), Signal())
            sink.onCommit = {
                isCommitting.fire()
                _ = goesOn.wait()
                if fails { throw POSIXError(.EEXIST) }
            }
            let probe = Probe(server.url("/file"), into: sink)
            probe.operation.start()
            try #require(isCommitting.wait())
            if end == .cancel { probe.operation.cancel() } else { probe.operation.handle(.expire) }
            #expect(!probe.operation.isCancelled && !probe.operation.isFinished)
            goesOn.fire()
            #expect(probe.outcome() == (fails ? ["failure \(EEXIST)", "completion"] : Probe.succeeded))
            #expect(!probe.operation.isCancelled)
            try #require(sink.discarded.wait())
            #expect(sink.calls == ["open", "synchronize", "commit", "discard"])
        }
    }

    @Test(arguments: End.allCases)
    func `a commit that never ends is abandoned, and its sink is discarded after it has ended`(end: End) throws {
        let sink = ProvisionalSink()
        let (isCommitting, goesOn) = (Signal(), Signal())
        sink.onCommit = {
            isCommitting.fire()
            _ = goesOn.wait()
        }
        let probe = Probe(server.url("/file"), into: sink)
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
        #expect(sink.calls == ["open", "synchronize", "commit"])
        goesOn.fire()
        try #require(sink.discarded.wait())
        #expect(sink.calls == ["open", "synchronize", "commit", "discard"])
    }
}

/// The files of provisional sinks.
@Suite struct ProvisionalFileTests {
    let server: TestServer
    let directory: TemporaryDirectory

    init() throws {
        server = try TestServer()
        directory = try TemporaryDirectory()
        server.route("GET", "/file", .pattern(count: 100_000))
        server.route("GET", "/missing", .text("not here", status: 404))
    }

    @Test(arguments: ProvisionalSinkTests.End.allCases)
    func `an operation that ends while its file is synchronized leaves no file`(end: ProvisionalSinkTests.End) throws {
        let (isSynchronizing, goesOn, isOver) = (Signal(), Signal(), Signal())
        var calls = FileCalls()
        calls.synchronizeData = { descriptor in
            isSynchronizing.fire()
            _ = goesOn.wait()
            return fdatasync(descriptor)
        }
        calls.unlink = { path in
            defer { isOver.fire() }
            return unlink(path)
        }
        calls.rename = { old, new in
            defer { isOver.fire() }
            return rename(old, new)
        }
        let file = directory.file("out")
        let probe = Probe(server.url("/file"), into: FileSink(replacing: file, calls: calls))
        let clock = ManualClock()
        probe.operation.change { $0.holder.clock = clock }
        probe.operation.start()
        try #require(isSynchronizing.wait())
        if end == .cancel { probe.operation.cancel() } else { probe.operation.handle(.expire) }
        clock.advance(by: 2)
        let code = end == .cancel ? URLError.cancelled : .timedOut
        #expect(probe.outcome() == ["failure \(code.rawValue)", "completion"])
        goesOn.fire()
        try #require(isOver.wait())
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.url.path) == [])
    }

    @Test func `an error from closing the file is thrown`() throws {
        let fails = Guarded(false)
        var calls = FileCalls()
        calls.close = { descriptor in
            guard close(descriptor) == 0, fails.withLock({ $0 }) else { return 0 }
            errno = EIO
            return -1
        }
        let sink = FileSink(replacing: directory.file("out"), calls: calls)
        sink.begin(ResponseHead(url: server.url("/file"), statusCode: 200, headers: []), discarding: 0)
        try [UInt8](repeating: 1, count: 10).withUnsafeBytes { try sink.write($0) }
        fails.withLock { $0 = true }
        let error = #expect(throws: URLError.self) { try sink.close() }
        #expect(error?.code == .cannotCloseFile)
    }

    @Test func `a file replaces another only when complete, and an error leaves nothing`() throws {
        let file = try directory.write(Data("old".utf8), to: "out")
        for (path, size) in [("/missing", 3), ("/file", 100_000)] {
            let probe = Probe(server.url(path), into: FileSink(replacing: file))
            probe.operation.start()
            #expect(probe.outcome()?.last == "completion")
            #expect(try Data(contentsOf: file).count == size)
            try eventually("nothing else exists") {
                try FileManager.default.contentsOfDirectory(atPath: directory.url.path) == ["out"]
            }
        }
    }
}

/// A serializer that accepts the status code and rejects the response.
private struct RefusingSerializer: HTTPResponseSerialization {
    var http = HTTPResponseSerializer()

    func responseObject(for response: URLResponse?, data: Data?) throws -> Any? { throw URLError(.cannotParseResponse) }
}
