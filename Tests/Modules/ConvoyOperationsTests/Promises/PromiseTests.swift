import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The other promises of the design, with the real operation and a real server.
@Suite struct PromiseTests {
    let server: TestServer
    let queue = OperationQueue()

    init() throws {
        server = try TestServer()
        server.route("GET", "/quick", .text("quick"))
        server.route("GET", "/json", .json(text: #"{"token": "x"}"#))
    }

    // MARK: 1: an operation finishes exactly once, in any order of events

    @Test func `resuming an operation that was never started runs it once it is enqueued`() {
        let probe = Probe(server.url("/quick"))
        probe.operation.pause()
        queue.addOperation(probe.operation)
        probe.operation.resume()
        #expect(probe.outcome() == Probe.succeeded)
        #expect(server.requests.count == 1)
    }

    @Test func `a pause at the last byte loses nothing`() throws {
        // All bytes have arrived, but the response has not ended. This is the last moment at which a pause can occur.
        server.route("GET", "/last", .text("0123456789").framed(.chunked).stalls(afterBytes: 10))
        let probe = Probe(server.url("/last"))
        let flowing = Signal()
        probe.operation.onFirstBytes { flowing.fire() }
        queue.addOperation(probe.operation)
        #expect(flowing.wait())
        probe.operation.pause()
        server.route("GET", "/last", .text("0123456789"))
        probe.operation.resume()
        #expect(probe.outcome() == Probe.succeeded)
        #expect(probe.operation.responseString == "0123456789")
    }

    @Test func `a pause during parsing keeps the outcome for the resume`() throws {
        let (parsing, paused) = (Signal(), Signal())
        let probe = Probe(server.url("/quick"))
        probe.operation.responseSerializer = SlowSerializer(parsing: parsing, goOn: paused)
        queue.addOperation(probe.operation)
        #expect(parsing.wait())
        probe.operation.pause()
        paused.fire()
        #expect(probe.operation.state == .paused)
        #expect(probe.operation.responseObject == nil)
        probe.operation.resume()
        #expect(probe.outcome() == Probe.succeeded)
        #expect(probe.operation.responseObject as? String == "parsed")
        #expect(server.requests.count == 1)
    }

    private struct SlowSerializer: HTTPResponseSerialization {
        var http = HTTPResponseSerializer()
        let parsing: Signal
        let goOn: Signal
        func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
            parsing.fire()
            _ = goOn.wait()
            return "parsed"
        }
    }

    @Test func `a failing output stream fails the operation`() throws {
        let full = try #require(OutputStream(toFileAtPath: "/dev/full", append: false))
        let probe = Probe(server.url("/quick"), output: full)
        queue.addOperation(probe.operation)
        #expect(probe.outcome() == ["failure \(URLError.cannotWriteToFile.rawValue)", "completion"])
        #expect(probe.error?.userInfo[NSLocalizedDescriptionKey] as? String != nil)
    }

    @Test func `an output stream that cannot be opened fails the operation`() throws {
        let missing = try #require(OutputStream(toFileAtPath: "/no/such/directory/file", append: false))
        let probe = Probe(server.url("/quick"), output: missing)
        queue.addOperation(probe.operation)
        #expect(probe.outcome() == ["failure \(URLError.cannotWriteToFile.rawValue)", "completion"])
        #expect(server.requests.isEmpty)
    }

    @Test func `an output stream that runs out of space fails the operation`() {
        final class FullStream: OutputStream {
            override var streamStatus: Stream.Status { .open }
            override var hasSpaceAvailable: Bool { false }
            override func open() {}
            override func close() {}
            override func write(_ buffer: UnsafePointer<UInt8>, maxLength len: Int) -> Int { 0 }
        }
        let probe = Probe(server.url("/quick"), output: FullStream(toMemory: ()))
        queue.addOperation(probe.operation)
        #expect(probe.outcome() == ["failure \(URLError.cannotWriteToFile.rawValue)", "completion"])
    }

    @Test func `a user's slow stream delays only its own transfer`() {
        final class SlowStream: OutputStream {
            let goOn = Signal()
            let writing = Signal()
            private var isFirst = true
            private(set) var bytes = Data()
            override var streamStatus: Stream.Status { .open }
            override func open() {}
            override func close() {}
            override func write(_ buffer: UnsafePointer<UInt8>, maxLength len: Int) -> Int {
                if isFirst {
                    isFirst = false
                    writing.fire()
                    _ = goOn.wait()
                }
                bytes.append(buffer, count: min(len, 1000))
                return min(len, 1000)
            }
        }
        let content = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 % 251) })
        server.serve(content, at: "/content")
        let stream = SlowStream(toMemory: ())
        let slow = Probe(server.url("/content"), output: stream)
        queue.addOperation(slow.operation)
        #expect(stream.writing.wait())
        let other = Probe(server.url("/quick"))
        queue.addOperation(other.operation)
        #expect(other.outcome() == Probe.succeeded)
        #expect(!slow.operation.isFinished)
        stream.goOn.fire()
        #expect(slow.outcome() == Probe.succeeded)
        #expect(stream.bytes == content)
    }

    @Test func `a stream that is complete only after closing is closed before the operation finishes`() {
        final class Buffered: OutputStream {
            private var pending = Data()
            private(set) var whole = Data()
            override var streamStatus: Stream.Status { .open }
            override func open() {}
            override func close() { whole = pending }
            override func write(_ buffer: UnsafePointer<UInt8>, maxLength len: Int) -> Int {
                pending.append(buffer, count: len)
                return len
            }
        }
        let stream = Buffered(toMemory: ())
        let probe = Probe(server.url("/quick"), output: stream)
        queue.addOperation(probe.operation)
        #expect(probe.outcome() == Probe.succeeded)
        #expect(stream.whole == Data("quick".utf8))
    }

    // MARK: 3: results are final before isFinished

    @Test func `a dependent can always read its dependency's results`() throws {
        for _ in 0..<200 {
            let first = Probe(server.url("/json"))
            first.operation.responseSerializer = JSONResponseSerializer()
            let seen = Locked<String?>(nil)
            let done = Signal()
            let dependent = BlockOperation { [operation = first.operation] in
                seen.withLock { $0 = (operation.responseObject as? [String: Any])?["token"] as? String }
                done.fire()
            }
            dependent.addDependency(first.operation)
            queue.addOperations([first.operation, dependent], waitUntilFinished: false)
            #expect(done.wait())
            #expect(seen.withLock { $0 } == "x")
            #expect(first.outcome() == Probe.succeeded)
        }
    }

    @Test func `an error response's parsed body is available with the error`() {
        server.route("GET", "/refused", .json(text: #"{"reason": "no"}"#).status(403))
        let probe = Probe(server.url("/refused"))
        probe.operation.responseSerializer = JSONResponseSerializer()
        queue.addOperation(probe.operation)
        #expect(probe.outcome() == ["failure -1011", "completion"])
        #expect((probe.operation.responseObject as? [String: String]) == ["reason": "no"])
        #expect(probe.operation.statusCode == 403)
        #expect(probe.operation.responseString == #"{"reason": "no"}"#)
    }

    // MARK: 4: changes are posted with no lock held

    @Test func `an observer can use the operation in its handler`() {
        let probe = Probe(server.url("/quick"))
        let finished = Signal()
        probe.operation.keepObserving(.isFinished) { operation, change in
            #expect(operation.response?.statusCode == 200)
            operation.cancel()
            operation.completionBlock = nil
            if change.newValue { finished.fire() }
        }
        queue.addOperation(probe.operation)
        #expect(finished.wait())
    }

    // MARK: 7: groups and handlers

    @Test func `an operation leaves its completion group on every path`() {
        let group = DispatchGroup()
        server.route("GET", "/broken", .text("x").resetBeforeHead())
        let paths: [(HTTPRequestOperation) -> Void] = [
            { self.queue.addOperation($0) },
            { $0.cancel() },
            {
                $0.cancel()
                $0.start()
            },
            {
                self.queue.addOperation($0)
                $0.cancel()
            },
            {
                $0.pause()
                $0.cancel()
            },
            { $0.start() },
        ]
        for path in paths {
            for name in ["/quick", "/broken", "/nowhere"] {
                let operation = HTTPRequestOperation(request: URLRequest(url: server.url(name)))
                operation.completionGroup = group
                operation.completionQueue = testQueue
                operation.completionBlock = {}
                path(operation)
            }
        }
        #expect(group.wait(timeout: .now() + 100) == .success)
        // An operation that is never started blocks nothing, and can be released.
        do {
            let operation = HTTPRequestOperation(request: URLRequest(url: server.url("/quick")))
            operation.completionGroup = group
        }
        #expect(group.wait(timeout: .now()) == .success)
    }

    // MARK: 8: nothing is retained

    @Test(arguments: ["finished", "cancelled"])
    func `a retained operation retains no closures after its handlers have run`(ending: String) throws {
        final class Token: Sendable { func use() {} }
        weak var left: Token?
        let operation = HTTPRequestOperation(request: URLRequest(url: server.url("/quick")))
        operation.completionQueue = testQueue
        let delivered = Signal()
        do {
            let token = Token()
            left = token
            operation.setCompletionHandler(success: { _, _ in token.use() }, failure: { _, _ in token.use() })
            operation.completionBlock = { token.use() }
            operation.downloadProgressHandler = { _, _, _ in token.use() }
            operation.uploadProgressHandler = { _, _, _ in token.use() }
            operation.redirectHandler = { _, request, _ in
                token.use()
                return request
            }
            operation.retryHandler = { _, _ in token.use() }
            operation.prepare = { _ in token.use() }
            operation.keepObserving(.state, on: testQueue) { _, _ in token.use() }
            operation.whenDelivered { [token] in
                token.use()
                delivered.fire()
            }
        }
        if ending == "cancelled" { operation.cancel() }
        queue.addOperation(operation)
        #expect(delivered.wait())
        try eventually(timeout: 10, "the closures to be released") { left == nil }
        #expect(operation.isFinished && operation.completionBlock == nil && operation.dependencies.isEmpty)
    }

    // MARK: 9: caller errors

    @Test(arguments: [
        "ftp://127.0.0.1/x", "file:///etc/passwd", "http:///nohost", "relative", "gopher://127.0.0.1/",
    ])
    func `a URL that cannot be loaded is a typed error`(text: String) throws {
        let probe = Probe(try #require(URL(string: text)))
        queue.addOperation(probe.operation)
        let outcome = try #require(probe.outcome())
        #expect(
            [URLError.badURL.rawValue, URLError.unsupportedURL.rawValue].map { ["failure \($0)", "completion"] }
                .contains(outcome))
    }

    @Test func `starting an operation twice does nothing`() {
        let probe = Probe(server.url("/quick"))
        probe.operation.start()
        probe.operation.start()
        #expect(probe.outcome() == Probe.succeeded)
        probe.operation.start()
        #expect(server.requests.count == 1)
    }

    @Test func `an error thrown by prepare is the operation's error`() {
        struct Refusal: Error {}
        let probe = Probe(server.url("/quick"))
        probe.operation.prepare = { _ in throw Refusal() }
        queue.addOperation(probe.operation)
        #expect(probe.outcome()?.count == 2)
        #expect(probe.operation.error is Refusal)
        #expect(server.requests.isEmpty)
    }

    @Test func `a failed dependency cancels its dependents if configured`() {
        server.route("GET", "/broken", .text("x").resetBeforeHead())
        let first = Probe(server.url("/broken"))
        let (strict, lenient) = (Probe(server.url("/quick")), Probe(server.url("/quick")))
        strict.operation.dependencyFailurePolicy = .cancel
        for probe in [strict, lenient] { probe.operation.addDependency(first.operation) }
        queue.addOperations([first, strict, lenient].map(\.operation), waitUntilFinished: false)
        #expect(strict.outcome() == Probe.cancelled)
        #expect(lenient.outcome() == Probe.succeeded)
        #expect(strict.error?.userInfo[NSUnderlyingErrorKey] is URLError)
        #expect(first.outcome()?.count == 2)
    }
}
