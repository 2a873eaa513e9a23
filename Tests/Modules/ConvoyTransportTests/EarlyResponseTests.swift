import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Responses that arrive while more of the request's body is expected.
@Suite struct EarlyResponseTests {
    private let server: TestServer
    private let thread = NetworkThread()

    init() throws {
        server = try TestServer()
        server.route("POST", "/moved", options: .answersEarly, .redirect(to: "/there", status: 307))
        server.route("POST", "/refused", options: .answersEarly, .status(413))
        server.route("POST", "/refused-with-words", options: .answersEarly, .text("too much", status: 413))
        server.route(
            "POST", "/refused-later", options: .answersEarly, .text("too much", status: 413).delayedBody(0.1))
        server.route(
            "POST", "/refused-in-chunks", options: .answersEarly,
            .chunked(["too", " much"], every: 0.05).status(413))
        server.route("POST", "/there", .text("arrived"))
    }

    private func upload(
        _ stream: InputStream, to path: String, _ collector: Collector, timeout: TimeInterval = 10
    ) throws -> Collector.Heard {
        var request = URLRequest(url: server.url(path))
        request.httpMethod = "POST"
        request.httpBodyStream = stream
        request.timeoutInterval = timeout
        let connection = RequestChain(request: request, delegate: collector, thread: thread)
        connection.start()
        return try #require(collector.wait(within: 60))
    }

    @Test func `a redirect is followed if the body becomes ready while the delegate decides`() throws {
        for _ in 0..<5 {
            let stream = GatedStream()
            let (thread, gate, isBegun, isRead) = (thread, stream.gate, stream.isBegun, stream.isRead)
            let collector = Collector(decision: { redirect, decide in
                var next = redirect.request
                next.httpBodyStream = InputStream(data: Data("again".utf8))
                let replaced = next
                gate.signal()
                // Continue when reading has ended and the network thread has processed this. (The redirect may have
                // arrived before libcurl requested the body.)
                if isBegun.wait(timeout: .now()) == .success { _ = isRead.wait(timeout: .now() + 30) }
                DispatchQueue.global().async { thread.perform { thread.perform { decide(replaced) } } }
            })
            let heard = try upload(stream, to: "/moved", collector)
            #expect(heard.isFinished && heard.text == "arrived", "\(heard.ends)")
        }
    }

    @Test func `a redirect decided late is followed even if the body never becomes ready`() throws {
        for _ in 0..<5 {
            let stream = GatedStream()
            defer { stream.gate.signal() }
            let thread = thread
            let collector = Collector(decision: { redirect, decide in
                var next = redirect.request
                next.httpBodyStream = InputStream(data: Data("again".utf8))
                let replaced = next
                // Wait past the turns in which the response could have ended without the decision.
                DispatchQueue.global().async { thread.perform { thread.perform { thread.perform { decide(replaced) } } } }
            })
            // Disable the timeout, so that only the response can end the wait.
            let heard = try upload(stream, to: "/moved", collector, timeout: 0)
            #expect(heard.isFinished && heard.text == "arrived", "\(heard.ends)")
        }
    }

    @Test(arguments: ["/moved", "/refused", "/refused-with-words", "/refused-later", "/refused-in-chunks"])
    func `a response completes even if the body never becomes ready`(path: String) throws {
        let stream = GatedStream()
        defer { stream.gate.signal() }
        let collector = Collector(decision: { redirect, decide in
            var next = redirect.request
            next.httpBodyStream = InputStream(data: Data("again".utf8))
            decide(next)
        })
        let heard = try upload(stream, to: path, collector)
        #expect(heard.isFinished && heard.heads.first?.statusCode == (path == "/moved" ? 200 : 413), "\(heard.ends)")
    }
}

/// A body whose first byte is available once a gate opens.
private final class GatedStream: InputStream {
    let gate = DispatchSemaphore(value: 0)
    let isBegun = DispatchSemaphore(value: 0)
    let isRead = DispatchSemaphore(value: 0)
    private var left = 1

    init() { super.init(data: Data()) }

    override func open() {}
    override func close() {}
    override var hasBytesAvailable: Bool { left > 0 }
    override var streamStatus: Stream.Status { .open }
    override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength length: Int) -> Int {
        isBegun.signal()
        gate.wait()
        gate.signal()
        defer { isRead.signal() }
        guard left > 0 else { return 0 }
        left -= 1
        buffer[0] = UInt8(ascii: "x")
        return 1
    }
}
