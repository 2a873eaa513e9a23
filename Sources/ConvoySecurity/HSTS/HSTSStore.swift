import ConvoySupport
import Foundation

/// Remembers which hosts have said that they are to be reached over TLS only, and for how long (RFC 6797).
///
/// Given to a `ConnectionConfiguration`, it takes the `Strict-Transport-Security` field of responses over TLS, and
/// requests to such hosts are sent over https, whatever their URL says. One store can serve any number of
/// configurations, and its methods can be called from any thread.
///
/// A store with a file writes it a moment after a change, on a thread of its own. Several processes can share the file:
/// each adds what it has noted to what is there, and takes over what others have noted when it writes.
public final class HSTSStore: Sendable {
    private struct State {
        var records: HSTSRecords
        /// Whether the file is about to be written.
        var isScheduled = false
        var failure: HSTSStoreError?
    }

    private let state: Locked<State>
    private let file: HSTSFile?
    private let queue: DispatchQueue
    /// Milliseconds since 1970.
    private let now: @Sendable () -> Int64

    /// A store that is empty, and forgotten with its object.
    ///
    /// - Parameter maximumHostCount: how many hosts are remembered. Where there are more, those go first whose domain has
    ///   most of them.
    public convenience init(maximumHostCount: Int = 4096) {
        self.init(HSTSRecords(limit: max(1, maximumHostCount)), nil)
    }

    /// A store with the hosts of a file, in which it keeps them.
    ///
    /// Reading the file blocks. It must be this user's or root's, and others must not be able to write to it. What is made
    /// has the mode 0600 and replaces the file as a whole; it has a random name in the same directory until it is complete.
    ///
    /// - Parameters:
    ///   - file: where; it need not be there, but its directory must be.
    ///   - maximumHostCount: how many hosts are remembered.
    /// - Throws: `HSTSStoreError` for a file that cannot be read, is damaged or cannot be trusted. It is left as it is.
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

    /// Whether a host is to be reached over TLS only: because it said so, or because a host did that speaks for all names
    /// below its own. Never true for an IP address.
    public func requiresTLS(forHost host: String) -> Bool {
        guard let name = HSTSRecords.name(of: host) else { return false }
        let now = now() / 1000
        return state.withLock { $0.records.requiresTLS(name, at: now) }
    }

    /// Takes what a host has said.
    ///
    /// To be called only for a response over TLS whose certificate was validated: connections of a configuration with
    /// this store see to that.
    ///
    /// - Parameters:
    ///   - value: of the first `Strict-Transport-Security` field of the response. `max-age=0` takes it back.
    ///   - host: of the URL.
    /// - Returns: false for a value that is not valid, and for an IP address, which both change nothing.
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

    /// Forgets a host. It can be reached without TLS until it says again that it cannot, if no name above its own is
    /// known that speaks for it.
    public func remove(host: String) {
        guard let name = HSTSRecords.name(of: host) else { return }
        let now = now()
        let isDue = state.withLock { state in
            state.records.withdraw(name, at: now)
            return Self.schedule(&state)
        }
        if isDue { saveLater() }
    }

    /// The hosts that are known now, in the order of their names.
    public var hosts: [HSTSHost] {
        let now = now() / 1000
        return state.withLock { $0.records.hosts(at: now) }
    }

    // MARK: The file

    /// Why the file could not be written the last time; nil if it could, or if there is none. What it lacks is written with
    /// the next change.
    public var savingFailure: HSTSStoreError? { state.withLock { $0.failure } }

    /// Writes what is not in the file yet, and takes over what other processes have added. Blocks; of no effect without a
    /// file.
    public func save() throws(HSTSStoreError) {
        if let failure = queue.sync(execute: { write() }) { throw failure }
    }

    /// Whether the file must be written, and nobody is about to.
    private static func schedule(_ state: inout State) -> Bool {
        defer { state.isScheduled = true }
        return !state.isScheduled
    }

    private func saveLater() {
        guard file != nil else { return }
        // The store is retained until then, so that nothing is lost with the last reference to it.
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
