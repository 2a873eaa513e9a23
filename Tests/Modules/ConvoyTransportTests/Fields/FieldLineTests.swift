import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests of the boundaries of fields (RFC 9112, section 5) in all parts of a response.
@Suite struct FieldLineTests {
    /// The fields that the library reads, with values whose parts are separated by a space.
    static let fields = [
        "Accept-Ranges: bytes", "Age: 5", "Authentication-Info: nextnonce=\"a b\", qop=auth",
        "Cache-Control: max-age=100, no-store", "Content-Digest: sha-256=:AAAA:, sha-512=:BBBB:",
        "Content-Disposition: attachment; filename=\"a b.txt\"; filename*=UTF-8''c.txt", "Content-Encoding: gzip, br",
        "Content-Location: /a", "Content-MD5: AAAA", "Content-Range: bytes 0-3/10", "Content-Type: text/html; charset=utf-8",
        "Date: Sun, 06 Nov 1994 08:49:37 GMT", "Digest: sha-256=A, md5=B", "ETag: W/\"a b\"", "Expires: 0",
        "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "Link: </a>; rel=duplicate, </b>; rel=describedby",
        "Location: /a b", "Pragma: no-cache, x", "Proxy-Authenticate: Digest realm=\"a b\", nonce=\"c\"",
        "Repr-Digest: sha-256=:AAAA:, sha-512=:BBBB:", "Retry-After: 120", "Set-Cookie: a=b; Path=/elsewhere; Secure",
        "Strict-Transport-Security: max-age=1; includeSubDomains", "Upload-Offset: 5", "Vary: Accept, Accept-Language",
        "WWW-Authenticate: Digest realm=\"a b\", nonce=\"c\", qop=\"auth\"", "X-Colon: a b: c", "X-Empty:",
    ]

    /// Returns a field folded at each of its spaces and at its end, in several forms.
    static func folded(_ field: String) -> [String] {
        let forms = ["\r\n ", "\n\t", " \t\r\n \t ", "\r\n \r\n\t\r\n "]
        let spaces = field.indices.filter { field[$0] == " " }
        var all = forms.map { field + $0 }
        for space in spaces {
            all += forms.map { field[..<space] + $0 + field[field.index(after: space)...] }
        }
        return all + [field.replacingOccurrences(of: " ", with: "\r\n ")]
    }

    @Test(arguments: FieldPlace.allCases)
    func `a folded field is read as if its folds were spaces`(place: FieldPlace) throws {
        for field in Self.fields {
            let plain = try place.read("X-A: 1\r\n\(field)\r\nX-B: 2\r\n")
            guard case .fields(let fields) = plain else { return #expect(Bool(false), "\(field): \(plain)") }
            switch place {
            case .final, .stored, .interim: #expect(fields.count == 3, "\(field)")
            case .tunnel: #expect(fields.count == (field.hasPrefix("Proxy-Authenticate") ? 1 : 0))
            case .trailers: break
            }
            for folded in Self.folded(field) {
                #expect(try place.read("X-A: 1\r\n\(folded)\r\nX-B: 2\r\n") == plain, "\(folded.debugDescription)")
            }
        }
    }

    @Test func `a folded Content-Encoding or Set-Cookie is recognized`() throws {
        for folded in Self.folded("Content-Encoding: gzip, br") {
            var parser = HeadParser()
            #expect(FieldPlace.feed(Array("HTTP/1.1 200 OK\r\n\(folded)\r\n\r\n".utf8), to: &parser) == .whole)
            #expect(parser.contentEncodings == ["gzip, br"])
        }
        var parser = HeadParser()
        #expect(FieldPlace.feed(Array("HTTP/1.1 200 OK\r\nSet-Cookie:\r\n a=b\r\n\r\n".utf8), to: &parser) == .whole)
        #expect(parser.setsCookies)
    }

    /// libcurl ignores the value of a continuation.
    @Test(arguments: [
        ("Content-Length:\r\n 7", false), ("Content-Length: 7\r\n 0", false), ("Content-Length: 7\r\n ,8", false),
        ("Content-Length: 7\r\n ", true), ("Content-Length: 7\r\n , 7", true), ("Content-Length: 7,\r\n 7", false),
        ("Transfer-Encoding:\r\n chunked", false), ("Transfer-Encoding: chunked\r\n ", true),
        ("Transfer-Encoding: chunked\r\n , gzip", false), ("Transfer-Encoding: chunked,\r\n chunked", false),
        ("Transfer-Encoding: identity\r\n , chunked", false), ("Transfer-Encoding: chunked\r\n\tx", false),
    ])
    func `a folded framing field is valid only if its first line has the same meaning`(field: String, isValid: Bool) {
        var parser = HeadParser()
        let step = FieldPlace.feed(Array("HTTP/1.1 200 OK\r\n\(field)\r\n\r\n".utf8), to: &parser)
        #expect((step == .whole) == isValid, "\(step)")
        if isValid { #expect(parser.contentLength == (field.hasPrefix("C") ? 7 : nil) && !parser.isEndedByConnection) }
    }

    @Test(arguments: [
        ("Connection:\r\n close", true), ("Connection: keep-alive,\r\n Close", true), ("connection: x\r\n , close", true),
        ("Proxy-Connection:\r\n close", true), ("Connection:\r\n closed", false), ("X-Connection:\r\n close", false),
    ])
    func `a folded Connection: close is recognized`(field: String, closes: Bool) {
        var parser = HeadParser()
        #expect(FieldPlace.feed(Array("HTTP/1.1 200 OK\r\n\(field)\r\n\r\n".utf8), to: &parser) == .whole)
        #expect(parser.foldsClose == closes)
    }

    @Test(arguments: FieldPlace.allCases)
    func `a line that is not a field is rejected`(place: FieldPlace) throws {
        let bad = [
            "X-A : 1", "X-A\t: 1", "X A: 1", "Transfer-Encoding : chunked", "Content-Length : 7", ": 1", ":status: 200",
            "X-A",
            "HTTP/1.1 200 OK", "HTTP/1.1 404: x", "X\u{1}: 1", "X\u{7F}: 1", "X\u{0}: 1", "X: a\u{0}b", "X\rY: 1", "\rX: 1",
            "X(a): 1", "\"X\": 1", "é: 1",
        ]
        for line in bad {
            for (before, after) in [("", ""), ("X-B: 1\r\n", ""), ("X-B: 1\r\n", "X-C: 2\r\n"), ("X-B: 1\r\n 2\r\n", "")] {
                let reading = try place.read(before + line + "\r\n" + after)
                guard case .refused(let reason) = reading else {
                    return #expect(Bool(false), "\(line.debugDescription): \(reading)")
                }
                #expect(reason.hasPrefix("The ") && reason.hasSuffix("."), "\(reason)")
                #expect(!reason.unicodeScalars.contains { $0.value < 0x20 }, "\(reason.debugDescription)")
            }
        }
        for line in [" X-A: 1", "\t", " "] {
            guard case .refused = try place.read(line + "\r\nX-B: 1\r\n") else {
                return #expect(Bool(false), "\(line.debugDescription) was taken at the beginning")
            }
        }
    }

    @Test func `any byte that a token may not contain makes a name invalid`() throws {
        for byte in UInt8.min...UInt8.max where byte != 0x0A && byte != UInt8(ascii: ":") {
            var parser = HeadParser()
            let line = [UInt8(ascii: "X"), byte] + Array("Y: 1\r\n".utf8)
            let step = FieldPlace.feed(Array("HTTP/1.1 200 OK\r\n".utf8) + line, to: &parser)
            #expect((step == .more) == HTTPSyntax.isTokenByte(byte), "\(byte): \(step)")
        }
    }

    @Test func `blank continuation lines count towards the limits`() {
        let fold = String(repeating: " ", count: 1000) + "\r\n"
        var parser = HeadParser()
        let text = "HTTP/1.1 200 OK\r\nX: 1\r\n" + String(repeating: fold, count: 262)
        #expect(
            FieldPlace.feed(Array(text.utf8), to: &parser)
                == .refused("The response's header is larger than 262144 bytes."))
        var other = HeadParser()
        let trailers = "HTTP/1.1 200 OK\r\n\r\nX: 1\r\n" + String(repeating: fold, count: 66)
        #expect(
            FieldPlace.feed(Array(trailers.utf8), to: &other)
                == .refused("The response's trailers are larger than 65536 bytes."))
    }

    @Test func `a status line inside an interim head does not begin another head`() {
        var parser = HeadParser()
        let text = "HTTP/1.1 103 Early\r\nHTTP/1.1 200: x\r\n"
        guard case .refused = FieldPlace.feed(Array(text.utf8), to: &parser) else {
            return #expect(Bool(false), "\(parser.statusCode)")
        }
    }

    @Test func `messages describe the framing error`() throws {
        for (fields, message) in [
            ("Transfer-Encoding:\r\n", "A Transfer-Encoding line has no value."),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                "The response has the transfer coding \"chunked\" twice."
            ),
            ("X A: 1\r\n", "The response's header contains an invalid field name: \"X A\"."),
            ("secret\r\n", "The response's header contains a line without a colon."),
        ] {
            #expect(try FieldPlace.final.read(fields) == .refused(message))
        }
    }
}
