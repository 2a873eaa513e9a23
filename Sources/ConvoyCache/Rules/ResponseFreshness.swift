import ConvoySupport
import Foundation
import FoundationNetworking

/// The time for which data derived from a response may be used without contacting the server, by a cache other than the
/// HTTP cache.
package enum ResponseFreshness: Sendable, Hashable {
    /// The data must not be used again: the response must not be stored, requires validation, or was stale on arrival.
    case none
    /// The data may be used for the number of seconds stated by the server.
    case seconds(TimeInterval)
    /// The server has not stated a lifetime.
    case unstated

    /// Determines the freshness of a response that has just arrived, from the network or from a cache (RFC 9111,
    /// section 4.2).
    package init(_ response: HTTPURLResponse, now: Date = Date()) {
        let fields: Fields = response.allHeaderFields.compactMap { name, value in
            guard let name = name as? String, let value = value as? String else { return nil }
            return (name, value)
        }
        let milliseconds = Int64(exactly: (now.timeIntervalSince1970 * 1000).rounded(.down)) ?? 0
        let time = CacheTime(wall: milliseconds, up: 0)
        let facts = ResponseFacts(
            CachedHead(statusCode: response.statusCode, fields: fields), requested: time, received: time)
        let directives = facts.directives
        if directives.noStore || directives.noCache {
            self = .none
        } else if facts.isHeuristic {
            self = .unstated
        } else {
            let left = facts.lifetime - facts.initialAge
            self = left > 0 ? .seconds(TimeInterval(left)) : .none
        }
    }
}
