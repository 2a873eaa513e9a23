import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTestServer

/// A request and the status with which it must be rejected.
struct Malformed: Sendable, CustomTestStringConvertible {
    let text: String
    let status: Int
    // The text is escaped so that it takes one line in the log.
    var testDescription: String { text.debugDescription }

    init(_ text: String, _ status: Int) {
        self.text = text
        self.status = status
    }
}

struct RequestParserTests {
    /// Returns all events for these bytes, passed in pieces of a given size, as text.
    private func parse(_ text: String, step: Int = .max, limit: Int = 1000) -> [String] {
        parse(Array(text.utf8), step: step, limit: limit)
    }

    private func parse(_ bytes: [UInt8], step: Int, limit: Int = 1000) -> [String] {
        var parser = RequestParser(limit: limit)
        var pending: [UInt8] = []
        var words: [String] = []
        var body: [UInt8] = []
        var start = 0
        while start < bytes.count {
            let end = step > bytes.count - start ? bytes.count : start + step
            pending += bytes[start..<end]
            start = end
            reading: while true {
                let (consumed, event) = pending.withUnsafeBytes { parser.next($0) }
                switch event {
                case .needsMore: break reading
                case .head(let head): words.append("\(head.method) \(head.target)")
                case .body(let range): body += pending[range]
                case .end(let trailers):
                    words.append("end \(String(decoding: body, as: UTF8.self)) \(trailers.fields.count)")
                    body = []
                case .failed(let failure): return words + ["\(failure.status)"]
                }
                pending.removeFirst(consumed)
            }
        }
        return words
    }

    @Test(arguments: [1, 2, 3, 7, Int.max])
    func `the parser produces the same events for any division of the bytes`(step: Int) {
        let text =
            "GET /a HTTP/1.1\r\nHost: x\r\n\r\n" + "\r\n"
            + "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
            + "PUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n"
            + "GET /d HTTP/1.0\r\n\r\n"
        #expect(
            parse(text, step: step) == [
                "GET /a", "end  0", "POST /b", "end hello 0", "PUT /c", "end abcde 1", "GET /d", "end  0",
            ])
    }

    @Test(arguments: [
        Malformed("GET / HTTP/1.1\r\n\r\n", 400), Malformed("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        Malformed("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400), Malformed("GET /\r\n\r\n", 400),
        Malformed("GET / HTTP/2.0\r\n\r\n", 505),
        Malformed("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505), Malformed("GET / HTTP/1.1\nHost: a\n\n", 400),
        Malformed("\u{16}\u{3}\u{1}", 400),
        Malformed("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400), Malformed("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        Malformed("GET / HTTP/1.1\r\nHost: a\r\nX: \u{0}\r\n\r\n", 400), Malformed("GET / FTP/1.1\r\nHost: a\r\n\r\n", 400),
        Malformed("P / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        Malformed("P / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        Malformed("P / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
        Malformed("P / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        Malformed("P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
    ])
    func `the parser rejects malformed and ambiguous requests`(example: Malformed) {
        #expect(parse(example.text).last == "\(example.status)")
        #expect(parse(example.text, step: 1).last == "\(example.status)")
    }

    @Test func `the parser rejects bad chunks`() {
        for text in ["x\r\n", "\r\n", "-1\r\n", "3\r\nabcd\r\n", "FFFFFFFFFFFFFFFFF\r\n", "1\nab"] {
            #expect(parse("P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + text).last == "400")
        }
    }

    @Test func `the parser accepts a repeated Content-Length with the same value`() {
        #expect(parse("P / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx").last == "end x 0")
    }

    @Test func `long request lines are rejected with 414 and long headers with 431`() {
        #expect(parse("GET /" + String(repeating: "a", count: 2000)) == ["414"])
        #expect(parse("GET / HTTP/1.1\r\nHost: " + String(repeating: "a", count: 2000)) == ["431"])
        #expect(parse("GET / HTTP/1.1\r\nHost: " + String(repeating: "a", count: 2000), step: 1) == ["431"])
    }

    @Test(arguments: 0..<8)
    func `the parser survives garbage and damaged requests at any division`(seed: Int) {
        var random = SplitMix64(seed: UInt64(seed))
        let valid = Array(
            "PUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: 1\r\n\r\n".utf8)
        for _ in 0..<200 {
            var bytes = valid
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            let step = Int.random(in: 1...20, using: &random)
            #expect(parse(bytes, step: step) == parse(bytes, step: .max))
            let noise = Array(random.data(count: Int.random(in: 1...200, using: &random)))
            #expect(parse(noise, step: step, limit: 100) == parse(noise, step: step, limit: 100))
        }
    }

    @Test func `the path and query are found in every form of target`() throws {
        func split(_ target: String) throws -> String {
            let line = Array("GET \(target) HTTP/1.0".utf8)
            let head = try line.withUnsafeBytes { try RequestHead(lines: [$0]) }
            return head.pathAndQuery.path + " " + (head.pathAndQuery.query ?? "nil")
        }
        #expect(try split("/a/b?c=d?e") == "/a/b c=d?e")
        #expect(try split("http://host:80/a?b") == "/a b")
        #expect(try split("http://host") == "/ nil")
        #expect(try split("http://host?b") == "/ b")
        #expect(try split("*") == "* nil")
        #expect(try split("host:443") == "host:443 nil")
        #expect(try split("/redirect?to=http://other/x") == "/redirect to=http://other/x")
    }
}
