import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations
@testable import ConvoyTransport

/// The destinations of a body: files, which are unchanged until bytes are written, and slow streams.
@Suite struct OutputTests {
    let server: TestServer
    let directory: TemporaryDirectory

    init() throws {
        server = try TestServer()
        directory = try TemporaryDirectory()
    }

    private func contents(_ name: String) -> String? {
        try? String(contentsOf: directory.file(name), encoding: .utf8)
    }

    @Test(arguments: [true, false])
    func `a retry after an error status continues with an open output`(isFile: Bool) throws {
        server.route("GET", "/busy", inTurn: [.text("busy", status: 503), .text("hello")])
        let foreign = SlowOutputStream()
        let probe = Probe(
            server.url("/busy"), output: isFile ? FileOutputStream(fileURL: directory.file("out")) : foreign)
        var policy = RetryPolicy()
        policy.initialDelay = 0.01
        probe.operation.retryPolicy = policy
        probe.operation.start()
        #expect(probe.outcome() == Probe.succeeded, "\(String(describing: probe.error))")
        #expect((isFile ? contents("out") : String(decoding: foreign.written, as: UTF8.self)) == "hello")
        #expect(probe.operation.retryCount == 1)
    }

    @Test func `a retry overwrites the error body that an operation accepting any status has written`() throws {
        server.route("GET", "/busy", inTurn: [.text("a long excuse", status: 503), .text("hello")])
        let probe = Probe(server.url("/busy"), output: FileOutputStream(fileURL: directory.file("out")))
        var serializer = HTTPResponseSerializer()
        serializer.acceptableStatusCodes = nil
        probe.operation.responseSerializer = serializer
        var policy = RetryPolicy()
        policy.initialDelay = 0.01
        probe.operation.retryPolicy = policy
        probe.operation.start()
        #expect(probe.outcome() == Probe.succeeded)
        #expect(contents("out") == "hello")
    }

    /// Downloads 100,000 bytes with a pause in the middle; the response after the resume is a 500.
    private func resumeAnsweredWithAnError(_ change: (HTTPRequestOperation) -> Void) throws -> Probe {
        server.servePattern(count: 100_000, at: "/file", etag: "\"v1\"") { _, response in
            response.stalls(afterBytes: 50_000)
        }
        let probe = Probe(server.url("/file"), output: FileOutputStream(fileURL: directory.file("out")))
        change(probe.operation)
        let paused = Signal()
        probe.operation.downloadProgressHandler = { [operation = probe.operation] _, total, _ in
            guard total >= 50_000 else { return }
            operation.pause()
            paused.fire()
        }
        probe.operation.start()
        try #require(paused.wait())
        server.removeRoute("/file")
        server.route("GET", "/file", .text("out of order", status: 500))
        probe.operation.resume()
        _ = probe.outcome()
        return probe
    }

    @Test func `an operation that accepts any status has only the error body in its output`() throws {
        let probe = try resumeAnsweredWithAnError { operation in
            var serializer = HTTPResponseSerializer()
            serializer.acceptableStatusCodes = nil
            operation.responseSerializer = serializer
        }
        #expect(probe.operation.error == nil)
        #expect(probe.operation.statusCode == 500)
        #expect(contents("out") == "out of order")
    }

    @Test func `an operation that accepts only success fails with the first part in its output`() throws {
        let probe = try resumeAnsweredWithAnError { _ in }
        #expect(probe.operation.error != nil)
        #expect(probe.operation.responseString == "out of order")
        #expect(try Data(contentsOf: directory.file("out")).count == 50_000)
    }

    @Test func `after an error and a retry, the response describes the complete body`() throws {
        let whole = Data(repeating: 7, count: 100_000)
        server.route(
            "GET", "/file",
            inTurn: [
                .bytes(whole).header("ETag", "\"v1\"").truncated(afterBytes: 50_000), .text("busy", status: 503),
                .bytes(whole[50_000...], status: 206).header("ETag", "\"v1\"")
                    .header("Content-Range", "bytes 50000-99999/100000"),
            ])
        let probe = Probe(server.url("/file"))
        var policy = RetryPolicy()
        policy.initialDelay = 0.01
        probe.operation.retryPolicy = policy
        probe.operation.start()
        #expect(probe.outcome() == Probe.succeeded)
        #expect(probe.operation.statusCode == 200)
        #expect(probe.operation.responseData == whole)
    }

    @Test func `a file is unchanged until there are bytes to write`() throws {
        server.route("GET", "/missing", .text("not here", status: 404))
        server.route("GET", "/empty", .bytes(Data()))
        _ = try directory.write(Data("old".utf8), to: "out")
        func get(_ path: String) -> Probe {
            let probe = Probe(server.url(path), output: FileOutputStream(fileURL: directory.file("out")))
            probe.operation.start()
            _ = probe.outcome()
            return probe
        }
        #expect(get("/missing").operation.error != nil)
        #expect(contents("out") == "old")
        #expect(get("/empty").operation.error == nil)
        #expect(contents("out") == "")
    }

    @Test func `a new file is created only when a response is accepted`() throws {
        server.route("GET", "/missing", .text("not here", status: 404))
        server.route("GET", "/empty", .bytes(Data()))
        for (path, isMade) in [("/missing", false), ("/empty", true)] {
            let file = directory.file("new")
            let probe = Probe(server.url(path), output: FileOutputStream(fileURL: file))
            probe.operation.start()
            #expect(probe.outcome()?.last == "completion")
            #expect(FileManager.default.fileExists(atPath: file.path) == isMade, "\(path)")
        }
    }

    @Test func `a pipe that replaces a new file delays no other transfer`() throws {
        let pipe = directory.file("pipe")
        server.route("GET", "/late") { _ in
            mkfifo(pipe.path, 0o600) == 0 ? .text("late") : .text("", status: 500)
        }
        let probe = Probe(server.url("/late"), output: FileOutputStream(fileURL: pipe))
        probe.operation.start()
        #expect(probe.outcome() == ["failure \(URLError.cannotWriteToFile.rawValue)", "completion"])
    }

    @Test func `nothing is sent if the file cannot be created`() throws {
        server.route("POST", "/fine", .text("fine"))
        let file = directory.file("nowhere").appendingPathComponent("out")
        let probe = Probe(server.url("/fine"), method: "POST", output: FileOutputStream(fileURL: file))
        probe.operation.start()
        #expect(probe.outcome() == ["failure \(URLError.cannotWriteToFile.rawValue)", "completion"])
        #expect((probe.operation.error as? URLError)?.userInfo[NSUnderlyingErrorKey] as? POSIXError == POSIXError(.ENOENT))
        #expect(server.requests.isEmpty)
    }

    @Test func `bytes written to an open file before the operation stay before the body`() throws {
        server.route("GET", "/body", .text("body"))
        let stream = FileOutputStream(fileURL: directory.file("out"))
        stream.open()
        #expect(stream.write(Array("head ".utf8), maxLength: 5) == 5)
        let probe = Probe(server.url("/body"), output: stream)
        #expect(probe.operation.outputStream === stream)
        probe.operation.start()
        #expect(probe.outcome() == Probe.succeeded)
        #expect(contents("out") == "head body")
        #expect(stream.streamStatus == .closed && stream.streamError == nil)
    }

    @Test func `a file stream can also be used on its own`() throws {
        let stream = FileOutputStream(fileURL: try directory.write(Data("old".utf8), to: "out"))
        #expect(stream.streamStatus == .notOpen && stream.write([1], maxLength: 1) == -1)
        #expect(throws: POSIXError.self) { try stream.rewind() }
        stream.open()
        #expect(stream.streamStatus == .open && contents("out") == "")
        #expect(stream.write(Array("wrong".utf8), maxLength: 5) == 5)
        try stream.rewind()
        #expect(stream.write(Array("new".utf8), maxLength: 3) == 3)
        stream.close()
        stream.open()
        #expect(stream.streamStatus == .closed && stream.write([1], maxLength: 1) == -1 && contents("out") == "new")
        for unusable in [FileOutputStream(fileURL: directory.url), FileOutputStream(toMemory: ())] {
            unusable.open()
            #expect(unusable.streamStatus == .error && unusable.streamError is POSIXError)
        }
    }

    @Test func `a file stream keeps its first error`() throws {
        let stream = FileOutputStream(fileURL: directory.file("none/out"))
        stream.open()
        #expect(stream.failure == POSIXError(.ENOENT))
        // A directory now exists at the path of the file.
        try FileManager.default.createDirectory(at: stream.fileURL, withIntermediateDirectories: true)
        stream.open()
        #expect(stream.failure == POSIXError(.ENOENT) && stream.streamStatus == .error)
    }

    @Test func `cancelling while the request is prepared leaves the output unchanged`() throws {
        server.route("GET", "/file", .text("new"))
        _ = try directory.write(Data("old".utf8), to: "out")
        let probe = Probe(server.url("/file"), output: FileOutputStream(fileURL: directory.file("out")))
        let (isPreparing, goesOn) = (Signal(), Signal())
        probe.operation.prepare = { _ in
            isPreparing.fire()
            _ = goesOn.wait()
        }
        probe.operation.start()
        try #require(isPreparing.wait())
        probe.operation.cancel()
        goesOn.fire()
        #expect(probe.outcome() == Probe.cancelled)
        #expect(contents("out") == "old")
        #expect(server.requests.isEmpty)
    }

    @Test func `a pipe that is not read delays no other transfer, timeout or cancellation`() throws {
        server.route("GET", "/big", .pattern(count: 4 << 20))
        server.route("GET", "/fine", .text("fine"))
        let pipe = directory.file("pipe")
        try #require(mkfifo(pipe.path, 0o600) == 0)
        // Opening this stream waits for a reader.
        let unopened = Probe(server.url("/big"), output: FileOutputStream(fileURL: pipe))
        unopened.operation.start()
        // If the reader does not read, writing blocks.
        let other = directory.file("other")
        try #require(mkfifo(other.path, 0o600) == 0)
        let reader = open(other.path, O_RDONLY | O_NONBLOCK)
        try #require(reader >= 0)
        let unread = Probe(server.url("/big"), output: FileOutputStream(fileURL: other))
        let hasBegun = Signal()
        unread.operation.onFirstBytes { hasBegun.fire() }
        unread.operation.start()

        for _ in 0..<20 {
            let fine = Probe(server.url("/fine"))
            fine.operation.start()
            #expect(fine.outcome() == Probe.succeeded)
        }
        let late = Probe(server.url("/stalls"), timeout: 0.2)
        server.route("GET", "/stalls", .text("x").failing(.stallBeforeHead))
        late.operation.start()
        #expect(late.outcome() == ["failure \(URLError.timedOut.rawValue)", "completion"])

        // A cancellation does not wait for blocked system calls.
        unread.operation.cancel()
        #expect(unread.outcome() == Probe.cancelled)
        close(reader)
        // Opening returns when a reader opens the other end.
        unopened.operation.cancel()
        let opener = open(pipe.path, O_RDONLY)
        defer { close(opener) }
        #expect(unopened.outcome() == Probe.cancelled)
    }

    @Test func `a user's stream runs no code on the network thread`() throws {
        // The first response does not end before it is paused.
        let gate = TestServer.Gate()
        server.servePattern(count: 300_000, at: "/file", etag: nil) { _, response in
            response.heldBody(by: gate, afterBytes: 100_000)
        }
        let stream = SlowOutputStream()
        let probe = Probe(server.url("/file"), output: stream)
        let paused = Signal()
        let isFirst = Locked(true)
        probe.operation.downloadProgressHandler = { [operation = probe.operation] _, _, _ in
            guard
                isFirst.withLock({ first in
                    defer { first = false }
                    return first
                })
            else { return }
            operation.pause()
            paused.fire()
        }
        probe.operation.start()
        try #require(paused.wait())
        gate.open()
        probe.operation.resume()
        #expect(probe.outcome() == Probe.succeeded)
        #expect(stream.written.count == 300_000)
        #expect(stream.calls.contains("rewind") && stream.calls.contains("close") && stream.calls.contains("open"))
        #expect(!stream.threads.contains("Convoy.Network"), "\(stream.threads)")
    }

    @Test func `a user's serializer runs no code on the network thread`() throws {
        server.route("GET", "/fine", .text("fine"))
        let serializer = WatchedSerializer()
        let probe = Probe(server.url("/fine"), output: FileOutputStream(fileURL: directory.file("out")))
        probe.operation.responseSerializer = serializer
        probe.operation.start()
        #expect(probe.outcome() == Probe.succeeded)
        #expect(!WatchedSerializer.threads.withLock { $0 }.contains("Convoy.Network"))
        #expect(!WatchedSerializer.threads.withLock { $0 }.isEmpty)
    }

    @Test func `a user's subclass runs no code on the network thread`() throws {
        server.route("GET", "/fine", .text("fine"))
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 1
        let operations = (0..<20).map { _ in
            let operation = WatchedOperation(request: URLRequest(url: server.url("/fine")))
            operation.completionQueue = testQueue
            return operation
        }
        // All operations except the first are started on the network thread when the previous one has finished.
        queue.addOperations(operations, waitUntilFinished: true)
        #expect(operations.allSatisfy { $0.error == nil })
        #expect(operations.count { $0.thread.withLock { $0 } == "Convoy.Network" } == 0)
    }

    @Test(arguments: [("HEAD", 200), ("GET", 304)])
    func `a bodiless response never exceeds the limit, even if it announces a length`(method: String, status: Int) throws {
        server.route(method, "/large", .raw("HTTP/1.1 \(status) X\r\nContent-Length: 1000000\r\n\r\n"))
        let probe = Probe(server.url("/large"), method: method)
        probe.operation.maximumBodySize = 1000
        var serializer = HTTPResponseSerializer()
        serializer.acceptableStatusCodes = nil
        probe.operation.responseSerializer = serializer
        probe.operation.start()
        #expect(probe.outcome() == Probe.succeeded, "\(String(describing: probe.error))")
    }

    @Test func `a stream that starts over may hold fewer bytes than before, or none`() throws {
        let stream = SlowRewindableStream(slowness: 0)
        let sink = OutputStreamSink(stream)
        let head = ResponseHead(url: try #require(URL(string: "http://a.test/")), statusCode: 200, headers: [])
        try sink.open()
        try sink.begin(head, discarding: 0)
        try [UInt8](repeating: 1, count: 5).withUnsafeBytes { try sink.write($0) }
        try sink.begin(head, discarding: 5)
        try sink.close()
        #expect(stream.data.isEmpty && stream.isBalanced)
    }
}

/// A user's stream that blocks a little in each call, and records the calling thread.
private final class SlowOutputStream: OutputStream, RewindableOutputStream {
    private struct State {
        var written = Data()
        var calls: Set<String> = []
        var threads: Set<String> = []
        var status = Stream.Status.notOpen
    }

    private let state = Locked(State())

    init() { super.init(toMemory: ()) }
    required init(toMemory: ()) { super.init(toMemory: ()) }

    var written: Data { state.withLock { $0.written } }
    var calls: Set<String> { state.withLock { $0.calls } }
    var threads: Set<String> { state.withLock { $0.threads } }

    private func note(_ call: String) {
        let thread = Thread.current.name ?? ""
        state.withLock { state in
            state.calls.insert(call)
            state.threads.insert(thread)
        }
        letOthersRun(microseconds: 200)
    }

    override var streamStatus: Stream.Status {
        note("status")
        return state.withLock { $0.status }
    }

    override func open() {
        note("open")
        state.withLock { $0.status = .open }
    }

    override func close() {
        note("close")
        state.withLock { $0.status = .closed }
    }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int {
        note("write")
        let count = min(length, 10_000)
        state.withLock { $0.written.append(buffer, count: count) }
        return count
    }

    func rewind() {
        note("rewind")
        state.withLock { $0.written = Data() }
    }
}

/// A user's operation that records the thread on which it is started.
private final class WatchedOperation: HTTPRequestOperation, @unchecked Sendable {
    let thread = Locked("")

    override func start() {
        let name = Thread.current.name ?? ""
        thread.withLock { $0 = name }
        super.start()
    }
}

/// A user's serializer that records the thread on which it is called.
private struct WatchedSerializer: HTTPResponseSerialization {
    static let threads = Locked<Set<String>>([])

    private static func note() {
        let thread = Thread.current.name ?? ""
        threads.withLock { _ = $0.insert(thread) }
    }

    var http: HTTPResponseSerializer {
        get {
            Self.note()
            return HTTPResponseSerializer()
        }
        set {}
    }

    func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        Self.note()
        return data
    }
}
