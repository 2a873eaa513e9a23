import ConvoySupport
import Testing

@testable import ConvoyCache

/// The directives of requests.
@Suite struct RequestDirectiveTests {
    /// Stores a response that is fresh for 10 seconds, at the given age.
    private func setting(
        _ age: Double, _ control: String = "max-age=10", etag: Bool = true
    ) async throws -> RuleSetting {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", control)] + (etag ? [("ETag", "\"a\"")] : []))
        setting.reply(304, [("ETag", "\"a\"")])
        _ = try await setting.get()
        setting.clock.advance(seconds: age)
        return setting
    }

    static let cases: [(age: Double, control: String, request: String, source: CacheClient.Seen.Source)] = [
        (5, "max-age=10", "max-age=5", .cache(.fresh)),
        (6, "max-age=10", "max-age=5", .cache(.validated)),
        (0, "max-age=10", "max-age=0", .cache(.validated)),
        (0, "max-age=10", "max-age=x", .cache(.validated)),
        (9, "max-age=10", "max-age=9223372036854775807", .cache(.fresh)),
        (9, "max-age=10", "max-age=18446744073709551616", .cache(.fresh)),
        (5, "max-age=10", "min-fresh=5", .cache(.fresh)),
        (6, "max-age=10", "min-fresh=5", .cache(.validated)),
        (0, "max-age=10", "min-fresh=9223372036854775807", .cache(.validated)),
        (0, "max-age=10", "min-fresh=-1", .cache(.validated)),
        (12, "max-age=10", "max-stale=2", .cache(.maxStale)),
        (13, "max-age=10", "max-stale=2", .cache(.validated)),
        (1e8, "max-age=10", "max-stale", .cache(.maxStale)),
        (1e8, "max-age=10", "max-stale=99999999999999999999", .cache(.maxStale)),
        (12, "max-age=10", "max-stale=x", .cache(.validated)),
        (12, "max-age=10, must-revalidate", "max-stale", .cache(.validated)),
        (12, "max-age=10, no-cache", "max-stale", .cache(.validated)),
        (12, "max-age=10", "max-stale, max-age=11", .cache(.validated)),
        (1, "max-age=10", "no-cache", .cache(.validated)),
        (1, "max-age=10", "no-cache=x", .cache(.validated)),
        (1, "max-age=10", "no-store", .network),
        (1, "max-age=10", "only-if-cached", .cache(.fresh)),
        (12, "max-age=10", "only-if-cached, max-stale=2", .cache(.maxStale)),
    ]

    @Test("a request gets a response that satisfies its directives", arguments: 0..<cases.count)
    func directives(_ index: Int) async throws {
        let (age, control, request, source) = Self.cases[index]
        let setting = try await setting(age, control)
        #expect(try await setting.source("http://a.test/", [("Cache-Control", request)]) == source, "\(request) at \(age)")
    }

    @Test("Pragma applies only without Cache-Control")
    func pragma() async throws {
        var setting = try await setting(1)
        #expect(try await setting.source("http://a.test/", [("Pragma", "no-cache")]) == .cache(.validated))
        setting = try await self.setting(1)
        let both = [("Pragma", "no-cache"), ("Cache-Control", "max-age=5")]
        #expect(try await setting.source("http://a.test/", both) == .cache(.fresh))
    }

    @Test("only-if-cached never reaches the network, and reports why nothing is served")
    func onlyIfCached() async throws {
        let only: CacheClient.Fields = [("Cache-Control", "only-if-cached")]
        for etag in [true, false] {
            let setting = try await setting(11, etag: etag)
            await #expect(throws: CacheClient.Failure.unavailable(.stale)) { try await setting.get("http://a.test/", only) }
            await #expect(throws: CacheClient.Failure.unavailable(.notStored)) {
                try await setting.get("http://a.test/other", only)
            }
            #expect(setting.requests.count == 1)
        }
    }

    @Test("a request with no-store and its response are not stored")
    func noStore() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=10")])
        _ = try await setting.get("http://a.test/", [("Cache-Control", "no-store")])
        #expect(try await setting.source() == .network)
        #expect(try await setting.source() == .cache(.fresh))
    }

    // MARK: Policies

    @Test("the policies of URLRequest have their documented effects")
    func policies() async throws {
        for age in [1.0, 1e6] {
            let use: StoredUse = age < 10 ? .fresh : .ignoringAge
            var setting = try await setting(age)
            #expect(try await setting.source(policy: .storedElseLoad) == .cache(use))
            #expect(try await setting.source(policy: .storedOnly) == .cache(use))
            #expect(try await setting.source(policy: .reloadRevalidating) == .cache(.validated))
            #expect(setting.requests.last?.value("Cache-Control") == "max-age=0")
            setting = try await self.setting(age)
            #expect(try await setting.source(policy: .reload) == .network)
            #expect(setting.requests.last?.value("If-None-Match") == nil)
        }
        let setting = RuleSetting()
        await #expect(throws: CacheClient.Failure.unavailable(.notStored)) { try await setting.get(policy: .storedOnly) }
        await #expect(throws: CacheClient.Failure.unavailable(.notStored)) {
            try await setting.get(method: "POST", policy: .storedOnly)
        }
        await #expect(throws: CacheClient.Failure.network) { try await setting.get(policy: .storedElseLoad) }
        #expect(setting.requests.count == 1)
    }

    @Test("a reload does not revalidate an immutable response while it is fresh")
    func immutable() async throws {
        var setting = try await setting(9, "max-age=10, immutable")
        #expect(try await setting.source(policy: .reloadRevalidating) == .cache(.fresh))
        setting = try await self.setting(11, "max-age=10, immutable")
        #expect(try await setting.source(policy: .reloadRevalidating) == .cache(.validated))
        setting = try await self.setting(1, "max-age=10, immutable")
        #expect(try await setting.source("http://a.test/", [("Cache-Control", "no-cache")]) == .cache(.validated))
    }

    @Test("a response stored in one partition is not found in another")
    func partition() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=10")])
        // The third and the fourth partition are canonically equivalent.
        let partitions = ["", "a", "\u{E9}", "e\u{301}"]
        for partition in partitions { #expect(try await setting.source(partition: partition) == .network) }
        for partition in partitions { #expect(try await setting.source(partition: partition) == .cache(.fresh)) }
        #expect(try await setting.source(method: "POST", partition: "a") == .network)
        // An unsafe request affects all partitions.
        for partition in partitions { #expect(try await setting.source(partition: partition) == .network) }
    }

    @Test("requests with a body, and methods other than GET and HEAD, are neither stored nor answered")
    func methods() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=10")])
        #expect(try await setting.get(hasBody: true).source == .network)
        #expect(try await setting.get().source == .network)
        #expect(try await setting.get(hasBody: true).source == .network)
        for method in ["OPTIONS", "PROPFIND", "QUERY", "get"] {
            #expect(try await setting.source("http://a.test/2", method: method) == .network)
        }
        #expect(try await setting.source("http://a.test/2") == .network)
    }
}
