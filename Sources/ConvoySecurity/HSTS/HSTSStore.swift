import ConvoySupport
import Foundation

/// A store of the hosts that require TLS, and for how long (HTTP Strict Transport Security, RFC 6797).
///
/// Connections of a `ConnectionConfiguration` with a store record the `Strict-Transport-Security` field of responses
/// over TLS. They send requests to recorded hosts over https, even if the URL specifies http. A store can be shared by
/// any number of configurations, and its methods can be called from any thread.
///
/// If the store has a file, changes are written after 0.1 seconds, on a dedicated queue. Several processes can share
/// the file: each write merges the store's records with those in the file.
public final class HSTSStore: Sendable {
    private struct State {
        var records: HSTSRecords
        /// Whether a write is scheduled.
        var isScheduled = false
        var failure: HSTSStoreError?
    }

    private let state: Locked<State>
    private let file: HSTSFile?
    private let queue: DispatchQueue
    /// The clock, in milliseconds since 1970.
    private let now: @Sendable () -> Int64

    /// Creates an empty store that is kept in memory only.
    ///
    /// - Parameter maximumHostCount: The maximum number of hosts. If it is exceeded, hosts of the largest domain are
    ///   removed first.
    public convenience init(maximumHostCount: Int = 4096) {
        self.init(HSTSRecords(limit: max(1, maximumHostCount)), nil)
    }

    /// Creates a store that loads its hosts from a file and saves them there.
    ///
    /// Reading the file blocks. The file must belong to the current user or root, and must not be writable by others.
    /// Saving creates a new file with mode 0600 and a random name in the same directory, and then replaces the old
    /// file.
    ///
    /// - Parameters:
    ///   - file: The file. It need not exist, but its directory must.
    ///   - maximumHostCount: The maximum number of hosts.
    /// - Throws: `HSTSStoreError` if the file cannot be read, is damaged or cannot be trusted. The file is not changed.
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

    /// Returns whether a host requires TLS, because of its own policy or that of a parent domain that includes
    /// subdomains. Returns false for IP addresses.
    public func requiresTLS(forHost host: String) -> Bool {
        guard let name = HSTSRecords.name(of: host) else { return false }
        let now = now() / 1000
        return state.withLock { $0.records.requiresTLS(name, at: now) }
    }

    /// Records the policy that a host has sent.
    ///
    /// Call this method only for a response over TLS with a validated certificate. Connections of a configuration with
    /// this store do so automatically.
    ///
    /// - Parameters:
    ///   - value: The value of the first `Strict-Transport-Security` field of the response. `max-age=0` withdraws the
    ///     policy.
    ///   - host: The host of the URL.
    /// - Returns: False if the value is invalid or the host is an IP address. The store is then unchanged.
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

    /// Removes the policy of a host. The host can be reached without TLS until it sends a new policy, unless the policy
    /// of a parent domain includes it.
    public func remove(host: String) {
        guard let name = HSTSRecords.name(of: host) else { return }
        let now = now()
        let isDue = state.withLock { state in
            state.records.withdraw(name, at: now)
            return Self.schedule(&state)
        }
        if isDue { saveLater() }
    }

    /// The hosts that currently require TLS, sorted by name.
    public var hosts: [HSTSHost] {
        let now = now() / 1000
        return state.withLock { $0.records.hosts(at: now) }
    }

    // MARK: The file

    /// The error of the last write to the file; nil if it succeeded, or if the store has no file. The next change
    /// retries the write.
    public var savingFailure: HSTSStoreError? { state.withLock { $0.failure } }

    /// Saves the file now, and merges the changes of other processes. Blocks. Does nothing if the store has no file.
    public func save() throws(HSTSStoreError) {
        if let failure = queue.sync(execute: { write() }) { throw failure }
    }

    /// Marks a write as scheduled. Returns false if one is already scheduled.
    private static func schedule(_ state: inout State) -> Bool {
        defer { state.isScheduled = true }
        return !state.isScheduled
    }

    private func saveLater() {
        guard file != nil else { return }
        // The closure retains the store, so that no change is lost when the store is released.
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

/// An error that prevents the file of an `HSTSStore` from being used.
public enum HSTSStoreError: Error, Sendable, Hashable {
    /// The file cannot be read. The values are its path and the reason.
    case cannotRead(String, reason: String)
    /// The file cannot be written. The values are its path and the reason.
    case cannotWrite(String, reason: String)
    /// The file is damaged or not an HSTS file. The values are its path and the line number.
    case isDamaged(String, line: Int)
    /// Another user may have written the file, or can change it. The file has not been changed. The values are its path
    /// and the reason.
    case isUnsafe(String, reason: String)
}

extension HSTSStoreError: CustomStringConvertible {
    /// A sentence that describes the error.
    public var description: String {
        switch self {
        case .cannotRead(let path, let reason): "The HSTS file \(path) cannot be read: \(reason)"
        case .cannotWrite(let path, let reason): "The HSTS file \(path) cannot be written: \(reason)"
        case .isUnsafe(let path, let reason): "The HSTS file \(path) cannot be trusted: \(reason)"
        case .isDamaged(let path, let line):
            "The HSTS file \(path) is damaged at line \(line). Remove it to start with an empty one."
        }
    }
}
