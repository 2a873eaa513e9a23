import ConvoySupport
import Foundation
import Synchronization

/// The identity of a host, for a queue's limits, gates and fairness.
///
/// There is one key per name as long as anybody holds it. So keys are compared by identity, and a queue need not hash a
/// name each time an operation becomes ready.
package final class HostKey: Sendable {
    /// As in ``Target/place``: in lower case, with the port unless it is the scheme's own, as two services on one machine
    /// are two hosts.
    package let name: String
    private let bytes: ContiguousArray<UInt8>
    /// The index at which a ``HostTable`` last found the key, where the next look-up begins.
    let lastIndex = Atomic<Int32>(0)

    private init(_ name: String) {
        self.name = name
        bytes = ContiguousArray(name.utf8)
    }

    // MARK: Making

    /// The key of a host name in the form of ``name``.
    package static func named(_ name: String) -> HostKey {
        known.withLock { $0.key(named: name) }
    }

    /// The key of a URL's host; nil for a URL that is none of HTTP, and for one without a host.
    ///
    /// - Parameter guess: the probable answer. If it is right, this takes no lock and needs no look-up.
    package static func of(_ url: URL, guess: HostKey? = nil) -> HostKey? {
        enum Found {
            case guess(HostKey)
            case name(String)
            case nothing
        }
        let found = url.absoluteString.utf8.withContiguousStorageIfAvailable { text -> Found in
            guard let plain = PlainAuthority(text) else { return .nothing }
            let name = text[plain.place]
            if let guess, name.elementsEqual(guess.bytes) { return .guess(guess) }
            return .name(String(decoding: name, as: UTF8.self))
        }
        switch found {
        case .guess(let key): return key
        case .name(let name): return named(name)
        case .nothing, nil: return Target(url).map { named($0.place) }
        }
    }

    // MARK: The existing keys

    private static let known = Locked(Known())

    private struct Known {
        private var keys: [String: HostKey] = [:]
        private var sweepAt = 256

        var count: Int { keys.count }

        mutating func key(named name: String) -> HostKey {
            if let key = keys[name] { return key }
            if keys.count >= sweepAt { sweep() }
            let key = HostKey(name)
            keys[name] = key
            return key
        }

        /// Removes the keys that nobody else holds, as a program may contact any number of hosts.
        ///
        /// Runs whenever the count has doubled, so that it is cheap per new key. A key that nobody else holds can only
        /// be obtained here, under the lock, so none can come into use during the sweep.
        private mutating func sweep() {
            var unused: [String] = []
            var index = keys.startIndex
            while index != keys.endIndex {
                if isKnownUniquelyReferenced(&keys.values[index]) { unused.append(keys[index].key) }
                keys.formIndex(after: &index)
            }
            for name in unused { keys[name] = nil }
            sweepAt = max(256, keys.count * 2)
        }
    }

    /// How many keys there are. For tests.
    static var count: Int { known.withLock { $0.count } }
}
