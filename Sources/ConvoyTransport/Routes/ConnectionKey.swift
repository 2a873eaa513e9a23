import ConvoySupport
import Synchronization

/// What sets connections apart that libcurl takes for equal, as a number.
///
/// libcurl uses a tunnel through an HTTP proxy for whoever asks for the same proxy, whatever credential opened it, and
/// does not know of a connection's own source address, its marks, or whose it is. But it keeps connections in groups by the number of the scope of
/// IPv6 addresses (`CURLOPT_ADDRESS_SCOPE`), also where the address is no IPv6 address, and the system minds the number
/// for link-local addresses only. So each key has a number that no network interface has.
final class ConnectionKey: Sendable {
    /// What a connection has that others have not.
    struct Distinction: Hashable {
        /// For whom the proxy has opened it.
        var credential: ProxyCredential?
        /// From where it was made. libcurl compares that only for a request that names one.
        var source: ConnectionSource?
        /// How its packets are marked.
        var serviceType = NetworkServiceType.default
        /// The name of the one on whose behalf its requests are sent.
        var identity: ExactString?

        /// Whether it differs from that of a plain connection.
        var matters: Bool { self != Distinction() }
    }

    let number: Int

    private init() {
        // Above all numbers of interfaces, and below the largest that a scope can have.
        number = Self.first + Self.count.add(1, ordering: .relaxed).newValue % Self.first
    }

    private static let first = 1 << 30
    private static let count = Atomic<Int>(0)

    private struct WeakKey {
        weak var key: ConnectionKey?
    }
    private struct Known {
        var keys: [Distinction: WeakKey] = [:]
        /// The last ones, so that programs find their connections that make a new configuration for each request.
        var recent: [ConnectionKey] = []
    }
    private static let known = Locked(Known())
    private static let recentLimit = 64

    /// The key of all connections with this distinction, while somebody holds it or it is one of the last; nil for plain
    /// ones. After that nobody can use its connections any more.
    static func shared(for distinction: Distinction) -> ConnectionKey? {
        guard distinction.matters else { return nil }
        return known.withLock { known in
            if let key = known.keys[distinction]?.key { return key }
            if known.recent.count >= recentLimit { known.recent.removeFirst() }
            known.keys = known.keys.filter { $0.value.key != nil }
            let key = ConnectionKey()
            known.keys[distinction] = WeakKey(key: key)
            known.recent.append(key)
            return key
        }
    }
}
