import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCache

/// Origins that send arbitrary responses.
@Suite struct HostileTests {
    @Test("addresses that are only canonically equivalent are different, and bytes that are not ASCII are escaped")
    func combiningMarks() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=100")], "one")
        setting.reply(200, [("Cache-Control", "max-age=100")], "two")
        let (one, two) = ("http://a.test/\u{E9}", "http://a.test/e\u{301}")
        #expect(one == two)
        for _ in 0..<2 {
            #expect(try await setting.get(one).text == "one")
            #expect(try await setting.get(two).text == "two")
        }
        #expect(setting.requests.count == 2)
        #expect(CacheAddress.normalized("http://a.test/\u{E9}?\u{301}") == "http://a.test/%C3%A9?%CC%81")
        #expect(CacheAddress.normalized("a\u{301}") == "a%CC%81")
        #expect(CacheAddress.normalized("http://\u{301}a.test/") == "http://%CC%81a.test/")
    }

    static let addresses: [(text: String, normal: String)] = [
        ("http://a.test/", "http://a.test/"), ("HTTP://A.Test:80", "http://a.test/"),
        ("https://a.test:443/?q#f", "https://a.test/?q"), ("https://a.test:80/", "https://a.test:80/"),
        ("http://a.test:/x", "http://a.test/x"), ("http://u:p@A.test/X", "http://a.test/X"),
        ("http://a.test?x=/@y", "http://a.test/?x=/@y"), ("http://[::1]:80/", "http://[::1]/"),
        ("http://[FE80::1]", "http://[fe80::1]/"), ("http://a.test#f", "http://a.test/"),
        ("http://a.test/#", "http://a.test/"), ("http://a.test:443/", "http://a.test:443/"),
        ("http://a.test:8080/x?y#z", "http://a.test:8080/x?y"), ("http://a.test:080/", "http://a.test/"),
        ("http://0x7f.1:0081/", "http://127.0.0.1:81/"),
        ("https://a.test:99999999999999999999/", "https://a.test:99999999999999999999/"),
        ("http://a@b@c.test/", "http://c.test/"), ("", ""), (":", ":"), ("://", "://"), ("x", "x"), ("http:/", "http:/"),
        ("http://", "http://"), ("http://a.test/a%2fb/../c", "http://a.test/a%2fb/../c"),
    ]

    @Test("different spellings of one address are equal, and different addresses are not", arguments: 0..<addresses.count)
    func address(_ index: Int) {
        let (text, normal) = Self.addresses[index]
        let result = CacheAddress.normalized(text)
        #expect(result == normal)
        #expect(CacheAddress.normalized(result) == result, "It is not the same twice.")
    }

    @Test("an address of a megabyte works like any other")
    func longAddress() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=100")])
        let address = "HTTP://a.test/" + String(repeating: "x", count: 1 << 20)
        _ = try await setting.get(address)
        #expect(try await setting.source(address) == .cache(.fresh))
        #expect(try await setting.source(address + "y") == .network)
        #expect(setting.cache.currentMemoryUsage > 2 << 20)
    }

    static let long = String(repeating: "x, \"y=1\", ", count: 10_000)

    @Test(
        "a field of 100 KB works like any other",
        arguments: [
            "Cache-Control", "ETag", "Last-Modified", "Expires", "Date", "Age", "Vary", "Pragma", "Connection",
            "Content-Length",
            "X-Other", "Location",
        ])
    func longField(_ name: String) async throws {
        let setting = RuleSetting()
        setting.reply(200, [(name, Self.long), ("Cache-Control", "max-age=100")])
        setting.reply(304, [(name, Self.long)])
        for _ in 0..<3 { _ = try await setting.get() }
        setting.clock.advance(seconds: 1000)
        for method in ["GET", "HEAD", "POST"] { _ = try await setting.get(method: method) }
    }

    @Test(
        "a field of 100 KB in a request works like any other",
        arguments: ["Cache-Control", "If-None-Match", "If-Modified-Since", "Range", "If-Range", "Pragma", "Foo"])
    func longRequestField(_ name: String) async throws {
        let setting = RuleSetting()
        setting.reply(
            200,
            [("Cache-Control", "max-age=100"), ("ETag", "\"a\""), ("Vary", "Foo"), ("Last-Modified", setting.date(-10_000))])
        for _ in 0..<3 { _ = try await setting.get("http://a.test/", [(name, Self.long)]) }
    }

    @Test("thousands of fields that name thousands of others do not take quadratic time")
    func manyFields() async throws {
        let names = (0..<20_000).map { "x\($0)" }
        let fields: CacheClient.Fields =
            [("Cache-Control", "max-age=10"), ("ETag", "\"a\"")] + names.map { ($0, "") } + [
                ("Connection", names.suffix(10_000).joined(separator: ","))
            ]
        let listed = "max-age=10, no-cache=\"\(names.joined(separator: ","))\""
        let setting = RuleSetting(memoryCapacity: 64 << 20)
        setting.reply(200, fields)
        setting.reply(304, fields)
        setting.reply(304, fields + [("Cache-Control", listed)])
        let start = MonotonicClock.now
        for _ in 0..<4 {
            _ = try await setting.get()
            setting.clock.advance(seconds: 11)
        }
        // This takes 0.3 s in a debug build. Quadratic time would mean 200 million comparisons of names for each.
        #expect(MonotonicClock.now - start < 20_000_000_000)
        let seen = try await setting.get()
        #expect(seen.value("x1") == "")
        #expect(seen.value("x10001") == nil)
    }

    @Test("a Content-Length that is wrong or contradictory is not trusted")
    func lengths() async throws {
        for (lengths, isStored) in [
            (["4"], true), (["4", "4"], true), (["4, 4"], true), (["5"], false), (["3"], false), (["0"], false),
            (["18446744073709551620"], false), (["9223372036854775807"], false),
            // The cache ignores these lengths, because the message parser determines the end of the body.
            (["-4"], true), (["x"], true), (["4", "5"], true),
        ] {
            let setting = RuleSetting()
            setting.reply(200, [("Cache-Control", "max-age=100")] + lengths.map { ("Content-Length", $0) })
            _ = try await setting.get()
            #expect(try await setting.source() == (isStored ? .cache(.fresh) : .network), "\(lengths)")
        }
    }

    @Test("validators with any contents are sent unchanged")
    func validators() async throws {
        for etag in ["a", "\"a", "W/", "W/\"", "\"\u{E9}\"", "*", "\"a\", \"b\""] {
            let setting = RuleSetting()
            setting.reply(200, [("ETag", etag)])
            setting.reply(304, [("ETag", etag)])
            _ = try await setting.get()
            #expect(try await setting.source() == .cache(.validated), "\(etag)")
            #expect(setting.requests.last?.value("If-None-Match") == etag)
        }
    }

    @Test("any head leads to a decision, not a crash")
    func fuzz() async throws {
        var random = SplitMix64(seed: 20)
        let pieces = [
            "max-age", "=", "\"", "\\", ",", ";", " ", "\t", "no-cache", "no-store", "stale-if-error", "-1", "0", "10",
            "9223372036854775807", "18446744073709551615", "99999999999999999999", "W/", "*", "bytes", "-", "\u{301}",
            "\u{E9}",
            "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Foo", "1",
            "must-revalidate", "immutable", "http://a.test/", "/", "min-fresh", "max-stale", "only-if-cached", "\u{0}",
        ]
        let names = [
            "Cache-Control", "Expires", "Date", "Age", "ETag", "Last-Modified", "Vary", "Pragma", "Content-Length", "Range",
            "If-None-Match", "If-Modified-Since", "If-Range", "Connection", "Location", "Content-Location", "Content-Range",
            "Foo",
        ]
        func fields() -> CacheClient.Fields {
            (0..<Int.random(in: 0...6, using: &random)).map { _ in
                let value = (0..<Int.random(in: 0...6, using: &random)).map { _ in
                    pieces.randomElement(using: &random) ?? ""
                }
                return (names.randomElement(using: &random) ?? "", value.joined())
            }
        }
        let setting = RuleSetting()
        var kinds: Set<String> = []
        for _ in 0..<5000 {
            setting.reply([200, 200, 206, 304, 404, 500].randomElement(using: &random) ?? 0, fields())
            setting.clock.advance(seconds: Double.random(in: 0...20, using: &random))
            let method = ["GET", "GET", "GET", "HEAD", "POST"].randomElement(using: &random) ?? ""
            do throws(CacheClient.Failure) {
                let seen = try await setting.get(
                    "http://a.test/\(Int.random(in: 0..<3, using: &random))", fields(), method: method)
                kinds.insert("\(seen.source)")
                if case .cache = seen.source, seen.status == 206 || seen.status == 304 || method == "HEAD" { continue }
                #expect(seen.text == "body")
            } catch {
                kinds.insert("\(error)")
            }
        }
        // Fewer kinds would mean that the pieces are badly chosen.
        #expect(kinds.count >= 5, "\(kinds)")
    }
}
