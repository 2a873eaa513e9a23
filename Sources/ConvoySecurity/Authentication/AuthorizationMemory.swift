import ConvoySupport
import Foundation
import Synchronization

/// Remembers the challenges of servers, so that later requests are authorized at once. It holds no credentials; they
/// are chosen for each request.
package final class AuthorizationMemory: Sendable {
    /// The memory of the whole program.
    package static let shared = AuthorizationMemory()

    /// A space whose challenge was answered successfully.
    struct Entry: Sendable {
        let space: ProtectionSpace
        /// The space contains every path that begins with one of these prefixes (RFC 7617, section 2.2; the `domain` of
        /// RFC 7616, section 3.3).
        let prefixes: [String]
        /// The nonce for Digest.
        let nonce: DigestNonce?
    }

    private struct Table {
        var entries: [AuthenticatingServer: [Entry]] = [:]
        /// The servers in the order of their last change, the oldest first.
        var order: [AuthenticatingServer] = []
    }

    private let table = Locked(Table())
    private let count = Atomic<Int>(0)

    private static let mostServers = 1024
    private static let mostEntries = 32

    package init() {}

    /// Whether the memory is empty. Costs one atomic read.
    package var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    /// Whether a server has an entry.
    package func knows(_ server: AuthenticatingServer) -> Bool { !isEmpty && table.withLock { $0.entries[server] != nil } }

    /// The entry for a request target: the one with its longest prefix.
    func entry(for uri: String, of server: AuthenticatingServer) -> Entry? {
        guard !isEmpty else { return nil }
        let path = Self.path(of: uri)
        let entries = table.withLock { $0.entries[server] } ?? []
        func depth(_ entry: Entry) -> Int {
            entry.prefixes.map { path.starts(with: $0.utf8) ? $0.utf8.count : -1 }.max() ?? -1
        }
        return entries.map { ($0, depth($0)) }.filter { $0.1 >= 0 }.max { $0.1 < $1.1 }?.0
    }

    /// Notes that a server has accepted the answer to its challenge.
    func note(_ space: ProtectionSpace, nonce: DigestNonce?, at uri: String, of server: AuthenticatingServer) {
        let path = Self.path(of: uri)
        let folder = String(decoding: path.prefix((path.lastIndex(of: UInt8(ascii: "/")) ?? 0) + 1), as: UTF8.self)
        table.withLock { table in
            var entries = table.entries[server] ?? []
            // Fast path: most requests change nothing.
            if let last = entries.last, last.space == space, last.nonce === nonce,
                last.prefixes.contains(where: { path.starts(with: $0.utf8) })
            {
                return
            }
            let known = entries.firstIndex { $0.space == space }.map { entries.remove(at: $0) }
            var prefixes = known?.prefixes ?? []
            if let nonce {
                prefixes = Self.prefixes(of: nonce.challenge.domain, server)
            } else if server.isProxy {
                prefixes = [""]
            } else if !prefixes.contains(where: { path.starts(with: $0.utf8) }) {
                prefixes.removeAll { $0.utf8.starts(with: folder.utf8) }
                prefixes.append(folder)
            }
            entries.append(Entry(space: space, prefixes: Array(prefixes.suffix(Self.mostEntries)), nonce: nonce))
            table.entries[server] = Array(entries.suffix(Self.mostEntries))
            table.order.removeAll { $0 == server }
            table.order.append(server)
            if table.order.count > Self.mostServers { table.entries[table.order.removeFirst()] = nil }
            count.store(table.entries.count, ordering: .relaxed)
        }
    }

    /// Removes a space whose answer was refused.
    func forget(_ space: ProtectionSpace, of server: AuthenticatingServer) {
        guard !isEmpty else { return }
        table.withLock { table in
            table.entries[server]?.removeAll { $0.space == space }
            if table.entries[server]?.isEmpty == true {
                table.entries[server] = nil
                table.order.removeAll { $0 == server }
            }
            count.store(table.entries.count, ordering: .relaxed)
        }
    }

    private static func path(of uri: String) -> Array<UInt8>.SubSequence {
        Array(uri.utf8).prefix { $0 != UInt8(ascii: "?") }
    }

    /// The paths that a `domain` names, without those of other servers.
    private static func prefixes(of domain: [String], _ server: AuthenticatingServer) -> [String] {
        // RFC 7616, section 3.3: a proxy ignores it.
        guard !server.isProxy else { return [""] }
        let paths = domain.compactMap { reference -> String? in
            if reference.hasPrefix("/"), !reference.hasPrefix("//") { return reference }
            guard let url = URL(string: reference), AuthenticatingServer(url) == server else { return nil }
            // The encoded form, as an encoded slash is not a separator.
            let path = URLComponents(url: url, resolvingAgainstBaseURL: false)?.percentEncodedPath ?? url.path
            return path.isEmpty ? "/" : path
        }
        return paths.isEmpty ? ["/"] : paths
    }
}
