import ConvoySupport
import Testing

@testable import ConvoyCache

/// The freshness lifetime of responses.
@Suite struct FreshnessTests {
    typealias Fields = CacheClient.Fields

    /// The fields of a reply, and its freshness lifetime in seconds.
    static let lifetimes: [(fields: [(String, String)], seconds: Double)] = [
        ([("Cache-Control", "max-age=10")], 10),
        ([("Cache-Control", "MAX-AGE=10")], 10),
        ([("Cache-Control", "max-age=\"10\"")], 10),
        ([("Cache-Control", "max-age=10, max-age=20")], 10),
        ([("Cache-Control", "max-age=20"), ("Cache-Control", "max-age=10")], 10),
        ([("Cache-Control", "s-maxage=100, max-age=10")], 10),
        ([("Cache-Control", "extension=\"max-age=100, no-store\", max-age=10")], 10),
        ([("Cache-Control", "max-age=9223372036854775807")], .infinity),
        ([("Cache-Control", "max-age=18446744073709551616")], .infinity),
        ([("Cache-Control", "max-age=99999999999999999999999999999999999999")], .infinity),
        ([("Cache-Control", "max-age=-1")], 0),
        ([("Cache-Control", "max-age=1 0")], 0),
        ([("Cache-Control", "max-age=1.5")], 0),
        ([("Cache-Control", "max-age=10;foo")], 0),
        ([("Cache-Control", "max-age=")], 0),
        ([("Cache-Control", "max-age")], 0),
        ([("Cache-Control", "max-age=0x10")], 0),
        ([("Cache-Control", "max-age=\u{661}\u{660}")], 0),
        ([("Cache-Control", "max-age=+10")], 0),
        ([("Cache-Control", "max-age=10"), ("Age", "4")], 6),
        ([("Cache-Control", "max-age=10"), ("Age", "4, 9")], 6),
        ([("Cache-Control", "max-age=10"), ("Age", "9223372036854775807")], 0),
        ([("Cache-Control", "max-age=10"), ("Age", "99999999999999999999999")], 0),
        ([("Cache-Control", "max-age=10"), ("Age", "-5")], 10),
        ([("Cache-Control", "max-age=10"), ("Age", "x")], 10),
        ([("Cache-Control", "no-cache, max-age=10")], 0),
        ([("Cache-Control", "public")], 0),
        ([("Expires", "0")], 0),
        ([("Expires", "")], 0),
        ([("Expires", "Thu, 01 Jan 1970 00:00:00 GMT")], 0),
        ([("Expires", "Fri, 31 Dec 9999 23:59:59 GMT")], .infinity),
        ([("Expires", "Fri, 31 Dec 99999 23:59:59 GMT")], 0),
        ([("Expires", "Fri, 31 Dec 9999 23:59:59 GMT"), ("Expires", "0")], 0),
        ([("Expires", "Fri, 31 Dec 9999 23:59:59 GMT"), ("Cache-Control", "max-age=10")], 10),
        ([], 0),
    ]

    @Test("a response is fresh for exactly its stated lifetime", arguments: 0..<lifetimes.count)
    func lifetime(_ index: Int) async throws {
        let (fields, seconds) = Self.lifetimes[index]
        let setting = RuleSetting()
        setting.reply(200, fields.map { ($0.0, $0.1) } + [("ETag", "\"a\"")])
        setting.reply(304)
        _ = try await setting.get()
        setting.clock.advance(seconds: seconds == .infinity ? 1e8 : max(0, seconds - 0.001))
        #expect(try await setting.source() == (seconds > 0 ? .cache(.fresh) : .cache(.validated)), "\(fields)")
        guard seconds > 0, seconds < .infinity else { return }
        setting.clock.advance(seconds: 0.002)
        #expect(try await setting.source() == .cache(.validated), "\(fields)")
    }

    @Test("the age includes the age on arrival and the duration of the request")
    func initialAge() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=100"), ("Date", setting.date(-60))])
        _ = try await setting.get()
        #expect(try await setting.get().value("Age") == "60")
        setting.clock.advance(seconds: 39.9)
        #expect(try await setting.get().value("Age") == "99")
        setting.clock.advance(seconds: 0.2)
        #expect(try await setting.source() == .network)
        // A `Date` in the future is ignored.
        setting.reply(200, [("Cache-Control", "max-age=100"), ("Date", setting.date(1000))])
        _ = try await setting.get("http://a.test/2")
        _ = try await setting.get("http://a.test/3")
        setting.clock.advance(seconds: 99)
        #expect(try await setting.get("http://a.test/3").value("Age") == "99")
        setting.clock.advance(seconds: 2)
        #expect(try await setting.source("http://a.test/3") == .network)
    }

    @Test("hits, misses, stores and validations are counted")
    func counts() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=10"), ("ETag", "\"a\"")])
        setting.reply(304, [("ETag", "\"a\"")])
        for _ in 0..<3 { _ = try await setting.get() }
        let cache = setting.cache
        #expect((cache.hits, cache.misses, cache.stores, cache.validations) == (2, 1, 1, 0))
        setting.clock.advance(seconds: 11)
        #expect(try await setting.source() == .cache(.validated))
        #expect(cache.validations == 1 && cache.hits == 2)
    }

    @Test(
        "a validator does not replace a lifetime unless the status is heuristically cacheable",
        arguments: [201, 302, 403, 500])
    func validatorAlone(_ status: Int) async throws {
        let setting = RuleSetting()
        setting.reply(status, [("ETag", "\"a\"")])
        for _ in 0..<2 { #expect(try await setting.source() == .network) }
        #expect(setting.requests.count == 2 && setting.requests.allSatisfy { $0.value("If-None-Match") == nil })
    }

    @Test("the age counts from the time of the request")
    func delay() {
        let head = CachedHead(statusCode: 200, fields: [("Age", "5")])
        for (milliseconds, age) in [(7_999, 12), (8_000, 13)] as [(Int64, Int64)] {
            let received = CacheTime(wall: 1_000_000, up: 50_000 + milliseconds)
            let facts = ResponseFacts(head, requested: CacheTime(wall: 1_000_000, up: 50_000), received: received)
            #expect(facts.initialAge == age)
        }
    }

    // MARK: Clocks

    @Test("setting the clock back does not make a response fresher, and setting it forward makes it stale")
    func clockSet() async throws {
        for jump in [-1e8, -1000, 1000, 1e8] {
            let setting = RuleSetting()
            setting.reply(200, [("Cache-Control", "max-age=100"), ("ETag", "\"a\"")])
            setting.reply(304)
            _ = try await setting.get()
            setting.clock.advance(seconds: 50)
            setting.clock.setBack(seconds: -jump)
            #expect(try await setting.source() == (jump < 0 ? .cache(.fresh) : .cache(.validated)))
            setting.clock.advance(seconds: 51)
            #expect(try await setting.source() == (jump < 0 ? .cache(.validated) : .cache(.fresh)))
        }
    }

    @Test("if the clock was set back before a restart, the age is unknown and considered infinite")
    func restarted() {
        let facts = ResponseFacts(
            CachedHead(statusCode: 200, fields: [("Cache-Control", "max-age=100, stale-if-error=100")]),
            requested: CacheTime(wall: 2_000_000, up: 0), received: CacheTime(wall: 2_000_000, up: 0))
        let received = CacheTime(wall: 2_000_000, up: 500_000)
        let later = Freshness(facts, received: received, isOfThisRun: false, now: CacheTime(wall: 2_050_000, up: 1))
        #expect(later.isFresh)
        #expect(later.age == 50_000)
        let before = Freshness(facts, received: received, isOfThisRun: false, now: CacheTime(wall: 1_999_000, up: 1))
        #expect(!before.isFresh)
        #expect(before.staleness > 1_000_000 * 86_400_000)
    }

    @Test("if the clock was set back, a new response replaces one that seems younger")
    func replacedAfterClockChange() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=100")], "first")
        setting.reply(200, [("Cache-Control", "max-age=100")], "second")
        _ = try await setting.get()
        setting.clock.setBack(seconds: 1_000_000)
        setting.clock.advance(seconds: 1)
        _ = try await setting.get(policy: .reload)
        #expect(try await setting.get().text == "second")
    }

    // MARK: Heuristics

    @Test("without explicit freshness, a response is fresh for a tenth of its age, and for at most a day")
    func heuristic() async throws {
        for (changed, status, fields, lifetime) in [
            (1000, 200, [], 100), (1000, 404, [], 100), (86400 * 365, 200, [], 86400), (-1000, 200, [], 0),
            (1000, 200, [("Pragma", "no-cache")], 0), (1000, 302, [("Cache-Control", "public")], 100),
            (1000, 200, [("Cache-Control", "must-revalidate")], 100),
        ] as [(Int64, Int, Fields, Double)] {
            let setting = RuleSetting()
            let date = setting.date(-changed)
            setting.reply(status, [("Last-Modified", date), ("Date", setting.date())] + fields)
            setting.reply(304)
            _ = try await setting.get()
            setting.clock.advance(seconds: max(0, lifetime - 1))
            let seen = try await setting.source()
            #expect(seen == .cache(lifetime > 0 ? .fresh : .validated), "\(changed) \(status) \(fields)")
            setting.clock.advance(seconds: 2)
            #expect(try await setting.source() == .cache(.validated))
            #expect(setting.requests.last?.value("If-Modified-Since") == date)
        }
        let setting = RuleSetting()
        setting.reply(302, [("Last-Modified", setting.date(-1000))])
        _ = try await setting.get()
        #expect(try await setting.source() == .network)
    }

    @Test(arguments: [
        ("Sunday, 06-Nov-94 08:49:37 GMT", true), ("Wednesday, 09-Nov-94 08:49:37 GMT", true),
        ("Sun, 06-Nov-94 08:49:37 GMT", false), ("Sun, 06 Nov 1994 08:49:37 GMT", true),
        ("Sun Nov  6 08:49:37 1994", true), ("Sun, 6 Nov 1994 08:49:37 GMT", false),
    ]) func `HTTP dates are parsed only if they are valid`(_ text: String, _ isRead: Bool) {
        #expect((StrictDate.parse(text, now: 1_700_000_000) != nil) == isRead)
    }
}
