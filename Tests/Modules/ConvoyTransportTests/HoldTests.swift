import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Transfers that are held back and resumed.
@Suite struct HoldTests {
    let server: TestServer
    let thread = NetworkThread()

    init() throws { server = try TestServer() }

    /// Waits for a number of turns of the network thread.
    private func turns(_ count: Int) {
        for _ in 0..<count {
            let turn = DispatchSemaphore(value: 0)
            thread.perform { turn.signal() }
            turn.wait()
        }
    }

    @Test func `resuming before a suspension does not undo the suspension`() throws {
        server.route("GET", "/large", .pattern(count: 3_000_000))
        let held = DispatchSemaphore(value: 0)
        let collector = Collector(onData: { connection in
            connection.resumeReceiving()
            connection.suspendReceiving()
            held.signal()
        })
        let connection = RequestChain(
            request: URLRequest(url: server.url("/large")), delegate: collector, thread: thread)
        connection.start()
        var count = 0
        while count < 3_000_000 {
            try held.waitOrThrow(timeout: 30, "a block after \(count) bytes")
            count = collector.body.count
            turns(20)
            #expect(collector.body.count == count)
            connection.resumeReceiving()
        }
        let heard = try #require(collector.wait(within: 30))
        #expect(heard.isFinished && heard.body == PatternBytes.data(count: 3_000_000))
    }

    @Test func `a head is delivered before its body arrives`() throws {
        let gate = TestServer.Gate()
        server.route("GET", "/late", .text("late").heldBody(by: gate))
        var request = URLRequest(url: server.url("/late"))
        request.timeoutInterval = 20
        let heard = try #require(load(request, thread: thread, delegate: Collector(onHead: { _ in gate.open() })))
        #expect(heard.isFinished && heard.text == "late", "\(heard.ends)")
    }

    @Test(.timeLimit(.minutes(1)))
    func `a head that is read although the transfer is paused is delivered line by line`() async throws {
        for _ in 0..<20 {
            let gate = TestServer.Gate()
            server.route("POST", "/late", .text("late").header("X-Last", "1").held(by: gate))
            var request = URLRequest(url: server.url("/late"))
            request.httpMethod = "POST"
            server.forgetRequests()
            let collector = Collector()
            let connection = RequestChain(request: request, delegate: collector, thread: thread)
            connection.start()
            try await waitUntil("the request") { !server.requests("/late").isEmpty }
            thread.perform { _ = connection.pause() }
            gate.open()
            // Each suspension and resumption lets libcurl 7.88 read once while it is paused. Newer versions read nothing.
            for _ in 0..<500 where collector.heardSoFar.heads.isEmpty && collector.heardSoFar.ends.isEmpty {
                thread.perform {
                    connection.resume()
                    _ = connection.pause()
                }
                turns(1)
            }
            thread.perform { connection.resume() }
            let heard = try #require(collector.wait(within: 30))
            #expect(heard.isFinished && heard.text == "late", "\(heard.ends)")
            #expect(heard.heads.first?["X-Last"] == "1" && heard.heads.first?.statusCode == 200)
        }
    }

    @Test func `the one-second limit for an error body does not run while the delegate is paused`() throws {
        server.route("GET", "/error", .pattern(count: 5_000).status(500))
        let thread = thread
        let collector = Collector(onHead: { connection in
            connection.limitBodyOfError()
            connection.suspendReceiving()
            // The timer fires after the check at the end of that second, even if both are late.
            let timer = RunLoopTimer { connection.resumeReceiving() }
            thread.runLoop?.schedule(timer, at: NetworkRunLoop.now + 1_100_000_000)
        })
        let heard = try #require(load(URLRequest(url: server.url("/error")), thread: thread, delegate: collector))
        #expect(heard.isFinished && heard.body == PatternBytes.data(count: 5_000), "\(heard.ends)")
    }

    @Test func `a redirect taken as the response fails without affecting others if its body cannot be decoded`() throws {
        server.route("POST", "/moved") { _ in
            .text("a body").status(302).header("Location", "/there").header("Content-Encoding", "unknown")
        }
        server.route("GET", "/there", .text("there"))
        var configuration = ConnectionConfiguration()
        configuration.refusesUnknownEncodings = true
        for _ in 0..<3 {
            var request = URLRequest(url: server.url("/moved"))
            request.httpMethod = "POST"
            request.httpBody = Data("words".utf8)
            let heard = try #require(
                load(
                    request, configuration: configuration, thread: thread,
                    delegate: Collector(decision: { $1(nil) })), "the transfer did not end")
            #expect(heard.error?.code == .cannotDecodeContentData && heard.ends.count == 1)
            let next = try #require(load(URLRequest(url: server.url("/there")), thread: thread))
            #expect(next.isFinished && next.text == "there")
        }
    }
}

/// Streamed bodies with an announced length.
@Suite struct AnnouncedLengthTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("POST", "/here") { .text(String(decoding: $0.body, as: UTF8.self)) }
    }

    private func upload(_ stream: InputStream, length: String) throws -> Collector.Heard {
        var request = URLRequest(url: server.url("/here"))
        request.httpMethod = "POST"
        request.httpBodyStream = stream
        request.setValue(length, forHTTPHeaderField: "Content-Length")
        let collector = Collector()
        RequestChain(request: request, delegate: collector, thread: .shared).start()
        return try #require(collector.wait(within: 30), "the transfer did not end")
    }

    @Test(arguments: ["", "x", "hello"]) func `an upload ends after its announced length even if the stream never ends`(
        text: String
    ) throws {
        let stream = EndlessStream(Data(text.utf8))
        defer { stream.gate.signal() }
        let heard = try upload(stream, length: "\(text.utf8.count)")
        #expect(heard.isFinished && heard.text == text, "\(heard.ends)")
    }

    @Test func `a stream that exceeds its announced length is an error`() throws {
        let heard = try upload(InputStream(data: Data("hello".utf8)), length: "4")
        #expect(heard.error?.code == .requestBodyStreamExhausted)
    }
}

/// A stream that provides some bytes, and then neither provides more nor ends until its gate opens.
private final class EndlessStream: InputStream {
    let gate = DispatchSemaphore(value: 0)
    private var rest: Data

    override init(data: Data) {
        rest = data
        super.init(data: data)
    }

    convenience init(_ data: Data) { self.init(data: data) }

    override func open() {}
    override func close() {}
    override var hasBytesAvailable: Bool { true }
    override var streamStatus: Stream.Status { .open }
    override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength length: Int) -> Int {
        guard !rest.isEmpty else {
            gate.wait()
            gate.signal()
            return 0
        }
        let count = min(length, rest.count)
        rest.copyBytes(to: buffer, count: count)
        rest = Data(rest.dropFirst(count))
        return count
    }
}
