import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The meaning of the response to a range request for the received bytes.
@Suite struct ResumptionTests {
    static let place = "http://127.0.0.1/file"

    private func head(
        _ status: Int, _ headers: [(String, String)], at place: String = Self.place
    ) throws -> ResponseHead {
        ResponseHead(url: try #require(URL(string: place)), statusCode: status, headers: headers)
    }

    private static let date = ("Date", "Sat, 21 Nov 2026 19:00:00 GMT")
    private static let old = "Wed, 21 Oct 2015 07:28:00 GMT"

    /// Returns a resumption after 500 bytes of a response with the given fields.
    private func resumption(_ headers: [(String, String)], total: Int64? = nil) throws -> Resumption? {
        let request = URLRequest(url: try #require(URL(string: Self.place)))
        return Resumption(after: try head(200, headers), of: request, offset: 500, total: total)
    }

    private func tagged(length: Int? = 1000) throws -> Resumption {
        let length = length.map { [("Content-Length", "\($0)")] } ?? []
        return try #require(try resumption([("ETag", "\"a\""), ("Last-Modified", Self.old)] + length))
    }

    private func part(
        _ range: String = "bytes 500-999/1000", _ more: [(String, String)] = [("ETag", "\"a\"")],
        at place: String = Self.place
    ) throws -> ResponseHead {
        try head(206, [("Content-Range", range)] + more, at: place)
    }

    @Test func `the rest of the same representation is appended`() throws {
        #expect(try tagged().evaluate(try part()) == .append(total: 1000))
        let withDate = try part("bytes 500-999/1000", [("ETag", "\"a\""), ("Last-Modified", Self.old)])
        #expect(try tagged().evaluate(withDate) == .append(total: 1000))
    }

    @Test func `a response with a missing or different validator restarts the body`() throws {
        let other = "Wed, 21 Oct 2015 07:29:00 GMT"
        for fields in [
            [("ETag", "\"b\"")], [("ETag", "W/\"a\"")], [], [("Last-Modified", Self.old)],
            [("ETag", "\"a\""), ("Last-Modified", other)], [("ETag", "\"a\", \"a\"")],
        ] {
            #expect(try tagged().evaluate(try part("bytes 500-999/1000", fields)) == .askForWhole, "\(fields)")
        }
    }

    @Test func `validators are compared byte for byte`() throws {
        let composed = try #require(try resumption([("ETag", "\"\u{E9}\""), ("Content-Length", "1000")]))
        #expect(try composed.evaluate(part("bytes 500-999/1000", [("ETag", "\"e\u{301}\"")])) == .askForWhole)
    }

    @Test func `a partial response must repeat a date that is the only validator`() throws {
        let dated = try #require(try resumption([("Last-Modified", Self.old), Self.date, ("Content-Length", "1000")]))
        #expect(try dated.evaluate(part("bytes 500-999/1000", [("Last-Modified", Self.old)])) == .append(total: 1000))
        #expect(try dated.evaluate(part("bytes 500-999/1000", [])) == .askForWhole)
        #expect(
            try dated.evaluate(part("bytes 500-999/1000", [("Last-Modified", "Wed, 21 Oct 2015 07:29:00 GMT")]))
                == .askForWhole)
    }

    @Test func `the response's range and total apply if the length was unknown`() throws {
        let unknown = try tagged(length: nil)
        #expect(try unknown.evaluate(part()) == .append(total: 1000))
        for range in [
            "bytes 500-899/1000", "bytes 500-999/*", "bytes 500-700/*", "bytes 501-999/1000", "bytes 0-999/1000",
            "bytes 500-999/999", "bytes 999-500/1000", "bytes */1000", "items 500-999/1000", "bytes 500-999",
            "bytes 500-9223372036854775807/9223372036854775807", "bytes 500-9223372036854775808/9223372036854775809",
            "bytes 500-999/1000, bytes 500-999/1000", "",
        ] {
            #expect(try unknown.evaluate(part(range)) == .askForWhole, "\(range)")
        }
    }

    @Test func `a length that does not fit the range is not trusted`() throws {
        for length in ["499", "501", "0"] {
            let answer = try part("bytes 500-999/1000", [("ETag", "\"a\""), ("Content-Length", length)])
            #expect(try tagged(length: nil).evaluate(answer) == .askForWhole, "\(length)")
        }
        let right = try part("bytes 500-999/1000", [("ETag", "\"a\""), ("Content-Length", "500")])
        #expect(try tagged(length: nil).evaluate(right) == .append(total: 1000))
    }

    @Test func `a total stated by an earlier response remains valid`() throws {
        let later = try #require(try resumption([("ETag", "\"a\"")], total: 1000))
        #expect(try later.evaluate(part("bytes 500-1999/2000")) == .askForWhole)
        #expect(try later.evaluate(part()) == .append(total: 1000))
    }

    @Test func `validators apply only to the same URL`() throws {
        #expect(try tagged().evaluate(part(at: "http://127.0.0.1/other")) == .askForWhole)
        #expect(try tagged().evaluate(part(at: "http://localhost/file")) == .askForWhole)
        #expect(try tagged().evaluate(part(at: Self.place + "#fragment")) == .append(total: 1000))
    }

    @Test func `a 416 at the end means a complete body only if the length is known`() throws {
        func unsatisfied(_ length: Int) throws -> ResponseHead { try head(416, [("Content-Range", "bytes */\(length)")]) }
        #expect(try tagged(length: 500).evaluate(unsatisfied(500)) == .alreadyComplete)
        #expect(try tagged(length: nil).evaluate(unsatisfied(500)) == .askForWhole)
        #expect(try tagged(length: 500).evaluate(unsatisfied(400)) == .askForWhole)
        #expect(try tagged(length: 1000).evaluate(unsatisfied(500)) == .askForWhole)
        #expect(try tagged(length: 500).evaluate(head(416, [])) == .askForWhole)
    }

    @Test func `a partial response marked as complete is rejected`() throws {
        let tag = [("ETag", "\"a\"")]
        for status in [200, 203, 226] {
            for range in ["bytes 500-999/1000", "bytes 0-499/1000", "bytes 500-999/*", "500-999/1000", ""] {
                for fields in [tag, []] {
                    let answer = try head(status, fields + [("Content-Range", range)])
                    #expect(try tagged().evaluate(answer) == .askForWhole, "\(status) \(range)")
                }
            }
            // The body is as long as the requested part.
            #expect(try tagged().evaluate(head(status, [("Content-Length", "500")])) == .askForWhole)
            let whole = [("Content-Range", "bytes 0-999/1000"), ("Content-Length", "1000")]
            #expect(try tagged().evaluate(head(status, tag + whole)) == .startOver)
            #expect(try tagged().evaluate(head(status, [("ETag", "\"b\""), ("Content-Length", "700")])) == .startOver)
            #expect(try tagged().evaluate(head(status, [])) == .startOver)
        }
    }

    @Test func `a strong tag with a changed length is rejected, and fails in a complete response`() throws {
        for length in ["0", "1", "999", "1001"] {
            let answer = try head(200, [("ETag", "\"a\""), ("Content-Length", length)])
            #expect(try tagged().evaluate(answer) == .askForWhole, "\(length)")
            #expect(try tagged().evaluateWhole(answer) == .contradiction, "\(length)")
            // At another URL, encoded, or with another tag, the length is irrelevant.
            let fields = [("ETag", "\"a\""), ("Content-Length", length)]
            #expect(try tagged().evaluateWhole(head(200, fields, at: "http://127.0.0.1/other")) == .startOver)
            #expect(try tagged().evaluateWhole(head(200, fields + [("Content-Encoding", "gzip")])) == .startOver)
            #expect(try tagged().evaluateWhole(head(200, [("ETag", "W/\"a\""), fields[1]])) == .startOver)
        }
        let same = try head(200, [("ETag", "\"a\""), ("Content-Length", "1000")])
        #expect(try tagged().evaluate(same) == .startOver && tagged().evaluateWhole(same) == .startOver)
        // A body of unknown length has at least the bytes received.
        let unknown = try tagged(length: nil)
        #expect(try unknown.evaluate(head(200, [("ETag", "\"a\""), ("Content-Length", "499")])) == .askForWhole)
        #expect(try unknown.evaluate(head(200, [("ETag", "\"a\""), ("Content-Length", "500")])) == .startOver)
        #expect(try tagged().evaluateWhole(head(200, [("Content-Range", "bytes 500-999/1000")])) == .contradiction)
        #expect(try tagged().evaluateWhole(head(404, [("Content-Length", "9")])) == .startOver)
    }

    @Test(arguments: [201, 202, 204, 205, 207, 208, 299])
    func `a success status other than 200 and 206 is rejected in response to a range request`(status: Int) throws {
        #expect(try tagged().evaluate(head(status, [("ETag", "\"a\"")])) == .askForWhole)
        #expect(try tagged().evaluateWhole(head(status, [])) == .startOver)
    }

    @Test(arguments: [(200, true), (299, true), (300, false)])
    func `the known length is kept until a successful response replaces it`(status: Int, endsIt: Bool) throws {
        let request = TransferRequest(URLRequest(url: try #require(URL(string: Self.place))))
        let first = try head(200, [("ETag", "\"a\""), ("Content-Length", "1000")])
        var body = ReceivedBody()
        _ = body.begin(sending: request)
        body.willStartOver(with: first)
        body.startOver(with: first)
        body.startOverInMemory()
        [UInt8](repeating: 1, count: 500).withUnsafeBytes { body.append($0) }
        _ = body.begin(sending: request)
        body.requestWhole()
        _ = body.begin(sending: request)
        body.willStartOver(with: try head(status, [("Content-Length", "1000")]))
        let verdict = body.evaluate(try head(200, [("ETag", "\"a\""), ("Content-Length", "999")]))
        #expect(verdict == (endsIt ? .startOver : .contradiction))
    }

    @Test func `a multipart/byteranges response is not appended`() throws {
        for type in ["multipart/byteranges; boundary=x", "Multipart/ByteRanges", "multipart/byteranges;x=y"] {
            let answer = try part("bytes 500-999/1000", [("ETag", "\"a\""), ("Content-Type", type)])
            #expect(try tagged().evaluate(answer) == .askForWhole, "\(type)")
        }
        let plain = try part("bytes 500-999/1000", [("ETag", "\"a\""), ("Content-Type", "multipart/mixed")])
        #expect(try tagged().evaluate(plain) == .append(total: 1000))
    }

    @Test func `nothing is resumed without a reliable validator`() throws {
        for fields in [
            [], [("ETag", "W/\"a\"")], [("ETag", "a")], [("ETag", "\"")],
            [("Last-Modified", Self.old)],  // and no Date to compare it with
            [("Last-Modified", "Sat, 21 Nov 2026 18:59:30 GMT"), Self.date],
            [("ETag", "\"a\""), ("Content-Encoding", "gzip")],
            [("Last-Modified", "Wed, 21 Oct -9223372036854775808 07:28:00 GMT"), Self.date],
        ] {
            #expect(try resumption(fields) == nil, "\(fields)")
        }
    }

    @Test(arguments: ["POST", "HEAD", "get"]) func `only a GET is resumed`(method: String) throws {
        var request = URLRequest(url: try #require(URL(string: Self.place)))
        request.httpMethod = method
        let head = try head(200, [("ETag", "\"a\""), ("Content-Length", "1000")])
        let isPlain = request.httpMethod == "GET"
        #expect((Resumption(after: head, of: request, offset: 500) != nil) == isPlain)
    }
}
