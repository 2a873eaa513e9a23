@testable import ConvoyCache
import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

/// Runs http-tests/cache-tests with a simulated origin and a simulated clock.
@Suite struct CacheConformanceTests {
    @Test(
        "the required tests of http-tests/cache-tests for private caches pass, apart from documented exceptions",
        .enabled(if: ConformanceSuite.directory("http-cache") != nil, .init(rawValue: ConformanceSuite.hint("http-cache"))))
    func conformance() async throws {
        let directory = try #require(ConformanceSuite.directory("http-cache"))
        let tests = try HTTPCacheSuite.load(from: directory).flatMap(\.tests).filter(\.isForClients)
        var verdicts: [String: HTTPCacheVerdict] = [:]
        for test in tests { verdicts[test.id] = try await Self.run(test) }
        let report = HTTPCacheReport(tests, verdicts)
        print(report.lines.joined(separator: "\n"))
        for (kind, count) in report.counts { print("\(kind): \(count)") }
        #expect(report.surprises == [])
        #expect(report.counts[.required]?.all == 137)
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
            // A client accepts as many bytes as announced.
            if let length, length < body.count { body = Array(body.prefix(length)) }
            return CacheClient.Reply(status: reply.status, fields: reply.fields, body: body)
        }
        var seen: [HTTPCacheVerdict.Seen?] = []
        for (index, step) in test.requests.enumerated() {
            var fields: CacheClient.Fields = (step.request_headers ?? []).compactMap { entry in
                guard entry.count == 2, let name = entry[0].text else { return nil }
                let value = HTTPCacheOrigin.value(entry[1], name, step, target: "", now: clock.now.wall)
                // Leading and trailing whitespace is not part of a value (RFC 9110, section 5.5).
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
                // The response to `only-if-cached` in RFC 9111, section 5.2.1.7.
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
