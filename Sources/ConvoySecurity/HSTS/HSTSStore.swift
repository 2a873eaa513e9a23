import ConvoySupport
import Foundation

/// Remembers which hosts require TLS, and for how long (HTTP Strict Transport Security, RFC 6797).
///
/// Connections of a `ConnectionConfiguration` with a store note the `Strict-Transport-Security` field of responses over
/// TLS, and send requests to such hosts over https even if the URL says http. One store can serve any number of
/// configurations, and its methods can be called from any thread.
///
/// A store with a file writes it 0.1 seconds after a change, on a queue of its own. Several processes can share the
/// file: whenever a store writes, it merges its own records with those of the file.
public final class HSTSStore: Sendable {
    private struct State {
        var records: HSTSRecords
        /// Whether a write of the file is scheduled.
        var isScheduled = false
        var failure: HSTSStoreError?
    }

    private let state: Locked<State>
    private let file: HSTSFile?
    private let queue: DispatchQueue
    /// Milliseconds since 1970.
    private let now: @Sendable () -> Int64

    /// An empty store that is kept in memory only.
    ///
    /// - Parameter maximumHostCount: how many hosts are remembered. Beyond that, hosts of the domain that has the most
    ///   are removed first.
    public convenience init(maximumHostCount: Int = 4096) {
        self.init(HSTSRecords(limit: max(1, maximumHostCount)), nil)
    }

    /// A store that loads its hosts from a file and saves them there.
    ///
    /// Reading the file blocks. It must belong to this user or root, and other users must not be able to write to it. A
    /// save writes a new file with mode 0600 under a random name in the same directory, and then replaces the old one.
    ///
    /// - Parameters:
    ///   - file: the file, which need not exist, but its directory must.
    ///   - maximumHostCount: how many hosts are remembered.
    /// - Throws: `HSTSStoreError` for a file that cannot be read, is damaged or cannot be trusted. The file is not
    ///   changed.
    public convenience init(file: URL, maximumHostCount: Int = 4096) throws(HSTSStoreError) {
        let file = HSTSFile(path: file.path)
        var records = HSTSRecords(limit: max(1, maximumHostCount))
        records.merge(try file.read(), at: HSTSStore.clock() / 1000)
        self.init(records, file)
    }

    init(_ records: HSTSRecords, _ file: HSTSFile?, now: @escaping @Sendable () -> Int64 = HSTSStore.clock) {
        state = Locked(State(records: records))
        self.file = file
        self.now = now
        queue = DispatchQueue(label: "Convoy.HSTSStore", qos: .utility)
    }

    @Sendable static func clock() -> Int64 { Int64(Date().timeIntervalSince1970 * 1000) }

    // MARK: Hosts

    /// Whether a host requires TLS, by its own policy or by that of a parent domain that includes subdomains. Never
    /// true for an IP address.
    public func requiresTLS(forHost host: String) -> Bool {
        guard let name = HSTSRecords.name(of: host) else { return false }
        let now = now() / 1000
        return state.withLock { $0.records.requiresTLS(name, at: now) }
    }

    /// Notes the policy that a host has sent.
    ///
    /// Call it only for a response over TLS whose certificate was validated, as connections of a configuration with
    /// this store do.
    ///
    /// - Parameters:
    ///   - value: of the first `Strict-Transport-Security` field of the response. `max-age=0` withdraws the policy.
    ///   - host: of the URL.
    /// - Returns: false for an invalid value or an IP address, which change nothing.
    @discardableResult
    public func note(_ value: String, fromHost host: String) -> Bool {
        guard let name = HSTSRecords.name(of: host), let policy = StrictTransportSecurity(value) else { return false }
        let now = now()
        let isDue = state.withLock { state in
            guard state.records.note(policy, of: name, at: now) else { return false }
            return Self.schedule(&state)
        }
        if isDue { saveLater() }
        return true
    }

    /// Forgets the policy of a host. It can be reached without TLS until it sends a policy again, unless that of a
    /// parent domain includes it.
    public func remove(host: String) {
        guard let name = HSTSRecords.name(of: host) else { return }
        let now = now()
        let isDue = state.withLock { state in
            state.records.withdraw(name, at: now)
            return Self.schedule(&state)
        }
        if isDue { saveLater() }
    }

    /// The hosts that require TLS now, in the order of their names.
    public var hosts: [HSTSHost] {
        let now = now() / 1000
        return state.withLock { $0.records.hosts(at: now) }
    }

    // MARK: The file

    /// Why the last write of the file failed; nil if it succeeded, or if there is no file. The next change writes what
    /// is missing.
    public var savingFailure: HSTSStoreError? { state.withLock { $0.failure } }

    /// Writes the file now, and takes over what other processes have added. Blocks; does nothing without a file.
    public func save() throws(HSTSStoreError) {
        if let failure = queue.sync(execute: { write() }) { throw failure }
    }

    /// Marks a write of the file as scheduled; false if one already is.
    private static func schedule(_ state: inout State) -> Bool {
        defer { state.isScheduled = true }
        return !state.isScheduled
    }

    private func saveLater() {
        guard file != nil else { return }
        // The closure retains the store, so that releasing it does not lose the change.
        queue.asyncAfter(deadline: .now() + 0.1) { _ = self.write() }
    }

    private func write() -> HSTSStoreError? {
        guard let file else { return nil }
        let own = state.withLock { state in
            state.isScheduled = false
            return state.records
        }
        let now = now() / 1000
        do throws(HSTSStoreError) {
            let all = try file.merge(own, at: now)
            state.withLock { state in
                state.records.merge(all, at: now)
                state.failure = nil
            }
            return nil
        } catch {
            state.withLock { $0.failure = error }
            return error
        }
    }
}

/// Why the file of an `HSTSStore` cannot be used.
public enum HSTSStoreError: Error, Sendable, Hashable {
    /// The system refuses to read the file: its path, and the reason.
    case cannotRead(String, reason: String)
    /// The system refuses to write the file: its path, and the reason.
    case cannotWrite(String, reason: String)
    /// The file is damaged or of another format: its path, and the number of the line.
    case isDamaged(String, line: Int)
    /// Another user may have written the file, or can change it: its path, and what is wrong. The file was not changed.
    case isUnsafe(String, reason: String)
}

extension HSTSStoreError: CustomStringConvertible {
    /// The reason in a sentence.
    public var description: String {
        switch self {
        case .cannotRead(let path, let reason): "The hosts for TLS cannot be read from \(path): \(reason)"
        case .cannotWrite(let path, let reason): "The hosts for TLS cannot be written to \(path): \(reason)"
        case .isUnsafe(let path, let reason): "The hosts for TLS in \(path) cannot be trusted: \(reason)"
        case .isDamaged(let path, let line): "The file \(path) is damaged in line \(line). Remove it to begin anew."
        }
    }
}
