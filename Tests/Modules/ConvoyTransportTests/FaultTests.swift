import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that a violation of the protocol by a server causes one typed error, and that the next request succeeds.
@Suite struct FaultTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("GET", "/fine", .text("fine"))
    }

    private func expect(_ code: URLError.Code, from response: TestServer.Response, timeout: TimeInterval = 15) throws {
        server.route("GET", "/fault", response)
        let heard = try #require(load(server.url("/fault"), timeout: timeout))
        #expect(heard.ends.count == 1)
        let error = try #require(heard.error)
        #expect(error.code == code, "\(error)")
        #expect(error.userInfo[NSURLErrorFailingURLErrorKey] as? URL == server.url("/fault"))
        #expect((error.userInfo[NSLocalizedDescriptionKey] as? String)?.isEmpty == false)
        let next = try #require(load(server.url("/fine")))
        #expect(next.isFinished && next.text == "fine")
    }

    @Test func `a truncated response is an error`() throws {
        try expect(.networkConnectionLost, from: .pattern(count: 100_000).truncated(afterBytes: 5_000))
    }

    @Test func `a connection reset in the body is an error`() throws {
        try expect(.networkConnectionLost, from: .pattern(count: 100_000).resets(afterBytes: 5_000))
    }

    @Test func `a connection reset before the head is an error`() throws {
        try expect(.networkConnectionLost, from: .text("x").resetBeforeHead())
    }

    @Test func `a connection closed without a response is an error`() throws {
        try expect(.networkConnectionLost, from: .text("x").failing(.closeBeforeHead))
    }

    @Test func `a body that stalls times out`() throws {
        try expect(.timedOut, from: .pattern(count: 100_000).stalls(afterBytes: 5_000), timeout: 0.3)
    }

    @Test func `a server that never responds times out`() throws {
        try expect(.timedOut, from: .text("x").failing(.stallBeforeHead), timeout: 0.3)
    }

    @Test func `a slow body may take longer than the idle timeout in total`() throws {
        server.route("GET", "/drip", .drip(Data("0123456789".utf8), chunk: 1, interval: 0.1))
        let heard = try #require(load(server.url("/drip"), timeout: 0.5))
        #expect(heard.isFinished && heard.text == "0123456789")
    }

    @Test func `a Content-Length that is too large is an error`() throws {
        try expect(.networkConnectionLost, from: .text("short").contentLength(50).closing())
    }

    @Test func `a Content-Length that is not a number is an error`() throws {
        try expect(
            .badServerResponse,
            from: .raw("HTTP/1.1 200 OK\r\nContent-Length: many\r\nConnection: close\r\n\r\nbody").closing())
    }

    @Test func `a Content-Length followed by a bare CR is an error`() throws {
        try expect(.badServerResponse, from: .raw("HTTP/1.1 200 OK\r\nContent-Length: 4\r\r\n\r\nbody").closing())
    }

    @Test func `a head that ends with a blank instead of an empty line is an error`() throws {
        try expect(.networkConnectionLost, from: .raw("HTTP/1.1 204 No Content\r\nServer: x\r\n\t\n").closing())
    }

    /// libcurl mistakes the line for the end of the head. The connection must not be used again.
    @Test func `a head line that begins with a bare CR is an error`() throws {
        try expect(.badServerResponse, from: .raw("HTTP/1.1 204 No Content\r\n\rServer: x\r\n\r\n"))
    }

    @Test func `two different Content-Length values are an error`() throws {
        try expect(
            .badServerResponse,
            from: .raw("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody!").closing())
        try expect(
            .badServerResponse, from: .raw("HTTP/1.1 200 OK\r\nContent-Length: 4, 5\r\n\r\nbody!").closing())
    }

    @Test func `a repeated Content-Length with the same value is accepted`() throws {
        server.route("GET", "/twice", .raw("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nbody"))
        let heard = try #require(load(server.url("/twice")))
        #expect(heard.isFinished && heard.text == "body")
    }

    @Test func `ten megabytes of headers are an error`() throws {
        var head = "HTTP/1.1 200 OK\r\n"
        let line = String(repeating: "x", count: 8_000)
        for number in 0..<1_250 { head += "X-\(number): \(line)\r\n" }
        try expect(.badServerResponse, from: .raw(head + "Content-Length: 0\r\n\r\n").closing())
    }

    @Test func `a response that is not HTTP is an error`() throws {
        try expect(.badServerResponse, from: .raw("220 smtp.example.com ESMTP\r\n").closing())
        try expect(.badServerResponse, from: .raw(String(repeating: "\u{0}", count: 100)).closing())
    }

    /// libcurl 7.88 treats such a response as one without a status, so that a 304 would have a body.
    @Test(arguments: ["q.1", "1.q", "1.1q", "\u{FF}.1", "."])
    func `an invalid HTTP version is an error`(version: String) throws {
        try expect(
            .badServerResponse, from: .raw("HTTP/\(version) 304 Not Modified\r\nContent-Length: 4\r\n\r\nbody").closing())
    }

    /// libcurl 7.88 reads such a name case-insensitively.
    @Test func `a status line with another protocol name is an error`() throws {
        try expect(.badServerResponse, from: .raw("HtTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody").closing())
    }

    @Test func `a body that does not match its Content-Encoding is an error`() throws {
        try expect(
            .cannotDecodeContentData,
            from: .text("this is not gzip at all").header("Content-Encoding", "gzip"))
    }

    @Test func `a port without a listener is a connection error`() throws {
        let port = server.port
        server.stop()
        let url = try #require(URL(string: "http://127.0.0.1:\(port)/"))
        #expect(load(url)?.error?.code == .cannotConnectToHost)
    }

    @Test func `a host that does not exist is a lookup error`() throws {
        let url = try #require(URL(string: "http://no-such-host.invalid/"))
        #expect(load(url)?.error?.code == .cannotFindHost)
    }

    @Test(arguments: [204, 304])
    func `a status without a body succeeds even if it announces a length`(status: Int) throws {
        server.route(
            "GET", "/none", .raw("HTTP/1.1 \(status) None\r\nContent-Length: 50\r\n\r\n"))
        let heard = try #require(load(server.url("/none")))
        #expect(heard.isFinished && heard.body.isEmpty)
        #expect(heard.heads.map(\.statusCode) == [status])
    }

    @Test func `trailers of a chunked body do not become header fields`() throws {
        server.route(
            "GET", "/chunks",
            .raw(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\n\r\n"
            ))
        let heard = try #require(load(server.url("/chunks")))
        #expect(heard.isFinished && heard.text == "body")
        #expect(heard.heads.count == 1)
        #expect(heard.heads.first?["X-Sum"] == nil)
    }

    @Test func `an interim response is not delivered as the response`() throws {
        server.route("GET", "/early", .text("late").preceded(by: 103, headers: ["Link": "</a>; rel=preload"]))
        let heard = try #require(load(server.url("/early")))
        #expect(heard.isFinished && heard.text == "late")
        #expect(heard.heads.map(\.statusCode) == [200])
        #expect(heard.heads.first?["Link"] == nil)
    }
}
