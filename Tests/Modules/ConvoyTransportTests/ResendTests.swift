import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Requests whose keep-alive connection turns out to be closed.
@Suite struct ResendTests {
    let server: TestServer
    let thread = NetworkThread()

    init() throws {
        server = try TestServer()
        server.route("GET", "/fine", .text("fine"))
    }

    /// Sends a request that leaves a keep-alive connection.
    private func keepConnection() throws {
        let heard = try #require(load(URLRequest(url: server.url("/fine")), thread: thread))
        #expect(heard.isFinished)
    }

    private func count(_ path: String) -> Int { server.requests.count { $0.path == path } }

    @Test(arguments: ["POST", "PATCH"], ["", "some body"])
    func `a request that is not idempotent is sent once`(method: String, body: String) throws {
        server.route(method, "/drop", .text("x").failing(.closeBeforeHead))
        try keepConnection()
        var request = URLRequest(url: server.url("/drop"))
        request.httpMethod = method
        request.httpBody = Data(body.utf8)
        let heard = try #require(load(request, thread: thread))
        #expect(heard.error?.code == .networkConnectionLost)
        // The server has read the request, so something was sent.
        #expect(heard.error?.userInfo[URLError.nothingWasSentKey] == nil)
        #expect(count("/drop") == 1)
    }

    @Test func `a streamed body is sent once`() throws {
        server.route("POST", "/drop", .text("x").failing(.closeBeforeHead))
        try keepConnection()
        var request = URLRequest(url: server.url("/drop"))
        request.httpMethod = "POST"
        request.httpBodyStream = InputStream(data: Data("from a stream".utf8))
        let heard = try #require(load(request, thread: thread))
        #expect(heard.error?.code == .networkConnectionLost)
        #expect(count("/drop") == 1)
    }

    @Test func `idempotent requests are sent again any number of times`() throws {
        let drops = Locked(false)
        server.route("GET", "/flaky") { _ in
            let drop = drops.withLock { drops in
                drops.toggle()
                return drops
            }
            return drop ? .text("x").failing(.closeBeforeHead) : .text("there")
        }
        for _ in 0..<20 {
            try keepConnection()
            let heard = try #require(load(URLRequest(url: server.url("/flaky")), thread: thread))
            #expect(heard.isFinished && heard.text == "there")
        }
        #expect(count("/flaky") == 40)
    }

    @Test func `the body of an idempotent request is resent from its first byte`() throws {
        server.route("PUT", "/flaky", inTurn: [.text("x").failing(.closeBeforeHead), .text("there")])
        try keepConnection()
        var request = URLRequest(url: server.url("/flaky"))
        request.httpMethod = "PUT"
        request.httpBody = Data("some body".utf8)
        let heard = try #require(load(request, thread: thread))
        #expect(heard.isFinished && heard.text == "there", "\(heard.ends)")
        #expect(server.requests("/flaky").map(\.text) == ["some body", "some body"])
    }

    @Test func `a request is resent without Expect after a 417, with one response`() throws {
        server.route("POST", "/expect", options: .answersEarly) { request in
            request.headers["Expect"] == nil
                ? .text("taken") : .raw("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nno")
        }
        var request = URLRequest(url: server.url("/expect"))
        request.httpMethod = "POST"
        request.httpBody = Data(repeating: 7, count: 10)
        request.setValue("100-continue", forHTTPHeaderField: "Expect")
        let heard = try #require(load(request, thread: thread))
        #expect(heard.isFinished && heard.text == "taken")
        #expect(heard.heads.map(\.statusCode) == [200])
    }

    @Test func `an option that libcurl rejects is rejected every time`() throws {
        // The URL is longer than the maximum length of a string in libcurl.
        let url = server.url("/" + String(repeating: "a", count: 9_000_000))
        let first = try #require(load(URLRequest(url: url), thread: thread)?.error)
        let second = try #require(load(URLRequest(url: url), thread: thread)?.error)
        #expect(first.code == second.code)
        #expect(second.code != .badServerResponse, "the request was sent")
        #expect(server.requests.isEmpty)
    }

    @Test func `a delegate called on resumption may start another transfer`() throws {
        server.route("GET", "/big", .pattern(count: 1 << 20))
        let second = Collector()
        let phase = Locked(0)
        let url = server.url("/fine")
        let thread = self.thread
        let first = Collector(onData: { connection in
            let step = phase.withLock { phase in
                phase += 1
                return phase
            }
            if step == 1 {
                connection.suspendReceiving()
                DispatchQueue.global().asyncAfter(deadline: .now() + 0.05) { connection.resumeReceiving() }
            } else if step == 2 {
                RequestChain(request: URLRequest(url: url), delegate: second, thread: thread).start()
            }
        })
        let heard = try #require(load(URLRequest(url: server.url("/big")), thread: thread, delegate: first))
        #expect(heard.isFinished && heard.body.count == 1 << 20)
        #expect(second.wait()?.isFinished == true)
    }
}
