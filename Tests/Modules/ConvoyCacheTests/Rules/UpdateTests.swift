import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCache

/// Changes of a stored response by later responses.
@Suite struct UpdateTests {
    private static let first: CacheClient.Fields = [
        ("Cache-Control", "max-age=10"), ("ETag", "\"a\""), ("Content-Type", "text/plain"), ("Content-Encoding", "gzip"),
        ("Content-Length", "4"), ("X-Kept", "1"), ("X-Changed", "1"), ("X-Changed", "2"), ("Age", "3"),
        ("Connection", "close, X-Hop"), ("X-Hop", "1"), ("Keep-Alive", "timeout=5"), ("Proxy-Authenticate", "Basic"),
        ("Set-Cookie", "a=1"),
    ]

    @Test("a 304 changes only the fields that it contains, except those that describe the stored bytes")
    func merge() async throws {
        let setting = RuleSetting()
        setting.reply(203, Self.first)
        setting.reply(
            304,
            [
                ("ETag", "\"a\""), ("x-changed", "3"), ("X-New", "1"), ("Content-Length", "99"), ("Content-Encoding", "br"),
                ("Content-Range", "bytes 0-1/2"), ("Connection", "X-Hop-2"), ("X-Hop-2", "1"),
                ("Cache-Control", "max-age=20"),
            ])
        _ = try await setting.get()
        setting.clock.advance(seconds: 11)
        let seen = try await setting.get()
        #expect(seen.source == .cache(.validated))
        #expect(setting.requests.last?.value("If-None-Match") == "\"a\"")
        for (source, seconds) in [(CacheClient.Seen.Source.cache(.fresh), 19.0), (.cache(.validated), 2)] {
            setting.clock.advance(seconds: seconds)
            let seen = try await setting.get()
            #expect(seen.source == source)
            #expect(seen.status == 203)
            #expect(seen.text == "body")
            for (name, value) in [
                ("X-Changed", "3"), ("X-Kept", "1"), ("X-New", "1"), ("Content-Length", "4"), ("Content-Encoding", "gzip"),
                ("Content-Type", "text/plain"), ("Set-Cookie", "a=1"),
            ] {
                #expect(seen.fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value) == [value], "\(name)")
            }
            for name in ["X-Hop", "X-Hop-2", "Connection", "Keep-Alive", "Proxy-Authenticate", "Content-Range"] {
                #expect(seen.value(name) == nil, "\(name)")
            }
        }
    }

    @Test("a 304 with another strong validator confirms the response, but changes nothing")
    func otherValidator() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=10"), ("ETag", "\"a\""), ("X", "1")])
        setting.reply(304, [("ETag", "\"b\""), ("X", "2"), ("Cache-Control", "max-age=1000")])
        _ = try await setting.get()
        setting.clock.advance(seconds: 11)
        for _ in 0..<2 {
            let seen = try await setting.get()
            #expect(seen.source == .cache(.validated))
            #expect(seen.value("X") == "1")
        }
    }

    @Test("a 304 with no-store removes the stored response after it has been served once more")
    func forbidden() async throws {
        for fields in [[("Cache-Control", "no-store")], [("Vary", "*")]] {
            let setting = RuleSetting()
            setting.reply(200, [("Cache-Control", "max-age=10"), ("ETag", "\"a\"")])
            setting.reply(304, fields)
            setting.reply(200, [], "new")
            _ = try await setting.get()
            setting.clock.advance(seconds: 11)
            #expect(try await setting.source() == .cache(.validated))
            #expect(try await setting.get().text == "new")
            // No stored response is left to validate.
            #expect(setting.requests.last?.value("If-None-Match") == nil)
        }
    }

    @Test("a response stored because of must-understand stays stored after a 304 with the same directives")
    func understood() async throws {
        let setting = RuleSetting()
        let fields = [("Cache-Control", "max-age=10, no-store, must-understand"), ("ETag", "\"a\"")]
        setting.reply(200, fields)
        setting.reply(304, fields)
        _ = try await setting.get()
        #expect(try await setting.source() == .cache(.fresh))
        setting.clock.advance(seconds: 11)
        #expect(try await setting.source() == .cache(.validated))
        #expect(try await setting.source() == .cache(.fresh))
    }

    @Test("a new response replaces the stored one, and one that must not be stored removes it")
    func replaced() async throws {
        for (status, fields, source) in [
            (200, [("Cache-Control", "max-age=10")], .cache(.fresh)), (200, [("Cache-Control", "no-store")], .network),
            (404, [("Cache-Control", "no-store")], .network), (403, [("Cache-Control", "no-store")], .cache(.validated)),
        ] as [(Int, CacheClient.Fields, CacheClient.Seen.Source)] {
            let setting = RuleSetting()
            setting.reply(200, [("Cache-Control", "max-age=10"), ("ETag", "\"a\"")], "old")
            setting.reply(status, fields, "new")
            setting.reply(304)
            _ = try await setting.get()
            setting.clock.advance(seconds: 11)
            #expect(try await setting.get().text == "new")
            #expect(try await setting.source() == source, "\(status) \(fields)")
        }
    }

    @Test("of two concurrent responses, the newer one is kept in any order of arrival")
    func race() async throws {
        for isInOrder in [true, false] {
            let setting = RuleSetting()
            let (one, other) = (Self.exchange(setting), Self.exchange(setting))
            for exchange in [one, other] { exchange.lookup { _ in } }
            setting.clock.advance(seconds: 1)
            let answers = [(one, "old", setting.date(-5)), (other, "new", setting.date())]
            for (exchange, text, date) in isInOrder ? answers : answers.reversed() {
                let head = CachedHead(statusCode: 200, fields: [("Cache-Control", "max-age=100"), ("Date", date)])
                guard case .store(let writer) = exchange.receive(head) else {
                    Issue.record("It is not stored.")
                    continue
                }
                Array(text.utf8).withUnsafeBytes { writer.write($0) }
                writer.finish {}
                setting.clock.advance(seconds: 1)
            }
            #expect(try await setting.get().text == "new")
        }
    }

    private static func exchange(_ setting: RuleSetting) -> CacheExchange {
        setting.cache.exchange(
            for: CacheRequest(
                method: "GET", address: "http://a.test/", fields: [], policy: .protocolPolicy, partition: "",
                hasBody: false))
    }

    // MARK: HEAD

    @Test("a stored response answers HEAD without its body, and a response to HEAD updates it")
    func head() async throws {
        let setting = RuleSetting()
        let validators: CacheClient.Fields = [("ETag", "\"a\""), ("Content-Length", "4")]
        setting.reply(200, [("Cache-Control", "max-age=10")] + validators)
        setting.reply(200, [("Cache-Control", "max-age=100"), ("X", "1")] + validators, "")
        _ = try await setting.get()
        let seen = try await setting.get(method: "HEAD")
        #expect(seen.source == .cache(.fresh))
        #expect(seen.body.isEmpty)
        #expect(seen.value("Content-Length") == "4")
        setting.clock.advance(seconds: 11)
        #expect(try await setting.source(method: "HEAD") == .network)
        let after = try await setting.get()
        #expect(after.source == .cache(.fresh))
        #expect(after.value("X") == "1")
        #expect(after.text == "body")
    }

    @Test(
        "a response to HEAD that describes another response removes the stored one",
        arguments: [("\"b\"", "4"), ("\"a\"", "5")])
    func headChanged(_ etag: String, _ length: String) async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=10"), ("ETag", "\"a\""), ("Content-Length", "4")])
        setting.reply(200, [("ETag", etag), ("Content-Length", length)], "")
        setting.reply(200, [], "new")
        _ = try await setting.get()
        setting.clock.advance(seconds: 11)
        _ = try await setting.get(method: "HEAD")
        _ = try await setting.get()
        #expect(setting.requests.last?.value("If-None-Match") == nil)
    }

    @Test(
        "a HEAD that ignores the stored response can still show that it is obsolete",
        arguments: [("\"b\"", "4"), ("\"a\"", "5")])
    func headReloaded(_ etag: String, _ length: String) async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=10"), ("ETag", "\"a\""), ("Content-Length", "4")])
        setting.reply(200, [("ETag", etag), ("Content-Length", length)], "")
        setting.reply(200, [], "new")
        _ = try await setting.get()
        #expect(try await setting.get(method: "HEAD", policy: .reload).source == .network)
        #expect(try await setting.get().text == "new")
        #expect(setting.requests.last?.value("If-None-Match") == nil)
    }

    @Test("a HEAD that ignores the stored response can still confirm it")
    func headReloadedTheSame() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=10"), ("ETag", "\"a\""), ("Content-Length", "4")])
        setting.reply(200, [("Cache-Control", "max-age=100"), ("ETag", "\"a\""), ("Content-Length", "4"), ("X", "1")], "")
        _ = try await setting.get()
        setting.clock.advance(seconds: 9)
        _ = try await setting.get(method: "HEAD", policy: .reload)
        setting.clock.advance(seconds: 9)
        let seen = try await setting.get()
        #expect(seen.source == .cache(.fresh) && seen.value("X") == "1" && seen.text == "body")
    }

    @Test(
        "a GET that ignores the stored response removes it, even if the new response is not stored, and never gets a stale one"
    )
    func getReloaded() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=10, stale-if-error=600"), ("ETag", "\"a\"")])
        setting.reply(503, [], "down")
        setting.reply(200, [("Cache-Control", "no-store")], "once")
        setting.reply(200, [], "new")
        _ = try await setting.get()
        #expect(try await setting.get(policy: .reload).text == "down")
        #expect(try await setting.get(policy: .reload).text == "once")
        #expect(try await setting.get().text == "new")
    }

    @Test("the response to HEAD is not stored")
    func headIsNotStored() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=10"), ("Content-Length", "4")], "")
        for method in ["HEAD", "HEAD", "GET"] { #expect(try await setting.source(method: method) == .network) }
    }

    // MARK: Fields

    @Test("fields listed in no-cache are served only after the origin has confirmed them")
    func unconfirmed() async throws {
        let setting = RuleSetting()
        setting.reply(
            200,
            [
                ("Cache-Control", "max-age=10, no-cache=\"X-Secret, x-other\""), ("X-Secret", "1"), ("X-Other", "1"),
                ("ETag", "\"a\""),
            ])
        setting.reply(304)
        _ = try await setting.get()
        let seen = try await setting.get()
        #expect(seen.source == .cache(.fresh))
        #expect(seen.value("X-Secret") == nil)
        #expect(seen.value("X-Other") == nil)
        setting.clock.advance(seconds: 11)
        #expect(try await setting.get().value("X-Secret") == "1")
    }

    @Test("a served response has a Date and its age")
    func dateAndAge() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=100"), ("Age", "7")])
        let date = setting.date()
        _ = try await setting.get()
        setting.clock.advance(seconds: 5)
        let seen = try await setting.get()
        #expect(seen.value("Date") == date)
        #expect(seen.fields.filter { $0.name == "Age" }.map(\.value) == ["12"])
    }

    @Test("a head does not grow without limit if each 304 of a server adds fields")
    func growth() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=0"), ("ETag", "\"a\"")])
        let value = String(repeating: "v", count: 1000)
        for round in 0..<40 {
            setting.reply(304, (0..<20).map { ("X-\(round)-\($0)", value) } + [("ETag", "\"a\"")])
        }
        var largest = 0
        for _ in 0..<41 {
            let seen = try await setting.get()
            largest = max(largest, seen.fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count })
        }
        #expect(largest < 320 << 10)
    }

    @Test("fields added by a 304 count towards the disk usage")
    func usage() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        let answers = Locked(0)
        let client = CacheClient(cache) { _, _, _ in
            let isFirst = answers.withLock { count in
                count += 1
                return count == 1
            }
            let long = String(repeating: "v", count: 50_000)
            return CacheClient.Reply(
                status: isFirst ? 200 : 304,
                fields: [("Cache-Control", "max-age=0"), ("ETag", "\"a\"")] + (isFirst ? [] : [("X", long)]), body: [1])
        }
        _ = try await client.get("http://a.test/")
        let before = cache.currentDiskUsage
        _ = try await client.get("http://a.test/")
        let after = cache.currentDiskUsage
        #expect(before > 0 && after > before + 50_000)
        cache.removeAll()
        #expect(cache.currentDiskUsage == 0)
    }

    @Test("a response that arrives while the last hour is cleared is not stored, and clearing the future has no effect")
    func removedMeanwhile() async throws {
        for (offset, isStored) in [(-3600.0, false), (3600, true)] {
            let cache = HTTPCache()
            let client = CacheClient(cache) { _, _, _ in
                cache.removeStored(since: Date(timeIntervalSinceNow: offset))
                return CacheClient.Reply(fields: [("Cache-Control", "max-age=600")], body: [1])
            }
            _ = try await client.get("http://a.test/")
            let again = try await client.get("http://a.test/")
            #expect((again.source != .network) == isStored)
        }
    }
}
