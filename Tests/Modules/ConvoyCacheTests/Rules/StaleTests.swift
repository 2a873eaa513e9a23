import ConvoySupport
import Testing

@testable import ConvoyCache

/// RFC 5861: stale responses during revalidation and after failures.
@Suite struct StaleTests {
    @Test("a stale response is served during its revalidation for its stated time, and only one request revalidates it")
    func whileRevalidate() async throws {
        for (staleness, isServed) in [(4.9, true), (5, true), (5.1, false)] {
            let setting = RuleSetting()
            setting.reply(200, [("Cache-Control", "max-age=10, stale-while-revalidate=5")], "old")
            setting.reply(200, [("Cache-Control", "max-age=10")], "new")
            _ = try await setting.get()
            setting.clock.advance(seconds: 10 + staleness)
            let seen = try await setting.get()
            #expect(seen.source == (isServed ? .cache(.staleWhileRevalidate) : .network))
            #expect(seen.text == (isServed ? "old" : "new"))
            #expect(setting.requests.count == 2)
            #expect(try await setting.get().text == "new")
        }
    }

    @Test("while one request revalidates, others do not")
    func onlyOne() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=10, stale-while-revalidate=100")])
        // The revalidating request does not complete.
        setting.reply(failing: true)
        _ = try await setting.get()
        setting.clock.advance(seconds: 20)
        for _ in 0..<5 { #expect(try await setting.source() == .cache(.staleWhileRevalidate)) }
        #expect(setting.requests.count == 2)
        setting.clock.advance(seconds: 11)
        _ = try await setting.get()
        #expect(setting.requests.count == 3)
    }

    @Test("directives of the request and the response take precedence over stale-while-revalidate")
    func demands() async throws {
        for (control, request) in [
            ("must-revalidate", ""), ("no-cache", ""), ("", "max-age=100"), ("", "min-fresh=0"), ("", "no-cache"),
        ] {
            let setting = RuleSetting()
            setting.reply(200, [("Cache-Control", "max-age=10, stale-while-revalidate=100, \(control)"), ("ETag", "\"a\"")])
            _ = try await setting.get()
            setting.clock.advance(seconds: 20)
            let fields: CacheClient.Fields = request.isEmpty ? [] : [("Cache-Control", request)]
            #expect(try await setting.source("http://a.test/", fields) == .network, "\(control) \(request)")
        }
    }

    @Test("a stale response is served after a failure for its stated time", arguments: [nil, 500, 502, 503, 504])
    func ifError(_ status: Int?) async throws {
        for (staleness, isServed) in [(-5.0, true), (4.9, true), (5, true), (5.1, false)] {
            for (response, request) in [("stale-if-error=5", ""), ("", "stale-if-error=5")] {
                let setting = RuleSetting()
                setting.reply(200, [("Cache-Control", "max-age=10, \(response)"), ("ETag", "\"a\"")], "old")
                setting.reply(status ?? 0, [], "error", failing: status == nil)
                _ = try await setting.get()
                setting.clock.advance(seconds: 10 + staleness)
                var fields: CacheClient.Fields = staleness < 0 ? [("Cache-Control", "max-age=0")] : []
                if !request.isEmpty { fields.append(("Cache-Control", request)) }
                do throws(CacheClient.Failure) {
                    let seen = try await setting.get("http://a.test/", fields)
                    #expect(seen.source == (isServed ? .cache(.staleIfError) : .network), "\(staleness)")
                    #expect(seen.status == (isServed ? 200 : status))
                } catch {
                    #expect(!isServed && status == nil && error == .network)
                }
            }
        }
    }

    @Test("a stale response is served neither after a status that is not temporary nor if it must be revalidated")
    func otherErrors() async throws {
        for (control, status) in [
            ("", 404), ("", 501), ("", 429), ("must-revalidate", 500), ("no-cache", 500), ("stale-if-error=0", 500),
            ("stale-if-error=x", 500),
        ] {
            let setting = RuleSetting()
            setting.reply(200, [("Cache-Control", "\(control), max-age=10, stale-if-error=100"), ("ETag", "\"a\"")])
            setting.reply(status, [], "error")
            _ = try await setting.get()
            setting.clock.advance(seconds: 11)
            #expect(try await setting.get().status == status, "\(control) \(status)")
        }
    }

    @Test("a failure leaves stored responses unchanged")
    func failureKeeps() async throws {
        let setting = RuleSetting()
        setting.reply(200, [("Cache-Control", "max-age=10"), ("ETag", "\"a\"")])
        setting.reply(500, [("Cache-Control", "no-store")])
        setting.reply(304)
        _ = try await setting.get()
        setting.clock.advance(seconds: 11)
        #expect(try await setting.get().status == 500)
        #expect(try await setting.source() == .cache(.validated))
    }
}
