@testable import ConvoyCache
import ConvoySupport
import ConvoyTestSupport
import Foundation

/// A cache in memory, a clock, and an origin that sends the next of several replies and records its requests.
final class RuleSetting: Sendable {
    typealias Fields = CacheClient.Fields

    struct Asked: Sendable {
        var method: String
        var address: String
        var fields: Fields

        func value(_ name: String) -> String? {
            fields.first { $0.name.lowercased() == name.lowercased() }?.value
        }
    }

    let clock = SimulatedClock()
    let cache: HTTPCache
    private let replies = Locked<[CacheClient.Reply?]>([])
    private let asked = Locked<[Asked]>([])

    init(memoryCapacity: Int = 16 << 20) { cache = HTTPCache(memoryCapacity: memoryCapacity, clock: clock.clock()) }

    /// The requests received by the origin.
    var requests: [Asked] { asked.withLock { $0 } }

    /// Adds a reply of the origin, or a failing connection. The last reply is repeated.
    func reply(_ status: Int = 200, _ fields: Fields = [], _ body: String = "body", failing: Bool = false) {
        replies.withLock {
            $0.append(failing ? nil : CacheClient.Reply(status: status, fields: fields, body: Array(body.utf8)))
        }
    }

    func get(
        _ address: String = "http://a.test/", _ fields: Fields = [], method: String = "GET",
        policy: CachePolicy = .protocolPolicy, partition: String = "", hasBody: Bool = false
    ) async throws(CacheClient.Failure) -> CacheClient.Seen {
        let client = CacheClient(cache) { method, address, fields in
            self.asked.withLock { $0.append(Asked(method: method, address: address, fields: fields)) }
            return self.replies.withLock { $0.count > 1 ? $0.removeFirst() : $0.first ?? nil }
        }
        return try await client.get(
            address, fields, method: method, policy: policy, partition: partition, hasBody: hasBody)
    }

    /// Returns the source of the response, which is the network or the cache, and the reason.
    func source(
        _ address: String = "http://a.test/", _ fields: Fields = [], method: String = "GET",
        policy: CachePolicy = .protocolPolicy, partition: String = ""
    ) async throws(CacheClient.Failure) -> CacheClient.Seen.Source {
        try await get(address, fields, method: method, policy: policy, partition: partition).source
    }

    /// Returns the clock's date as a field value.
    func date(_ seconds: Int64 = 0) -> String { HTTPDate.string(clock.now.wall / 1000 + seconds) }
}
