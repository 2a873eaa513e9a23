import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import Foundation

/// A queue of requests that many processes share, on one machine or on many: some enqueue, and workers carry out.
///
/// ```swift
/// let queue = SharedQueue(store: .postgres("postgresql://queue@db.example.com/jobs"))
/// try await queue.enqueue(SharedRequest(OutboxRequest(request, body: .data(json))))
///
/// let worker = SharedQueueWorker(queue: queue, manager: manager)     // in another process
/// try await worker.run()
/// ```
///
/// ### What is promised
/// When `enqueue` has returned, the entries are in the database, all or none. Each is carried out at least once, unless it is
/// cancelled, or its deadline passes: a worker holds a lease, which it renews, and whose entry another one gets when it does
/// not. What a server sees twice carries the same `Idempotency-Key`. A file that a worker writes appears whole or not at all.
/// Entries of one host and tag begin in the order of their priority and age, as far as their dependencies, times and retries
/// allow; across hosts that order holds roughly.
///
/// The article "Sharing work" says what follows from that, and what a worker that was cut off may still do.
///
/// All members can be used from any thread. None blocks a thread of the caller's. A lost connection to the database is made
/// again for up to 30 seconds before a call fails with ``SharedQueueError/unavailable(_:)``.
public final class SharedQueue: Sendable {
    /// Where the entries are kept.
    public let store: SharedQueueStore
    /// Names of header fields that hold secrets, beside those that say so by their name: they are not stored.
    public let sensitiveHeaders: Set<String>
    let thread: StoreThread

    /// A queue. The database is opened by the first call that needs it.
    ///
    /// - Parameters:
    ///   - store: where the entries are kept.
    ///   - sensitiveHeaders: names of header fields that are not stored, beside those whose names say that they hold secrets.
    public init(store: SharedQueueStore, sensitiveHeaders: Set<String> = []) {
        (self.store, self.sensitiveHeaders) = (store, sensitiveHeaders)
        thread = StoreThread(open: store.open)
    }

    deinit { thread.close() }

    // MARK: Enqueuing

    /// Enqueues a request. When this returns, it is in the database.
    ///
    /// - Returns: the name of its entry: another one than the request's if an entry with the same ``SharedRequest/uniqueKey``
    ///   is there.
    /// - Throws: ``SharedQueueError``. After ``SharedQueueError/unavailable(_:)`` it may be there or not. Enqueuing the same
    ///   request, with the same `id`, again changes nothing.
    @discardableResult
    public func enqueue(_ request: SharedRequest) async throws(SharedQueueError) -> UUID {
        try await enqueue([request]).first ?? request.id
    }

    /// Enqueues requests in this order, all or none. They may depend on each other.
    ///
    /// - Returns: the names of their entries, in the same order.
    /// - Throws: ``SharedQueueError``; then none was enqueued.
    @discardableResult
    public func enqueue(_ requests: [SharedRequest]) async throws(SharedQueueError) -> [UUID] {
        let classifier = SecretClassifier(fields: sensitiveHeaders)
        let items = try requests.map { request throws(SharedQueueError) in try request.item(classifier) }
        return try await thread.perform { store throws(SharedQueueError) in
            do throws(SharedQueueError) {
                return try store.enqueue(items)
            } catch {
                guard case .duplicate(let id) = error else { throw error }
                // They were enqueued before, perhaps by a call whose answer was lost.
                var filter = WorkFilter()
                filter.ids = items.map(\.id)
                guard try store.list(filter, limit: items.count).count == items.count else { throw .duplicate(id) }
                return items.map(\.id)
            }
        }
    }

    /// Enqueues a group, and a request that runs once when all of its members have ended, whatever has become of them: the
    /// batch, across machines.
    ///
    /// - Parameters:
    ///   - requests: the members.
    ///   - group: its name.
    ///   - completion: gets the members as dependencies. Nil for none.
    /// - Returns: the names of the members' entries, in the same order.
    /// - Throws: ``SharedQueueError``; then none was enqueued.
    @discardableResult
    public func enqueue(
        _ requests: [SharedRequest], group: String, completion: SharedRequest? = nil
    ) async throws(SharedQueueError) -> [UUID] {
        var all = requests
        for index in all.indices { all[index].group = group }
        if var completion {
            completion.dependencies.formUnion(requests.map(\.id))
            completion.failedDependencyPolicy = .run
            all.append(completion)
        }
        return Array(try await enqueue(all).prefix(requests.count))
    }

    /// Waits until all entries of a group have ended. Looks at the database about once a second.
    ///
    /// - Returns: how many have ended in each state.
    /// - Throws: ``SharedQueueError``; `CancellationError`.
    public func waitForGroup(_ group: String) async throws -> [WorkState: Int] {
        var delay: UInt64 = 20_000_000
        while true {
            var filter = Filter()
            filter.group = group
            let counts = try await self.counts(filter)
            if counts.allSatisfy({ $0.key.isOver }) { return counts }
            try await Task.sleep(nanoseconds: delay)
            delay = min(delay * 2, 1_000_000_000)
        }
    }

    // MARK: Changing

    /// Cancels entries. What a worker has under way of them is cancelled within moments. Returns how many it were.
    @discardableResult
    public func cancel(_ filter: Filter) async throws(SharedQueueError) -> Int { try await apply(.cancel, filter) }

    /// Tries entries again that have failed or wait for their next attempt. Those that were cancelled or paused, wait for their
    /// time, or are held by a dependency that has failed, too, if the filter names them or their states. They get all of their
    /// attempts anew, and keep their `Idempotency-Key`. Returns how many it were.
    @discardableResult
    public func retry(_ filter: Filter) async throws(SharedQueueError) -> Int {
        var filter = filter
        if filter.ids == nil, filter.states == nil { filter.states = [.failed, .retrying] }
        return try await apply(.retry, filter)
    }

    /// Pauses entries. What a worker has under way of them is stopped, unless it must not be sent twice. Returns how many it
    /// were.
    @discardableResult
    public func pause(_ filter: Filter) async throws(SharedQueueError) -> Int { try await apply(.pause, filter) }

    /// Resumes entries. Returns how many it were.
    @discardableResult
    public func resume(_ filter: Filter) async throws(SharedQueueError) -> Int { try await apply(.resume, filter) }

    private func apply(_ change: WorkStanding.Change, _ filter: Filter) async throws(SharedQueueError) -> Int {
        let filter = filter.work
        return try await thread.perform { store throws(SharedQueueError) in try store.apply(change, to: filter) }
    }

    /// Removes entries that are over and have not changed for some seconds. Returns how many it were.
    @discardableResult
    public func purge(_ filter: Filter, olderThan age: TimeInterval = 0) async throws(SharedQueueError) -> Int {
        let (filter, age) = (filter.work, SharedRequest.microseconds(age))
        return try await thread.perform { store throws(SharedQueueError) in try store.purge(filter, olderThan: age) }
    }

    /// Pauses the whole queue: workers claim nothing. What is under way goes on.
    public func pause() async throws(SharedQueueError) {
        try await thread.perform { store throws(SharedQueueError) in try store.setPaused(true) }
    }

    /// Resumes the whole queue. Entries that were paused by themselves stay so.
    public func resume() async throws(SharedQueueError) {
        try await thread.perform { store throws(SharedQueueError) in try store.setPaused(false) }
    }

    // MARK: Hosts

    /// Limits what all workers together do at a host.
    ///
    /// - Parameters:
    ///   - limits: nil to take the limits of the host away, so that those of all hosts hold.
    ///   - host: as in a URL, with its port if that is not the scheme's own; nil for each host that has no limits of its own.
    public func setLimits(_ limits: HostLimits?, host: String? = nil) async throws(SharedQueueError) {
        let name = try host.map { host throws(SharedQueueError) in try Self.authority(host) } ?? WorkStore.everyHost
        try await thread.perform { store throws(SharedQueueError) in try store.setLimits(limits, host: name) }
    }

    /// Opens the gate of a host that has answered 429 or 503, before its time.
    public func openGate(host: String) async throws(SharedQueueError) {
        let name = try Self.authority(host)
        try await thread.perform { store throws(SharedQueueError) in try store.openGate(host: name) }
    }

    private static func authority(_ host: String) throws(SharedQueueError) -> String {
        guard let target = Target(host) ?? Target("https://\(host)") else {
            throw .unsuitableRequest("\(host.debugDescription) is no host.")
        }
        // Requests name neither 443, the port of https, nor 80, that of http.
        return target.port == 80 ? target.host : target.authority
    }

    /// Closes the connection after the calls that were made. Later ones fail with ``SharedQueueError/closed``.
    public func close() { thread.close() }
}

extension SharedQueue: CustomReflectable {
    /// The store's name.
    public var customMirror: Mirror { Mirror(self, children: ["store": store.name]) }
}
