import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// The validation of responses. Only a complete final head with a complete body is a success.
@Suite struct WireTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("GET", "/fine", .text("fine"))
    }

    private func heard(
        _ response: TestServer.Response, timeout: TimeInterval = 15,
        configuration: ConnectionConfiguration = ConnectionConfiguration(), range: String? = nil
    ) throws -> Collector.Heard {
        server.route("GET", "/wire", response)
        var request = URLRequest(url: server.url("/wire"))
        request.timeoutInterval = timeout
        request.setValue(range, forHTTPHeaderField: "Range")
        return try #require(load(request, configuration: configuration))
    }

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nETag: \"a\"\r\n\r\nbody",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
        "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\nbody",
    ])
    func `a response truncated at any byte is an error`(text: String) throws {
        let whole = Array(text.utf8)
        for count in 0..<whole.count {
            let heard = try heard(.raw(Data(whole[..<count])))
            // If only the last line ending of the last chunk is missing, the content is complete.
            if count >= whole.count - 2, text.hasSuffix("0\r\n\r\n") { continue }
            #expect(heard.error?.code == .networkConnectionLost, "cut at \(count): \(heard)")
            #expect(heard.ends.count == 1)
        }
        let heard = try heard(.raw(text))
        #expect(heard.isFinished && heard.text == "body" && heard.heads.count == 1)
    }

    @Test func `an unrequested switch of protocols is an error`() throws {
        let heard = try heard(.raw("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbody"))
        #expect(heard.error?.code == .badServerResponse)
        #expect(heard.heads.isEmpty && heard.body.isEmpty)
    }

    @Test func `a 206 is an error unless a range was requested`() throws {
        let part = TestServer.Response.text("part", status: 206).header("Content-Range", "bytes 0-3/10")
        let unasked = try heard(part)
        #expect(unasked.error?.code == .badServerResponse)
        #expect(unasked.heads.isEmpty && unasked.body.isEmpty)
        let asked = try heard(part, range: "bytes=0-3")
        #expect(asked.isFinished && asked.text == "part")
    }

    @Test func `a trailer line that looks like a head is not parsed as one`() throws {
        let heard = try heard(
            .raw(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
                    + "HTTP/1.1 302 Found\r\nLocation: /fine\r\n\r\n"))
        #expect(heard.error?.code == .badServerResponse)
        #expect(heard.heads.map(\.statusCode) == [200])
        #expect(heard.text == "ok" && heard.redirects.isEmpty)
    }

    @Test func `a head that libcurl cannot read is a bad server response`() throws {
        let heard = try heard(.raw("HTTP/1.1 200 OK\r\n Content-Length: 5\r\nContent-Length: 2\r\n\r\nok"))
        #expect(heard.error?.code == .badServerResponse)
    }

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\n X: folded\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\n\tX: folded\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\n folded\n\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n X: folded\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 103 Early Hints\r\n X: folded\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ])
    func `a head that begins with a folded line fails without affecting other requests`(head: String) throws {
        server.route("GET", "/folded", .raw(head))
        server.route("GET", "/slowly", .raw(head).bandwidth(bytesPerSecond: 20_000))
        server.route("GET", "/bare", .raw("HTTP/1.1 200 OK\r\n\r\nbody"))
        for _ in 0..<20 {
            #expect(try #require(load(server.url("/fine"))).isFinished)
            #expect(try #require(load(server.url("/folded"))).error?.code == .badServerResponse)
            #expect(try #require(load(server.url("/slowly"))).error?.code == .badServerResponse)
            #expect(try #require(load(server.url("/bare"))).isFinished)
        }
    }

    @Test func `the size of trailers is limited`() throws {
        var trailers = TestServer.Headers()
        for number in 0..<200 { trailers.add("X-\(number)", String(repeating: "t", count: 1000)) }
        let heard = try heard(.chunked(["ok"]).trailers(trailers))
        #expect(heard.error?.code == .badServerResponse)
    }

    @Test func `the number of interim responses is limited`() throws {
        func interim(_ count: Int) -> TestServer.Response {
            (0..<count).reduce(.text("ok")) { response, _ in response.preceded(by: 103, headers: ["Link": "</a>"]) }
        }
        #expect(try heard(interim(5)).text == "ok")
        #expect(try heard(interim(40)).error?.code == .badServerResponse)
    }

    @Test func `a field that is too long for libcurl is reported as too long`() throws {
        let heard = try heard(
            .raw("HTTP/1.1 200 OK\r\nX: \(String(repeating: "x", count: 150_000))\r\nContent-Length: 2\r\n\r\nok"))
        let error = try #require(heard.error)
        #expect(error.code == .badServerResponse)
        #expect("\(error.userInfo[NSLocalizedDescriptionKey] ?? "")".contains("100 KB"))
    }

    @Test func `a head that arrives too slowly times out`() throws {
        let lines = (0..<400).map { "X-\($0): v\r\n" }.joined()
        let heard = try heard(
            .raw("HTTP/1.1 200 OK\r\n\(lines)Content-Length: 2\r\n\r\nok").bandwidth(bytesPerSecond: 400), timeout: 0.5)
        #expect(heard.error?.code == .timedOut)
        #expect(heard.heads.isEmpty)
    }

    @Test func `the head can have a separate timeout`() throws {
        var configuration = ConnectionConfiguration()
        configuration.timeoutIntervalForHead = 0.3
        let late = try heard(.text("late").failing(.stallBeforeHead), timeout: 60, configuration: configuration)
        #expect(late.error?.code == .timedOut)
        // The body may take longer than the head.
        let slow = try heard(
            .drip(Data("0123456789".utf8), chunk: 1, interval: 0.1), timeout: 60, configuration: configuration)
        #expect(slow.isFinished && slow.text == "0123456789")
    }

    @Test(arguments: ["gzip, chunked", "gzip", "xchunked", "chunked, identity", "chunked\r\nTransfer-Encoding: chunked"])
    func `an unrequested transfer coding is an error`(coding: String) throws {
        let heard = try heard(
            .raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: \(coding)\r\n\r\n2\r\nok\r\n0\r\n\r\n"))
        // The second code occurs if libcurl detects the error itself, like version 8.14.
        let codes: [URLError.Code?] = [.badServerResponse, .cannotDecodeContentData]
        #expect(codes.contains(heard.error?.code))
        #expect(heard.body.isEmpty)
    }

    @Test func `a Content-Length is ignored for a chunked response`() throws {
        let heard = try heard(
            .raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"))
        #expect(heard.isFinished && heard.text == "ok")
        #expect(heard.heads.first?.contentLength == nil)
    }

    @Test func `an unsolicited response is not used for the next request`() throws {
        let first = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"
        for answer in ["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", "H", "\r\n\r\n"] {
            let gate = TestServer.Gate()
            server.route("GET", "/spoken", .raw(first + answer).heldBody(by: gate, afterBytes: first.utf8.count))
            let heard = try #require(load(URLRequest(url: server.url("/spoken"))))
            #expect(heard.isFinished && heard.text == "first")
            gate.open()
            try eventually { server.openConnectionCount == 0 }
            let next = try #require(load(URLRequest(url: server.url("/fine"))))
            #expect(next.isFinished && next.text == "fine")
        }
    }

    @Test func `a chunked response with a Content-Length of zero is rejected once its head is complete`() throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"
        for delay in [0, 0.05] {
            for _ in 0..<5 {
                let gate = TestServer.Gate()
                DispatchQueue.global().asyncAfter(deadline: .now() + delay) { gate.open() }
                let body = try heard(
                    .raw(head + "1\r\nX\r\n0\r\n\r\n").heldBody(by: gate, afterBytes: head.utf8.count))
                #expect(body.error?.code == .badServerResponse && body.heads.isEmpty, "\(body)")
            }
        }
        let empty = try heard(.raw(head + "0\r\n\r\n"))
        #expect(empty.error?.code == .badServerResponse)
        // A response without a body cannot be split, and an interim response is not the response.
        for status in [204, 304] {
            let none = try heard(
                .raw("HTTP/1.1 \(status) None\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"))
            #expect(none.isFinished, "\(none)")
        }
        server.route("HEAD", "/wire", .raw(head))
        var request = URLRequest(url: server.url("/wire"))
        request.httpMethod = "HEAD"
        let headOnly = try #require(load(request))
        #expect(headOnly.isFinished, "\(headOnly)")
        let early = "HTTP/1.1 103 Early\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"
        let later = try heard(.raw(early + "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nX"))
        #expect(later.isFinished && later.text == "X", "\(later)")
    }
}
