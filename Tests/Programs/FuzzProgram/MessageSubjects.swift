#if DEBUG || FUZZ
import Foundation
import FoundationNetworking

@testable import ConvoyCache
@testable import ConvoyCookies
@testable import ConvoyDownloads
@testable import ConvoyOperations
@testable import ConvoyRealtime
@testable import ConvoySecurity
@testable import ConvoySerialization
@testable import ConvoySupport
@testable import ConvoyTransport

extension FuzzSubject {
    /// The parsers of the heads and bodies of messages.
    static let messages: [FuzzSubject] = [
        FuzzSubject(
            "head",
            seeds: [
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/plain\r\nSet-Cookie: a=b\r\n\r\nTrailer: x\r\n",
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/2 206\r\ntransfer-encoding: chunked\r\ncontent-encoding: gzip, br\r\n\r\n",
                "HTTP/1.0 101 Switching\r\nUpgrade: x\r\nX: a\r\n folded\r\n\r\n",
            ]
        ) { bytes in
            var parser = HeadParser()
            var rest = bytes[...]
            while !rest.isEmpty {
                let end = rest.firstIndex(of: 0x0A).map { $0 + 1 } ?? rest.endIndex
                let step = Array(rest[..<end]).withUnsafeBytes { parser.take($0) }
                if case .refused = step { return }
                rest = rest[end...]
            }
            try expect((parser.contentLength ?? 0) >= 0, "a negative length")
            try expect(parser.bytes.count <= HeadParser.sizeLimit, "a head beyond the limit")
            guard let url = URL(string: "https://example.com/a/b") else { return }
            let head = ResponseHead(url: url, statusCode: 200, headers: fields(bytes).map { ($0.name, $0.value) })
            _ = SuggestedName.name(for: head)
            _ = MirrorLinksReader.count(head)
            _ = ServerDigests.checksums(in: head)
        },
        FuzzSubject("content-range", seeds: ["bytes 0-499/1234", "bytes 42-1233/*", "bytes */1234"]) { bytes in
            if let range = ContentRange(text(bytes)) {
                try expect(range.first >= 0 && range.first <= range.last, "a range that runs backwards")
                try expect(range.total.map { $0 > range.last } ?? true, "a range beyond the total")
            }
            try expect((ContentRange.unsatisfied(text(bytes)) ?? 0) >= 0, "a negative length")
        },
        FuzzSubject(
            "content-disposition",
            seeds: [
                "attachment; filename=\"a b.txt\"", "attachment; filename*=UTF-8''na%C3%AFve.txt; filename=naive.txt",
                "inline; filename=../../etc/passwd", "attachment; filename*0=\"a\"; filename*1=\"b\"",
            ]
        ) { bytes in
            guard let url = URL(string: "https://example.com/a") else { return }
            let head = ResponseHead(url: url, statusCode: 200, headers: [("Content-Disposition", text(bytes))])
            let name = SuggestedName.name(for: head)
            try expect(!name.isEmpty && name != "." && name != "..", "an impossible name")
            try expect(!name.utf8.contains(UInt8(ascii: "/")) && !name.utf8.contains(0), "a name that is a path")
            try expect(name.utf8.count <= FileName.maximumLength, "a name that is too long")
        },
        FuzzSubject(
            "dates",
            seeds: ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "120"]
        ) { bytes in
            _ = HTTPDate.parse(text(bytes), now: 1_700_000_000)
            _ = StrictDate.parse(text(bytes), now: .max)
            try expect((RetryAfter.seconds(text(bytes)) ?? 0) >= 0, "a delay below zero")
        },
        FuzzSubject(
            "cache-control",
            seeds: [
                "Cache-Control: max-age=60, no-cache=\"Set-Cookie, X\"\nDate: Sun, 06 Nov 1994 08:49:37 GMT\nAge: 5\nETag: \"x\"",
                "Cache-Control: s-maxage=9223372036854775807, stale-while-revalidate=99\nExpires: 0\nVary: *\nPragma: no-cache",
                "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\nExpires: Sun, 06 Nov 1994 08:49:37 GMT",
            ]
        ) { bytes in
            for time in [CacheTime(wall: 0, up: 0), CacheTime(wall: .max / 2, up: .max / 2)] {
                let record = CacheRecord(
                    id: 1, address: CacheAddress.normalized(text(bytes.prefix(100))), partition: "",
                    vary: VaryKey(fields: []),
                    head: CachedHead(statusCode: 200, fields: fields(bytes)), requested: time, received: time, boot: 1,
                    length: 0)
                _ = record.freshness(at: CacheTime(wall: .max, up: .max), boot: 1)
                _ = record.freshness(at: CacheTime(wall: 0, up: 0), boot: 2)
            }
        },
        FuzzSubject(
            "link",
            seeds: [
                "<https://example.com/a>; rel=duplicate; pri=1; geo=de",
                "<b.meta4>; rel=describedby; type=\"application/metalink4+xml\"",
            ]
        ) { bytes in
            guard let url = URL(string: "https://example.com/a/b") else { return }
            let head = ResponseHead(
                url: url, statusCode: 200,
                headers: [
                    ("Link", text(bytes)), ("Repr-Digest", text(bytes)), ("Digest", text(bytes)),
                    ("Content-MD5", text(bytes)),
                ])
            try expect(MirrorLinksReader.count(head) <= 128, "more links than the limit")
            _ = ServerDigests.checksums(in: head)
        },
        FuzzSubject(
            "challenge",
            seeds: [
                "Digest realm=\"a\", nonce=\"b\", qop=\"auth, auth-int\", algorithm=SHA-256, userhash=true",
                "Basic realm=\"a\\\"b\", Bearer, Negotiate YII=, Digest realm=x",
                "nextnonce=\"a\", qop=auth, rspauth=\"00\", nc=1",
            ]
        ) { bytes in
            let challenges = HTTPChallenge.parse([text(bytes)])
            if let digest = DigestChallenge.strongest(of: challenges) {
                _ = DigestNonce(digest).nextCount()
            }
            _ = DigestAuthenticationInfo(text(bytes))
            guard let hsts = StrictTransportSecurity(text(bytes)) else { return }
            var records = HSTSRecords(limit: 4)
            _ = records.note(hsts, of: "example.com", at: .max)
            _ = records.requiresTLS("a.example.com", at: .max)
        },
        FuzzSubject(
            "hsts", seeds: ["max-age=31536000; includeSubDomains; preload", "max-age=\"0\"", "max-age=99999999999999999999"]
        ) { bytes in
            guard let policy = StrictTransportSecurity(text(bytes)) else { return }
            var records = HSTSRecords(limit: 4)
            for time in [Int64.min, 0, .max] {
                _ = records.note(policy, of: "example.com", at: time)
                _ = records.requiresTLS("a.example.com", at: time)
                _ = records.hosts(at: time)
            }
        },
        FuzzSubject(
            "set-cookie",
            seeds: [
                "a=b; Domain=.example.com; Path=/x; Secure; HttpOnly; SameSite=Lax; Max-Age=60",
                "__Host-a=b; Path=/; Secure; Expires=Wed, 09 Jun 2021 10:18:14 GMT", "=x; max-age=-99999999999999999999",
            ]
        ) { bytes in
            if let field = try? SetCookieField(bytes) { _ = field }
            _ = CookieDate.parse(bytes)
        },
        FuzzSubject(
            "event-stream",
            seeds: [
                "data: a\ndata: b\nid: 1\nevent: x\nretry: 10\n\n", "\u{FEFF}: comment\r\rdata\r\n\r\n",
                "retry: 99999999999999999999\nid: a\0b\n\n",
            ]
        ) { bytes in
            // The events are the same for any division of the bytes.
            func events(_ size: Int) -> [ServerSentEvent]? {
                var parser = EventStreamParser(maximumLineLength: 4096, maximumEventLength: 8192)
                var all: [ServerSentEvent] = []
                for start in stride(from: 0, to: bytes.count, by: size) {
                    guard let more = try? parser.parse(Array(bytes[start..<min(bytes.count, start + size)])) else {
                        return nil
                    }
                    all += more
                }
                return all
            }
            let whole = events(max(1, bytes.count))
            for size in [1, 3] where bytes.count < 4096 {
                let parts = events(size)
                try expect(
                    parts == whole,
                    "pieces of \(size) give \(String(describing: parts)), the whole \(String(describing: whole))")
            }
        },
        FuzzSubject(
            "content-coding",
            bytes: [
                [0, 1, 0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3, 0x4B, 4, 0, 0x43, 0xBE, 0xB7, 0xE8, 1, 0, 0, 0],
                [1, 2, 0x78, 0x9C, 0x4B, 4, 0, 0, 0x62, 0, 0x62], [2, 1, 0x0B, 0, 0x80, 0x61, 3],
                [3, 1, 0x28, 0xB5, 0x2F, 0xFD, 0x20, 1, 9, 0, 0, 0x61], [4, 7, 0x1F, 0x8B, 8],
            ]
        ) { bytes in
            guard bytes.count > 2 else { return }
            let codings: [ContentCoding] = [
                [.gzip], [.deflate], [.brotli], [.zstd], [.gzip, .brotli], [.zstd, .gzip],
            ][Int(bytes[0]) % 6]
            let body = Array(bytes[2...])
            func decoded(_ size: Int) throws -> (bytes: [UInt8], isWhole: Bool) {
                let decoder = try ContentDecoder(codings, maximumExpansion: 100)
                var output: [UInt8] = []
                do {
                    for start in stride(from: 0, to: body.count, by: size) {
                        try body[start..<min(body.count, start + size)].withUnsafeBytes { piece in
                            try decoder.decode(piece) { block in
                                output += block
                                return true
                            }
                        }
                    }
                    try decoder.finish()
                } catch {
                    return (output, false)
                }
                return (output, true)
            }
            let whole = try decoded(max(1, body.count)), parts = try decoded(Int(bytes[1]) % 16 + 1)
            try expect(whole.isWhole == parts.isWhole, "pieces and the whole differ in their end")
            if whole.isWhole { try expect(whole.bytes == parts.bytes, "pieces and the whole differ") }
        },
        FuzzSubject(
            "address",
            seeds: [
                "https://user:pa%20ss@example.com:8443/a/../b?x=1#f", "http://[fe80::1%25eth0]:80/",
                "HTTPS://EXAMPLE.com./%7Ea", "//h/p?q",
            ]
        ) { bytes in
            let string = text(bytes)
            if let address = try? HTTPAddress.reading(string) { _ = address }
            _ = IPAddress(string)
            _ = PercentEncoding.decoded(bytes[...])
            _ = HostName.normalized(string)
            let normalized = CacheAddress.normalized(string)
            try expect(CacheAddress.normalized(normalized) == normalized, "the key of a key is another one")
        },
        FuzzSubject(
            "reference",
            seeds: [
                "../a%2fb?c=d#e", "//other.example:80/x", "a b/ü%20%zz", "http:g", "?q", "https://example.com:8443/a/x?y=z",
                "/a/./b/..", "\\\\evil", "https://h", "x%2e%2E/y?",
            ]
        ) { bytes in
            guard let base = URL(string: "https://example.com:8443/a/"), let plainBase = SimpleURLBase(base) else { return }
            let url = URLReference.url(bytes, relativeTo: base)
            if let url {
                let again = URLReference.url(url.absoluteString)
                try expect(again == url, "\(url) is read as \(String(describing: again))")
                try expect(
                    url.absoluteString.utf8.allSatisfy { (0x21...0x7E).contains($0) }, "a byte that no URL has: \(url)")
            }
            // Parsing in one pass has the same result as applying all rules.
            guard let plain = SimpleURLReference(text(bytes), under: plainBase), let address = plain.address(appending: "")
            else { return }
            try expect(url?.absoluteString == address.text, "\(address.text) in one pass, \(url as Any) by the rules")
            try expect(Target(address.text) == plain.target, "another target than that of \(address.text)")
            if let host = url?.host, plain.target.zone == nil {
                try expect(host == plain.target.bareHost, "\(plain.target.bareHost) in one pass, \(host) by Foundation")
            }
        },
        FuzzSubject(
            "body-text",
            bytes: [
                Array("UTF-8\na\u{FEFF}é".utf8), Array("shift_jis\n".utf8) + [0x83, 0x41, 0x5C],
                Array("utf-16\n".utf8) + [0xFE, 0xFF, 0, 0x61],
                Array("ISO-2022-JP\n".utf8) + [0x1B, 0x24, 0x42, 0x30, 0x21],
                Array("euc-jp\n".utf8) + [0xAD, 0xA1, 0x8E, 0xB1, 0x8F, 0xB0, 0xA1], Array("big5\n".utf8) + [0x87, 0x40],
            ]
        ) { bytes in
            // The first line is the charset label sent by the server.
            let line = bytes.prefix { $0 != 0x0A }
            let body = Data(bytes.dropFirst(line.count + 1))
            let charset = Charset.ofText(body, label: text(line))
            _ = (charset.encoding, Charset.ofJSON(body, label: text(line)).text(of: body))
            guard let decoded = charset.text(of: body) else { return }
            try expect(!charset.isUTF8 || decoded.utf8.count <= body.count, "more text than there were bytes")
        },
        FuzzSubject(
            "no-proxy",
            seeds: ["10.0.0.0/8,.example.com *.org\n10.1.2.3", "[::1]/64\t2001:db8::/32\n[2001:db8::1%25eth0]", "*\nx"]
        ) { bytes in
            let line = bytes.prefix { $0 != 0x0A }
            let host = text(bytes.dropFirst(line.count + 1))
            let exceptions = ProxyExceptions(text(line))
            let isException = exceptions.contains(host)
            // Host names are case-insensitive.
            if host.utf8.allSatisfy({ $0 < 0x80 }) {
                try expect(exceptions.contains(host.uppercased()) == isException, "capitals make another host of \(host)")
            }
        },
        FuzzSubject(
            "subscription",
            seeds: [
                "event: put\nid: 1\ndata: {\"a\":[1]}\n\nevent: patch\nid: 2\ndata: [{\"op\":\"add\",\"path\":\"/a/-\",\"value\":2}]\n\n",
                "event: patch\ndata: x\n\n: o\n\nid: 999999999999999999\nevent: patch\ndata: []\n\n",
            ]
        ) { bytes in
            var state = SubscriptionState()
            state.maximumDepth = 50
            (state.fetchesValue, state.resumesByEventID) = (bytes.count % 2 == 0, bytes.count % 3 == 0)
            var parser = EventStreamParser(maximumLineLength: 4096, maximumEventLength: 8192)
            state.opened()
            var known: JSON?
            for event in try parser.parse(bytes) {
                state.received(event)
                // Simulate a server that responds to each fetch immediately, with the version of this event or without
                // one.
                for _ in 0..<8 {
                    let outcome = state.takeOutcome()
                    for change in outcome.changes {
                        switch change.change {
                        case .value(let value): known = value
                        case .patch(let patch):
                            var value = known ?? .null
                            try patch.apply(to: &value)
                            known = value
                        }
                    }
                    try expect(known == state.value, "\(known as Any) by the changes, and \(state.value as Any)")
                    guard case .fetch(let number, let delay)? = outcome.actions.last else { break }
                    try expect((0...30).contains(delay), "a delay of \(delay)")
                    guard state.willFetch(number) else { continue }
                    if event.data.utf8.count % 5 == 0 {
                        state.fetchFailed(number, URLError(.timedOut), isTemporary: true)
                    } else {
                        state.fetched(number, ["a": [0]], version: event.data.utf8.count % 2 == 0 ? event.lastEventID : "")
                    }
                }
            }
            _ = state.takeOutcome()
        },
    ]
}

/// Counts the links of a head.
enum MirrorLinksReader {
    static func count(_ head: ResponseHead) -> Int {
        let links = MirrorLinks(head)
        return links.mirrors.count + links.metalinks.count
    }
}
#endif
