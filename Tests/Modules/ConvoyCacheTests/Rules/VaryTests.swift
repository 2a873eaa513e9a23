import ConvoySupport
import Testing

@testable import ConvoyCache

/// Responses that depend on fields of their requests.
@Suite struct VaryTests {
    private func setting(_ vary: [String]) -> RuleSetting {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=1000")] + vary.map { ("Vary", $0) })
        return setting
    }

    /// Values of `Vary`, two requests, and whether the second one gets the response stored for the first.
    static let cases: [(vary: [String], first: [(String, String)], second: [(String, String)], isHit: Bool)] = [
        (["Foo"], [("Foo", "1")], [("foo", "1")], true),
        (["Foo"], [("Foo", "1")], [("Foo", "2")], false),
        (["Foo"], [("Foo", "1")], [], false),
        (["Foo"], [], [("Foo", "")], false),
        (["Foo"], [], [], true),
        (["Foo"], [("Foo", "1,2")], [("Foo", "1"), ("Foo", " 2 ")], true),
        (["Foo"], [("Foo", "1, 2")], [("Foo", "1 ,2")], true),
        (["Foo"], [("Foo", ",")], [("Foo", "")], true),
        (["Foo"], [("Foo", "1 2")], [("Foo", "12")], false),
        (["Foo"], [("Foo", "1, 2")], [("Foo", "2, 1")], false),
        (["Foo"], [("Foo", "A")], [("Foo", "a")], false),
        (["Accept-Encoding"], [("Accept-Encoding", "GZIP")], [("Accept-Encoding", "gzip")], true),
        (["Foo, Bar"], [("Foo", "1"), ("Bar", "2")], [("Bar", "2"), ("Foo", "1")], true),
        (["Foo", "Bar"], [("Foo", "1"), ("Bar", "2")], [("Foo", "1"), ("Bar", "3")], false),
        (["foo,Foo,FOO"], [("Foo", "1")], [("Foo", "1")], true),
        ([" , Foo,"], [("Foo", "1")], [("Foo", "1")], true),
        ([""], [("Foo", "1")], [("Foo", "2")], true),
        (["*"], [], [], false),
        (["Foo, *"], [("Foo", "1")], [("Foo", "1")], false),
        (["Foo Bar"], [], [], false),
        (["F\u{F6}\u{F6}"], [], [], false),
        // One value has an accented letter, and the other a combining mark.
        (["Foo"], [("Foo", "\u{E9}")], [("Foo", "e\u{301}")], false),
        // A comma followed by a combining mark is still a separator.
        (["Foo"], [("Foo", "1,\u{301}2")], [("Foo", "1, \u{301}2")], true),
    ]

    @Test(
        "a stored response is served to requests with the same values of its Vary fields",
        arguments: 0..<cases.count)
    func matching(_ index: Int) async throws {
        let (vary, first, second, isHit) = Self.cases[index]
        let setting = setting(vary)
        _ = try await setting.get("http://a.test/", first.map { ($0.0, $0.1) })
        let seen = try await setting.source("http://a.test/", second.map { ($0.0, $0.1) })
        #expect(seen == (isHit ? .cache(.fresh) : .network), "\(vary) \(first) \(second)")
    }

    @Test("an encoded response without Vary answers only requests that accept the same codings")
    func encodedWithoutVary() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=1000"), ("Content-Encoding", "gzip")])
        _ = try await setting.get("http://a.test/", [("Accept-Encoding", "gzip")])
        #expect(try await setting.source("http://a.test/", [("Accept-Encoding", "gzip")]) == .cache(.fresh))
        #expect(try await setting.source("http://a.test/", [("Accept-Encoding", "identity")]) == .network)
        let plain = RuleSetting()
        plain.reply(200, [("Cache-Control", "max-age=1000"), ("Content-Encoding", "identity")])
        _ = try await plain.get("http://a.test/", [("Accept-Encoding", "gzip")])
        #expect(try await plain.source("http://a.test/", [("Accept-Encoding", "identity")]) == .cache(.fresh))
    }

    @Test("variants are stored separately, and the latest of several matching ones is served")
    func variants() async throws {
        let setting = RuleSetting()
        for text in ["de", "en", "any"] {
            setting.reply(
                200,
                [("Cache-Control", "max-age=1000"), ("Date", setting.date())]
                    + (text == "any" ? [] : [("Vary", "Accept-Language")]), text)
        }
        for language in ["de", "en"] { _ = try await setting.get("http://a.test/", [("Accept-Language", language)]) }
        for language in ["de", "en"] {
            let seen = try await setting.get("http://a.test/", [("Accept-Language", language)])
            #expect(seen.text == language)
            #expect(seen.source == .cache(.fresh))
        }
        setting.clock.advance(seconds: 2)
        setting.reply()
        _ = try await setting.get("http://a.test/", [("Accept-Language", "fr")])
        #expect(try await setting.get("http://a.test/", [("Accept-Language", "fr")]).text == "any")
    }

    @Test("an origin with a variant for each request does not fill the cache, and the newest variants are kept")
    func manyVariants() async throws {
        let setting = setting(["Foo"])
        for number in 0..<3000 {
            _ = try await setting.get("http://a.test/", [("Foo", "\(number)")])
            setting.clock.advance(seconds: 0.001)
        }
        #expect(setting.cache.storage.memoryEntryCount == MemoryIndex.variantLimit)
        #expect(try await setting.source("http://a.test/", [("Foo", "2999")]) == .cache(.fresh))
        #expect(try await setting.source("http://a.test/", [("Foo", "0")]) == .network)
    }

    @Test("a response that varies by too many fields is not stored")
    func manyNames() async throws {
        for (count, isStored) in [(VaryKey.nameLimit, true), (VaryKey.nameLimit + 1, false), (10_000, false)] {
            let setting = setting([(0..<count).map { "Foo-\($0)" }.joined(separator: ",")])
            _ = try await setting.get()
            #expect(try await setting.source() == (isStored ? .cache(.fresh) : .network))
        }
    }
}
