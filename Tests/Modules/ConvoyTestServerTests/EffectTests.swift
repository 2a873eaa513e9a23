import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

final class EffectTests {
    private let data = PatternBytes.data(count: 5000)
    /// Keeps the servers alive, because a released server stops.
    private var servers: [TestServer] = []

    private func client(_ response: TestServer.Response) throws -> (TestServer, RawClient) {
        let server = try TestServer()
        servers.append(server)
        server.route("/", response)
        let client = try RawClient(port: server.port)
        try client.request("GET", "/")
        return (server, client)
    }

    @Test func `each part is sent as a separate chunk, followed by the trailers`() throws {
        let big = PatternBytes.data(count: 300_000)
        let (_, raw) = try client(.chunked([Data("ab".utf8), Data(), big, Data("c".utf8)]).trailers(["X-Sum": "7"]))
        let head = try raw.read(4000)
        #expect(String(decoding: head, as: UTF8.self).contains("Trailer: X-Sum"))
        let (_, parsed) = try client(.chunked([Data("ab".utf8), Data(), big, Data("c".utf8)]).trailers(["X-Sum": "7"]))
        let response = try parsed.response()
        #expect(response.body == Data("ab".utf8) + big + Data("c".utf8) && response["X-Sum"] == "7")
        let (_, literal) = try client(.chunked(["ab", "cde"]).closing())
        #expect(String(decoding: try literal.readToEnd(), as: UTF8.self).hasSuffix("2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"))
    }

    @Test func `the body is framed by length, by chunks or by closing the connection`() throws {
        for framing in [TestServer.Response.Framing.automatic, .chunked, .closeDelimited] {
            let (_, client) = try client(.bytes(data).framed(framing))
            #expect(try client.response().body == data)
        }
    }

    @Test func `a drip is sent in parts with pauses`() throws {
        let start = Date()
        let (_, client) = try client(.drip(data, chunk: 1000, interval: 0.02))
        #expect(try client.response().body == data)
        #expect(Date().timeIntervalSince(start) >= 0.08)
    }

    @Test func `the bandwidth is limited`() throws {
        let start = Date()
        let (_, client) = try client(.bytes(data).bandwidth(bytesPerSecond: 20_000))
        #expect(try client.response().body == data)
        let seconds = Date().timeIntervalSince(start)
        #expect(seconds >= 0.17 && seconds < 5)
        let (_, other) = try self.client(.chunked([data]).bandwidth(bytesPerSecond: 50_000))
        #expect(try other.response().body == data)
    }

    @Test func `the head or the body can be delayed`() throws {
        for response in [TestServer.Response.text("x").delayed(0.05), .text("x").delayedBody(0.05)] {
            let start = Date()
            let (_, client) = try client(response)
            #expect(try client.response().text == "x")
            #expect(Date().timeIntervalSince(start) >= 0.05)
        }
    }

    @Test func `a response waits at a gate, before the head or within the body`() throws {
        let gate = TestServer.Gate()
        let (server, first) = try client(.text("x").held(by: gate))
        server.route("/body", .bytes(data).heldBody(by: gate, afterBytes: 1000))
        let second = try RawClient(port: server.port)
        try second.request("GET", "/body")
        var head = Data()
        while head.suffix(4) != Data("\r\n\r\n".utf8) { head += try second.read(1) }
        #expect(try second.read(1000) == data.prefix(1000))
        try server.wait { $0.activeRequestCount == 2 }
        gate.open()
        #expect(try first.response().text == "x")
        #expect(try second.read(4000) == data.dropFirst(1000))
        #expect(server.peakActiveRequestCount == 2)
        let (_, third) = try client(.text("open already").held(by: gate))
        #expect(try third.response().text == "open already")
    }

    @Test(arguments: [0, 1, 4999])
    func `a response stalls after a number of bytes and keeps the connection open`(count: Int) throws {
        let (server, client) = try client(.bytes(data).stalls(afterBytes: count))
        while try client.read(1) != Data("\r".utf8) || client.read(3) != Data("\n\r\n".utf8) {}
        #expect(try client.read(count) == data.prefix(count))
        #expect(server.openConnectionCount == 1 && server.activeRequestCount == 1)
        client.close()
        let statistics = try server.wait { $0.openConnectionCount == 0 }
        #expect(statistics.abandonedRequestCount == 1 && statistics.activeRequestCount == 0)
    }

    @Test(arguments: [0, 1, 4999])
    func `a response is reset after an exact number of bytes`(count: Int) throws {
        let (_, client) = try client(.bytes(data).resets(afterBytes: count))
        while try client.read(1) != Data("\r".utf8) || client.read(3) != Data("\n\r\n".utf8) {}
        #expect(try client.read(count) == data.prefix(count))
        #expect(throws: RawClient.Failure.reset) { _ = try client.read(1) }
    }

    @Test(arguments: [0, 1, 4999])
    func `a response is truncated after an exact number of bytes`(count: Int) throws {
        let (_, client) = try client(.bytes(data).truncated(afterBytes: count))
        let text = String(decoding: try client.readToEnd(), as: UTF8.self)
        #expect(text.contains("Content-Length: 5000") && text.utf8.count > count)
        let (_, chunked) = try self.client(.chunked([data]).truncated(afterBytes: count))
        let bytes = try chunked.readToEnd()
        #expect(count == 0 || bytes.suffix(count) == data.prefix(count))
        #expect(!bytes.suffix(5).elementsEqual("0\r\n\r\n".utf8))
    }

    @Test func `a response can fail before its head with a reset, an empty reply or silence`() throws {
        let (_, reset) = try client(.text("x").resetBeforeHead())
        #expect(throws: RawClient.Failure.reset) { _ = try reset.readToEnd() }
        let (_, empty) = try client(.text("x").failing(.closeBeforeHead))
        #expect(try empty.readToEnd().isEmpty)
        let (server, silent) = try client(.text("x").failing(.stallBeforeHead))
        try server.wait { $0.activeRequestCount == 1 }
        silent.finishSending()
        #expect(try silent.readToEnd().isEmpty)
    }

    @Test func `a Content-Length is sent with 204, 304 and 302 only if the test sets it`() throws {
        for status in [204, 304] {
            let (_, client) = try client(.status(status).contentLength(5))
            #expect(try client.response()["Content-Length"] == "5")
            #expect(try client.exchange("GET", "/")["Content-Length"] == "5")
            let (_, plain) = try self.client(.text("dropped").status(status))
            #expect(try plain.response()["Content-Length"] == nil)
            #expect(try plain.exchange("GET", "/").status == status)
            let (_, broken) = try self.client(.text("hello").status(status).contentLength(5))
            #expect(String(decoding: try broken.readToEnd(), as: UTF8.self).hasSuffix("\r\n\r\nhello"))
        }
        let (_, redirect) = try client(.redirect(to: "/b").contentLength(5))
        let text = String(decoding: try redirect.readToEnd(), as: UTF8.self)
        #expect(text.contains("302 Found") && text.contains("Content-Length: 5") && text.hasSuffix("\r\n\r\n"))
    }

    @Test func `the connection is closed after a wrong Content-Length`() throws {
        for length in [3, 8] {
            let (_, client) = try client(.text("hello").contentLength(length))
            #expect(String(decoding: try client.readToEnd(), as: UTF8.self).hasSuffix("\r\n\r\nhello"))
        }
    }

    @Test func `custom header fields are sent unchanged, including duplicates and framing`() throws {
        let (_, client) = try client(
            .text("hello").header("content-LENGTH", "5").header("Content-Length", "6").header("Set-Cookie", "a")
                .header("Set-Cookie", "b").closing())
        let text = String(decoding: try client.readToEnd(), as: UTF8.self)
        #expect(text.contains("content-LENGTH: 5\r\nContent-Length: 6\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"))
        #expect(!text.contains("Content-Length: 5"))
    }

    @Test func `a response need not be valid HTTP`() throws {
        let (_, client) = try client(.raw("http/1.1 200 ok\r\n\r\n"))
        #expect(try client.readToEnd() == Data("http/1.1 200 ok\r\n\r\n".utf8))
        let (_, cut) = try self.client(.raw("0123456789").truncated(afterBytes: 4))
        #expect(try cut.readToEnd() == Data("0123".utf8))
    }

    @Test func `a response may follow interim ones and have any status and reason`() throws {
        let (_, client) = try client(
            .text("x").preceded(by: 103, headers: ["Link": "</a>"]).status(299, reason: "Nearly"))
        let hints = try client.anyResponse()
        #expect(hints.status == 103 && hints["Link"] == "</a>")
        #expect(try client.anyResponse().statusLine == "HTTP/1.1 299 Nearly")
    }

    @Test func `a large pattern is streamed through a small client buffer`() throws {
        let count = 30_000_000
        let server = try TestServer()
        server.route("/", .pattern(count: count))
        let client = try RawClient(port: server.port, receiveBuffer: 8192)
        try client.request("GET", "/")
        while try client.read(1) != Data("\r".utf8) || client.read(3) != Data("\n\r\n".utf8) {}
        var done = 0
        while done < count {
            let part = try client.read(min(500_000, count - done))
            guard part.withUnsafeBytes({ PatternBytes.matches($0, offset: done) }) else { break }
            done += part.count
        }
        #expect(done == count)
    }
}
