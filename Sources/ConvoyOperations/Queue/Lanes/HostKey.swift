import ConvoySupport
import Foundation
import Synchronization

/// The identity of a host, for a queue's limits, gates and fairness.
///
/// There is one key per name as long as anybody holds it. So keys are compared by identity, and a queue need not hash a
/// name each time an operation becomes ready.
package final class HostKey: Sendable {
    /// In lower case, with the port if the URL has one: two services on one machine are two hosts.
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

    /// The key of a URL's host; nil if it has none.
    ///
    /// - Parameter guess: the probable answer. If it is right, this takes no lock and needs no look-up.
    package static func of(_ url: URL, guess: HostKey? = nil) -> HostKey? {
        enum Found {
            case guess(HostKey)
            case name(String)
            case nothing
        }
        let found = url.absoluteString.utf8.withContiguousStorageIfAvailable { text -> Found in
            guard let start = startOfAuthority(in: text) else { return .nothing }
            if let guess, guess.isAuthority(in: text, from: start) { return .guess(guess) }
            guard let end = endOfPlainHost(in: text, from: start) else { return .nothing }
            return .name(String(decoding: text[start..<end], as: UTF8.self).lowercased())
        }
        switch found {
        case .guess(let key): return key
        case .name(let name): return named(name)
        // Unusual URLs are left to Foundation's `host`, which costs ten times as much. It decodes percent-encoding, and
        // removes the brackets of an IPv6 address.
        case .nothing, nil:
            guard let host = url.host?.lowercased() else { return nil }
            return named(url.port.map { "\(host):\($0)" } ?? host)
        }
    }

    private typealias Text = UnsafeBufferPointer<UInt8>

    private static func startOfAuthority(in text: Text) -> Int? {
        guard let colon = text.firstIndex(of: UInt8(ascii: ":")), text.count > colon + 3,
            text[colon + 1] == UInt8(ascii: "/"), text[colon + 2] == UInt8(ascii: "/")
        else { return nil }
        return colon + 3
    }

    /// Whether the text from an index to the path or the query is this key's name.
    private func isAuthority(in text: Text, from start: Int) -> Bool {
        let end = start + bytes.count
        guard end <= text.count, Self.isEnd(end, of: text) else { return false }
        return text[start..<end].elementsEqual(bytes)
    }

    /// The end of a host of letters, digits, dots and hyphens, and its port without leading zeros; nil for every other
    /// authority.
    private static func endOfPlainHost(in text: Text, from start: Int) -> Int? {
        var end = start
        while end < text.count, isPlain(text[end]) { end += 1 }
        guard end > start else { return nil }
        if end < text.count, text[end] == UInt8(ascii: ":") {
            let port = end + 1
            end = port
            while end < text.count, text[end] >= UInt8(ascii: "0"), text[end] <= UInt8(ascii: "9") { end += 1 }
            guard end > port, end <= port + 5, text[port] != UInt8(ascii: "0") else { return nil }
        }
        return isEnd(end, of: text) ? end : nil
    }

    private static func isEnd(_ index: Int, of text: Text) -> Bool {
        index == text.count || text[index] == UInt8(ascii: "/") || text[index] == UInt8(ascii: "?")
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"):
            true
        default: false
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
