import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

struct ServingTests {
    @Test func `canned responses, closures and async closures share a keep-alive connection`() throws {
        let server = try TestServer()
        server.route("GET", "/closure") { request in .text("closure \(request.method)") }
        server.route("GET", "/async") { _ in
            await Task.yield()
            return .text("async")
        }
        server.route("/login", .json(["token": "x"]))
        let client = try RawClient(port: server.port)
        #expect(try client.exchange("GET", "/closure").text == "closure GET")
        #expect(try client.exchange("GET", "/async").text == "async")
        #expect(try client.exchange("POST", "/login", body: Data("a".utf8)).text == #"{"token":"x"}"#)
        #expect(server.requests.map(\.connection) == [1, 1, 1])
        #expect(server.totalConnectionCount == 1)
    }

    @Test func `valid JSON text is sent unchanged, and other text as a JSON string`() throws {
        let server = try TestServer()
        server.route("/object", .json(#"{"a": [1]}"#))
        server.route("/broken", .json("{\"a\": "))
        server.route("/word", .json("word", status: 201))
        let client = try RawClient(port: server.port)
        #expect(try client.exchange("GET", "/object").text == #"{"a": [1]}"#)
        #expect(try client.exchange("GET", "/broken").text == #""{\"a\": ""#)
        #expect(try client.exchange("GET", "/word").text == #""word""#)
    }

    @Test func `the server acts as a proxy for any host and routes tunnel requests`() throws {
        let server = try TestServer()
        server.route("/page", .text("from any host"))
        server.route("CONNECT", "*", .status(407))
        let client = try RawClient(port: server.port)
        #expect(try client.exchange("GET", "http://a.example:81/page?q").text == "from any host")
        #expect(try client.exchange("CONNECT", "b.example:443").status == 407)
        #expect(server.requests.map(\.target) == ["http://a.example:81/page?q", "b.example:443"])
        #expect(server.requests.map(\.path) == ["/page", "b.example:443"])
    }

    @Test func `each server has a new port`() throws {
        var ports: Set<UInt16> = []
        for _ in 0..<600 {
            let server = try TestServer()
            #expect(ports.insert(server.port).inserted)
            server.stop()
        }
    }

    @Test func `the most specific route is preferred, and HEAD falls back to GET`() throws {
        let server = try TestServer()
        server.route("/*", .text("all"))
        server.route("/files/*", .text("files"))
        server.route("/files/one", .text("one"))
        server.route("PUT", "/files/one", .text("put"))
        server.route("GET", "/only", .text("only"))
        let client = try RawClient(port: server.port)
        #expect(try client.exchange("GET", "/x").text == "all")
        #expect(try client.exchange("GET", "/files/two?q").text == "files")
        #expect(try client.exchange("GET", "/files/one").text == "one")
        #expect(try client.exchange("PUT", "/files/one").text == "put")
        #expect(try client.exchange("HEAD", "/only")["Content-Length"] == "4")
        server.removeRoute("/*")
        #expect(try client.exchange("POST", "/only").status == 405)
        #expect(try client.exchange("GET", "/x").status == 404)
        #expect(server.unexpectedRequests.map(\.path) == ["/only", "/x"])
    }

    @Test func `responses are served in turn, and the last one is repeated`() throws {
        let server = try TestServer()
        server.route("/t", inTurn: [.status(503), .status(429), .text("done")])
        let client = try RawClient(port: server.port)
        #expect(try (0..<4).map { _ in try client.exchange("GET", "/t").status } == [503, 429, 200, 200])
    }

    @Test func `an error thrown by a closure is answered with 500 and its description`() throws {
        struct Broken: Error {}
        let server = try TestServer()
        server.route("/x") { _ in throw Broken() }
        let response = try RawClient(port: server.port).exchange("GET", "/x")
        #expect(response.status == 500 && response.text.contains("Broken"))
    }

    @Test func `complete requests are recorded, and the records outlive the server`() throws {
        let server = try TestServer()
        server.route("/r", .text("ok"))
        let client = try RawClient(port: server.port)
        _ = try client.exchange(
            "PATCH", "/r?a=1%202&b&c=", headers: ["X-One: 1", "x-one:  2 ", "Z: \u{e9}"], body: Data("b\0dy".utf8))
        server.stop()
        let request = try #require(server.requests.first)
        #expect(request.method == "PATCH" && request.target == "/r?a=1%202&b&c=" && request.path == "/r")
        #expect(request.queryItems.map { $0.value } == ["1 2", nil, ""])
        #expect(request.headers.values(for: "X-ONE") == ["1", "2"] && request.headers["z"] == "\u{e9}")
        #expect(request.headers.fields.map(\.name) == ["Host", "X-One", "x-one", "Z", "Content-Length"])
        #expect(request.text == "b\0dy" && request.bodyLength == 4)
        #expect(request.bodyChecksum == .of(Data("b\0dy".utf8)))
    }

    @Test func `pipelined and chunked requests are accepted in any division of the bytes`() throws {
        let server = try TestServer()
        server.echo(at: "/e")
        server.route("/a", .text("a").delayed(0.02))
        let client = try RawClient(port: server.port)
        let text =
            "GET /a HTTP/1.1\r\nHost: x\r\n\r\n" + "POST /e HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            + "3\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n" + "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
        for character in text.utf8 { try client.send(Data([character])) }
        #expect(try client.response().text == "a")
        let echoed = try JSONDecoder().decode(EchoedRequest.self, from: client.response().body)
        #expect(echoed.text == "abcde" && echoed.method == "POST" && echoed.header("transfer-encoding") == "chunked")
        #expect(try client.response().text == "a")
        #expect(server.requests[1].trailers["x-t"] == "1")
    }

    @Test func `a route can send 100 Continue, withhold it or respond early`() throws {
        let server = try TestServer()
        server.route("/c", .text("ok"))
        server.route("/w", options: .withholdsContinue, .text("ok"))
        server.route("/e", options: .answersEarly, .status(417))
        let head = ["Expect: 100-continue", "Content-Length: 3"]
        let client = try RawClient(port: server.port)
        try client.request("POST", "/c", headers: head)
        #expect(try client.anyResponse().status == 100)
        try client.send("abc")
        #expect(try client.anyResponse().status == 200)
        try client.request("POST", "/w", headers: head)
        try client.send("abc")
        #expect(try client.anyResponse().status == 200)
        try client.request("POST", "/e", headers: head)
        #expect(try client.anyResponse().status == 417)
        #expect(try client.readToEnd().isEmpty)
        #expect(server.requests.map(\.text) == ["abc", "abc", ""])
    }

    @Test func `an early response arrives while a large body is being sent`() throws {
        let server = try TestServer()
        server.route("/e", options: .answersEarly, .text("too much", status: 413))
        let client = try RawClient(port: server.port)
        try client.request("POST", "/e", headers: ["Content-Length: 50000000"])
        try client.send(PatternBytes.data(count: 1_000_000))
        let response = try client.response()
        #expect(response.status == 413 && response.text == "too much" && response["Connection"] == "close")
    }

    @Test func `a route that discards bodies records only their length and checksum`() throws {
        let server = try TestServer()
        server.route("/d", options: .discardsBody, .status(204))
        let part = PatternBytes.data(count: 1_000_003)
        var checksum = BodyChecksum()
        let client = try RawClient(port: server.port)
        let before = ProcessMeters.residentKilobytes
        try client.request("PUT", "/d", headers: ["Content-Length: \(part.count * 60)"])
        for _ in 0..<60 {
            try client.send(part)
            checksum.update(part)
        }
        #expect(try client.response().status == 204)
        let request = try #require(server.requests.first)
        #expect(request.body.isEmpty && request.bodyLength == part.count * 60 && request.bodyChecksum == checksum)
        #expect(ProcessMeters.residentKilobytes - before < 55_000)
    }

    @Test func `HTTP/1.0 connections stay open on request, and responses are not chunked`() throws {
        let server = try TestServer()
        server.route("/t", .text("t"))
        server.route("/c", .chunked(["a", "b"]))
        let client = try RawClient(port: server.port)
        try client.send("GET /t HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        #expect(try client.response().text == "t")
        try client.send("GET /c HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        let response = try client.response()
        #expect(response.text == "ab" && response["Transfer-Encoding"] == nil)
        #expect(server.totalConnectionCount == 1)
    }

    @Test func `the connection is closed if the client requests it`() throws {
        let server = try TestServer()
        server.route("/t", .text("t"))
        let client = try RawClient(port: server.port)
        #expect(try client.exchange("GET", "/t", headers: ["Connection: close"])["Connection"] == "close")
        #expect(try client.readToEnd().isEmpty)
        try server.wait { $0.openConnectionCount == 0 }
    }

    @Test func `a redirect contains the given location`() throws {
        let server = try TestServer()
        server.redirect("/a", to: "/b", status: 308)
        let response = try RawClient(port: server.port).exchange("GET", "/a")
        #expect(response.status == 308 && response["Location"] == "/b")
    }

    @Test func `the server provides URLs for its paths`() throws {
        let server = try TestServer()
        #expect(server.url.absoluteString == "http://127.0.0.1:\(server.port)")
        #expect(server.url("/a?b=c").absoluteString == "http://127.0.0.1:\(server.port)/a?b=c")
        #expect(server.url("/a b").path == "/a b")
    }

    @Test func `a port in use is reported as an error`() throws {
        let server = try TestServer()
        var configuration = TestServer.Configuration()
        configuration.port = server.port
        #expect(throws: TestServerError.system(call: "bind", code: EADDRINUSE)) { _ = try TestServer(configuration) }
    }
}
