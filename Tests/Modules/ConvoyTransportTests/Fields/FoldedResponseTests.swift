import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Folded fields, and lines that are not fields, in responses received over a connection.
@Suite struct FoldedResponseTests {
    let server: TestServer

    init() throws { server = try TestServer() }

    private func heard(_ text: String, method: String = "GET") throws -> Collector.Heard {
        server.route("/it", .raw(text))
        var request = URLRequest(url: server.url("/it"))
        request.httpMethod = method
        request.timeoutInterval = 15
        return try #require(load(request))
    }

    private static let ok = "HTTP/1.1 200 OK\r\n"
    private static let chunks = "5\r\nhello\r\n0\r\n\r\n"

    /// libcurl ignores the continuation, and would therefore deliver the chunks, or only part of the body.
    @Test(arguments: [
        "Transfer-Encoding:\r\n chunked\r\n\r\n" + Self.chunks, "Transfer-Encoding : chunked\r\n\r\n" + Self.chunks,
        "Transfer-Encoding\t: chunked\r\n\r\n" + Self.chunks,
        "Transfer-Encoding: identity\r\n , chunked\r\n\r\n" + Self.chunks,
        "Transfer-Encoding: chunked\r\n , chunked\r\n\r\n" + Self.chunks, "Content-Length:\r\n 7\r\n\r\n{\"a",
        "Content-Length : 7\r\n\r\n{\"a", "Content-Length\t: 7\r\n\r\n{\"a\":1}", "Content-Length: 3\r\n 7\r\n\r\n{\"a",
        "Content-Length: 3\r\n , 7\r\n\r\n{\"a", "Content-Length:\r\n 7\r\nContent-Length: 7\r\n\r\n{\"a",
    ])
    func `framing that libcurl interprets differently is an error`(rest: String) throws {
        let heard = try heard(Self.ok + rest)
        #expect(heard.error?.code == .badServerResponse, "\(heard)")
        #expect(heard.body.isEmpty && heard.heads.isEmpty)
    }

    @Test(arguments: [
        ("Content-Length: 5\r\n \r\n\r\nhello", "hello"), ("Content-Length: 5\r\n\t, 5\r\n\r\nhello", "hello"),
        ("Transfer-Encoding: chunked \r\n \r\n\r\n" + Self.chunks, "hello"),
        ("X-Note: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nraw", "raw"),
        ("X-Note: a\r\n Content-Length: 1\r\nContent-Length: 3\r\n\r\nraw", "raw"),
        ("X-Note:\r\n Set-Cookie: a=b\r\nContent-Length: 3\r\n\r\nraw", "raw"),
    ])
    func `folds in other fields do not change the body`(rest: String, body: String) throws {
        let heard = try heard(Self.ok + rest)
        #expect(heard.isFinished && heard.text == body, "\(heard)")
        #expect(heard.heads.first?["Set-Cookie"] == nil)
    }

    @Test(arguments: ["Connection:\r\n close", "Connection: x,\r\n close", "connection: x\r\n , Close\r\n "])
    func `a folded Connection: close closes the connection`(field: String) throws {
        for (value, count) in [(field, 3), ("Connection: x,\r\n y", 1)] {
            let server = try TestServer()
            server.route("/it", .text("hello").header("X-Note", "a\r\n\(value)"))
            for _ in 0..<3 { #expect(try #require(load(server.url("/it"))).text == "hello") }
            #expect(server.totalConnectionCount == count)
        }
    }

    @Test func `a body with a folded Content-Encoding is decoded`() throws {
        let gzip = try #require(Data(base64Encoded: "H4sIAAAAAAACA8tIzcnJBwCGphA2BQAAAA=="))
        let head = "\(Self.ok)Content-Encoding:\r\n gzip\r\nContent-Length: \(gzip.count)\r\n\r\n"
        server.route("/gzip", .raw(Data(head.utf8) + gzip))
        let heard = try #require(load(server.url("/gzip")))
        #expect(heard.isFinished && heard.text == "hello")
    }

    @Test(arguments: [("/to", "Location:\r\n /to"), ("/to", "Location: /to\r\n "), ("/a%20b", "Location: /a\r\n b")])
    func `a folded Location is followed`(path: String, field: String) throws {
        for target in ["/to", "/a%20b"] { server.route("GET", target, .text(target)) }
        let heard = try heard("HTTP/1.1 302 Found\r\n\(field)\r\nContent-Length: 0\r\n\r\n")
        #expect(heard.isFinished && heard.redirects.count == 1, "\(heard)")
        #expect(heard.redirects.first?.request.url?.path(percentEncoded: true) == path)
    }

    @Test(arguments: [
        "HTTP/1.1 103 Early Hints\r\nLink : </a>\r\n\r\n\(Self.ok)Content-Length: 2\r\n\r\nok",
        "\(Self.ok)X A: 1\r\nContent-Length: 2\r\n\r\nok", "\(Self.ok)X-A\r\nContent-Length: 2\r\n\r\nok",
        "\(Self.ok): 1\r\nContent-Length: 2\r\n\r\nok", "\(Self.ok)X: a\0b\r\nContent-Length: 2\r\n\r\nok",
        "\(Self.ok)Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T : 1\r\n\r\n",
        "\(Self.ok)Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T\r\n\r\n",
        "\(Self.ok)Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n X-T: 1\r\n\r\n",
    ])
    func `a line that is not a field makes the response an error`(text: String) throws {
        let heard = try heard(text)
        #expect(heard.error?.code == .badServerResponse, "\(heard)")
    }

    @Test func `folded trailers are valid`() throws {
        let heard = try heard("\(Self.ok)Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1,\r\n 2\r\n\r\n")
        #expect(heard.isFinished && heard.text == "ok", "\(heard)")
    }
}
