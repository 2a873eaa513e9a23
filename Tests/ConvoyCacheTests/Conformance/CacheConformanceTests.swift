@testable import ConvoyCache
import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

/// http-tests/cache-tests against the room, with a simulated origin and a simulated clock.
@Suite struct CacheConformanceTests {
    /// The required tests that are not passed, each with its reason.
    static let deviations: [String: String] = [
        // Both need `stale-close`, which has no right answer: it wants a stale response for a broken connection without
        // anybody's permission. Here that takes `stale-if-error`. What the two demand is done: they pass by themselves.
        "stale-close-must-revalidate": "needs a test that asks for stale responses without permission",
        "stale-close-no-cache": "needs a test that asks for stale responses without permission",
    ]

    @Test(
        "the required tests of http-tests/cache-tests for private caches pass, but for those that are explained",
        .enabled(if: ConformanceSuite.directory("http-cache") != nil, .init(rawValue: ConformanceSuite.hint("http-cache"))))
    func conformance() async throws {
        let directory = try #require(ConformanceSuite.directory("http-cache"))
        let tests = try HTTPCacheSuite.load(from: directory).flatMap(\.tests).filter(\.isForClients)
        var verdicts: [String: HTTPCacheVerdict] = [:]
        for test in tests { verdicts[test.id] = try await Self.run(test) }
        var counts: [HTTPCacheSuite.Kind: (passed: Int, failed: Int, void: Int)] = [:]
        var lines: [String] = []
        for test in tests {
            let kind = test.effectiveKind
            var count = counts[kind] ?? (0, 0, 0)
            let verdict = verdicts[test.id] ?? .void("")
            let isMissing = test.dependencies.contains { id in
                verdicts[id].map { $0 != .passed } ?? false
            }
            if verdict == .passed, !isMissing {
                count.passed += 1
            } else if isMissing {
                count.void += 1
                lines.append("\(kind.rawValue) \(test.id): void, since a test that it needs has failed")
            } else {
                if case .failed = verdict { count.failed += 1 } else { count.void += 1 }
                lines.append("\(kind.rawValue) \(test.id): \(verdict)")
            }
            counts[kind] = count
            if kind == .required, !(verdict == .passed && !isMissing) {
                #expect(Self.deviations[test.id] != nil, "\(test.id): \(verdict)")
            } else if kind == .required {
                #expect(Self.deviations[test.id] == nil, "\(test.id) passes, although a reason why not is given")
            }
        }
        print(lines.sorted().joined(separator: "\n"))
        for (kind, count) in counts { print("\(kind): \(count)") }
        #expect(counts[.required].map { $0.passed + $0.failed + $0.void } == 137)
        #expect(counts[.required]?.passed ?? 0 > 117)
    }

    static func run(_ test: HTTPCacheSuite.Test) async throws -> HTTPCacheVerdict {
        let clock = SimulatedClock()
        let origin = Locked(HTTPCacheOrigin(test, token: "token-\(test.id)"))
        let client = CacheClient(HTTPCache(memoryCapacity: 1 << 20, clock: clock.clock())) { method, address, fields in
            let target = String(address.dropFirst("http://origin.test".count))
            guard
                let reply = origin.withLock({
                    $0.answer(method: method, target: target, fields: fields, now: clock.now.wall)
                })
            else { return nil }
            var body = Array(reply.body.utf8)
            let length = reply.fields.first { $0.name.lowercased() == "content-length" }.flatMap { Int($0.value) }
            // A client takes as many bytes as it was told of.
            if let length, length < body.count { body = Array(body.prefix(length)) }
            return CacheClient.Reply(status: reply.status, fields: reply.fields, body: body)
        }
        var seen: [HTTPCacheVerdict.Seen?] = []
        for (index, step) in test.requests.enumerated() {
            var fields: CacheClient.Fields = (step.request_headers ?? []).compactMap { entry in
                guard entry.count == 2, let name = entry[0].text else { return nil }
                let value = HTTPCacheOrigin.value(entry[1], name, step, target: "", now: clock.now.wall)
                // Whitespace at the ends is no part of a value (RFC 9110, section 5.5).
                return (name, value.trimmingCharacters(in: .whitespaces))
            }
            fields += [("Test-ID", test.id), ("Req-Num", String(index + 1)), ("Accept-Encoding", "gzip, br")]
            let address = "http://origin.test" + origin.withLock { $0.target(step) }
            do throws(CacheClient.Failure) {
                let response = try await client.get(
                    address, fields, method: step.request_method ?? "GET",
                    policy: step.cache == "no-cache" ? .reloadRevalidating : .protocolPolicy,
                    hasBody: step.request_body != nil)
                seen.append(
                    HTTPCacheVerdict.Seen(status: response.status, fields: response.fields, body: response.text))
            } catch {
                // The answer that RFC 9111, section 5.2.1.7, gives to `only-if-cached`.
                if case .unavailable = error {
                    seen.append(HTTPCacheVerdict.Seen(status: 504, fields: [], body: ""))
                } else {
                    seen.append(nil)
                }
            }
            if step.pause_after == true { clock.advance(seconds: 3) }
        }
        return HTTPCacheVerdict(origin.withLock { $0 }, seen)
    }
}
