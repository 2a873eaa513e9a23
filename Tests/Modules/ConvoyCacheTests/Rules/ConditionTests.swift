import ConvoySupport
import Testing

@testable import ConvoyCache

/// Requests with their own ranges and conditions.
@Suite struct ConditionTests {
    private func setting(_ fields: CacheClient.Fields = [], body: String = "0123456789") async throws -> RuleSetting {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=100"), ("Content-Length", "\(body.utf8.count)")] + fields, body)
        setting.reply(206, [("Content-Range", "bytes 0-0/10"), ("Cache-Control", "max-age=100")], "N")
        _ = try await setting.get()
        return setting
    }

    static let ranges: [(field: String, body: String?)] = [
        ("bytes=0-0", "0"), ("bytes=2-", "23456789"), ("bytes=-3", "789"), ("bytes=-100", "0123456789"),
        ("bytes=0-99", "0123456789"), ("Bytes= 3-4 ", "34"), ("bytes=9-9", "9"),
        ("bytes=0-18446744073709551616", "0123456789"), ("bytes=-9223372036854775808", "0123456789"),
        // Only the origin can answer these ranges.
        ("bytes=10-", nil), ("bytes=5-2", nil), ("bytes=-0", nil), ("bytes=0-1,3-4", nil), ("bytes=", nil),
        ("bytes=-", nil), ("items=0-1", nil), ("0-1", nil), ("bytes=9223372036854775807-", nil),
        ("bytes=18446744073709551616-18446744073709551617", nil), ("bytes=a-b", nil), ("bytes=1-2x", nil),
        ("bytes=+1-2", nil),
    ]

    @Test(
        "a single range of a stored response is served, and all other ranges are left to the origin",
        arguments: 0..<ranges.count)
    func range(_ index: Int) async throws {
        let (field, body) = Self.ranges[index]
        let setting = try await setting()
        let seen = try await setting.get("http://a.test/", [("Range", field)])
        #expect(seen.source == (body == nil ? .network : .cache(.fresh)), "\(field)")
        #expect(seen.status == 206)
        #expect(seen.text == body ?? "N")
        if let body { #expect(seen.value("Content-Length") == "\(body.utf8.count)") }
        #expect(try await setting.get().text == "0123456789", "A part took the place of the whole.")
    }

    @Test("a range of an empty body or of an error is not served")
    func noRange() async throws {
        for (status, body) in [(200, ""), (404, "error")] {
            let setting = RuleSetting()
            setting.reply(status, [("Cache-Control", "max-age=100")], body)
            _ = try await setting.get()
            let seen = try await setting.get("http://a.test/", [("Range", "bytes=0-1")])
            #expect(seen.source == (status == 200 ? .network : .cache(.fresh)))
            #expect(seen.status == status)
        }
    }

    @Test("If-Range determines whether a range or the complete response is served")
    func ifRange() async throws {
        let clock = RuleSetting()
        let (old, new) = (clock.date(-1000), clock.date(-10))
        for (fields, condition, status) in [
            ([("ETag", "\"a\"")], "\"a\"", 206), ([("ETag", "\"a\"")], "\"b\"", 200),
            ([("ETag", "W/\"a\"")], "W/\"a\"", 200),
            ([("ETag", "\"a\"")], "W/\"a\"", 200), ([], "\"a\"", 200), ([("Last-Modified", old)], old, 206),
            ([("Last-Modified", new)], new, 200), ([("Last-Modified", old)], new, 200),
            // These tags are canonically equivalent.
            ([("ETag", "\"\u{E9}\"")], "\"e\u{301}\"", 200),
        ] as [(CacheClient.Fields, String, Int)] {
            let setting = try await setting(fields)
            let seen = try await setting.get("http://a.test/", [("Range", "bytes=1-2"), ("If-Range", condition)])
            #expect(seen.status == status, "\(fields) \(condition)")
            #expect(seen.source == .cache(.fresh))
            #expect(seen.text == (status == 206 ? "12" : "0123456789"))
        }
    }

    @Test("a 206 is never stored")
    func partIsNotStored() async throws {
        let setting = RuleSetting()
        setting.reply(206, [("Content-Range", "bytes 0-3/4"), ("Cache-Control", "max-age=100"), ("ETag", "\"a\"")])
        #expect(try await setting.source("http://a.test/", [("Range", "bytes=0-3")]) == .network)
        #expect(try await setting.source() == .network)
        #expect(try await setting.source() == .network)
    }

    static let conditions: [(stored: [(String, String)], request: [(String, String)], status: Int)] = [
        ([("ETag", "\"a\"")], [("If-None-Match", "\"a\"")], 304),
        ([("ETag", "\"a\"")], [("If-None-Match", "\"b\"")], 200),
        ([("ETag", "\"a\"")], [("If-None-Match", "\"b\", W/\"a\"")], 304),
        ([("ETag", "W/\"a\"")], [("If-None-Match", "\"a\"")], 304),
        ([("ETag", "\"a\"")], [("If-None-Match", "\"b\""), ("If-None-Match", "\"a\"")], 304),
        ([("ETag", "\"a\"")], [("If-None-Match", "*")], 304),
        ([("ETag", "\"a,b\"")], [("If-None-Match", "\"x\",\"a,b\"")], 304),
        ([("ETag", "\"a\"")], [("If-None-Match", "a")], 200),
        ([("ETag", "a")], [("If-None-Match", "a")], 304),
        ([("ETag", "\"a\"")], [("If-None-Match", "\"")], 200),
        ([("ETag", "\"\u{E9}\"")], [("If-None-Match", "\"e\u{301}\"")], 200),
        ([("ETag", "W/\"a\"")], [("If-None-Match", "W/\u{301}\"a\"")], 304),
        ([], [("If-None-Match", "\"a\"")], 200),
        (
            [("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")], [("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT")],
            304
        ),
        (
            [("Last-Modified", "Sun, 06 Nov 1994 08:49:38 GMT")], [("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT")],
            200
        ),
        ([], [("If-Modified-Since", "Fri, 31 Dec 2100 23:59:59 GMT")], 304),
        ([], [("If-Modified-Since", "x")], 200),
        (
            [("ETag", "\"a\""), ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")],
            [("If-None-Match", "\"b\""), ("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT")], 200
        ),
    ]

    @Test("a fresh response is evaluated against the client's own conditions", arguments: 0..<conditions.count)
    func condition(_ index: Int) async throws {
        let (stored, request, status) = Self.conditions[index]
        let setting = try await setting(stored.map { ($0.0, $0.1) })
        let seen = try await setting.get("http://a.test/", request.map { ($0.0, $0.1) })
        #expect(seen.source == .cache(.fresh))
        #expect(seen.status == status, "\(stored) \(request)")
        #expect(seen.text == (status == 304 ? "" : "0123456789"))
    }

    @Test("conditions that only the origin can evaluate are sent to it")
    func preconditions() async throws {
        for name in ["If-Match", "If-Unmodified-Since"] {
            let setting = try await setting([("ETag", "\"a\"")])
            #expect(try await setting.source("http://a.test/", [(name, "\"a\"")]) == .network)
        }
    }

    @Test(
        "if the stored response is stale, the client's condition is sent to the origin unchanged, and the response updates the cache"
    )
    func staleCondition() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=10"), ("ETag", "\"a\"")])
        setting.reply(304, [("Cache-Control", "max-age=100"), ("ETag", "\"a\"")])
        _ = try await setting.get()
        setting.clock.advance(seconds: 11)
        let seen = try await setting.get("http://a.test/", [("If-None-Match", "\"a\", \"z\"")])
        #expect(seen.status == 304)
        #expect(seen.source == .network)
        #expect(setting.requests.last?.fields.map(\.value) == ["\"a\", \"z\""])
        #expect(try await setting.source() == .cache(.fresh))
    }

    @Test("a 304 that confirms the client's version does not update a different stored version")
    func staleOtherCondition() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=10"), ("ETag", "\"a\"")])
        for fields in [[("ETag", "\"b\"")], []] { setting.reply(304, [("Cache-Control", "max-age=100")] + fields) }
        setting.reply(200, [], "new")
        _ = try await setting.get()
        setting.clock.advance(seconds: 11)
        for _ in 0..<2 { #expect(try await setting.get("http://a.test/", [("If-None-Match", "\"b\"")]).status == 304) }
        #expect(try await setting.source() == .network)
        #expect(setting.requests.last?.value("If-None-Match") == "\"a\"")
    }
}
