import ConvoyOperations
import ConvoySupport
import Foundation

/// A queue of requests that many processes share, on one machine or several: some enqueue requests, and workers execute
/// them.
///
/// ```swift
/// let queue = SharedQueue(store: .postgres("postgresql://queue@db.example.com/jobs"))
/// try await queue.enqueue(SharedRequest(OutboxRequest(request, body: .data(json))))
///
/// let worker = SharedQueueWorker(queue: queue, manager: manager)     // in another process
/// try await worker.run()
/// ```
///
/// ### Guarantees
///
/// When `enqueue` returns, either all of the entries are in the database, or none. Each entry is executed at least
/// once, unless it is cancelled or its deadline passes: a worker holds a lease on the entry, and if the worker stops
/// renewing the lease, another worker gets the entry. If a server receives a request twice, both have the same
/// `Idempotency-Key`. A file written by a worker appears only when complete. Entries with the same host and tag begin
/// in the order of their priority and age, as far as their dependencies, times and retries allow. Across hosts this
/// order is approximate.
///
/// The article "Sharing work" explains the consequences, and what a disconnected worker may still do.
///
/// All members can be used on any thread, and none blocks the calling thread. A lost connection to the database is
/// reestablished for up to 30 seconds before a call fails with ``SharedQueueError/unavailable(_:)``.
public final class SharedQueue: Sendable {
    /// The store of the entries.
    public let store: SharedQueueStore
    /// The names of secret header fields, in addition to those recognized by their names. They are not stored.
    public let sensitiveHeaders: Set<String>
    let thread: StoreThread

    /// Creates a queue. The database is opened by the first call that needs it.
    ///
    /// - Parameters:
    ///   - store: The store of the entries.
    ///   - sensitiveHeaders: The names of header fields not to store, in addition to those
    ///     recognized as secret by their names.
    public init(store: SharedQueueStore, sensitiveHeaders: Set<String> = []) {
        self.store = store
        self.sensitiveHeaders = sensitiveHeaders
        thread = StoreThread(open: store.open)
    }

    deinit { thread.close() }

    // MARK: Enqueuing

    /// Enqueues a request. When this returns, the request is in the database.
    ///
    /// - Returns: The identifier of the request's entry. It differs from the request's identifier if an entry with the
    ///   same ``SharedRequest/uniqueKey`` exists.
    /// - Throws: ``SharedQueueError``. After ``SharedQueueError/unavailable(_:)``, the request may or may not have been
    ///   enqueued. Enqueuing the same request with the same `id` again changes nothing.
    @discardableResult
    public func enqueue(_ request: SharedRequest) async throws(SharedQueueError) -> UUID {
        try await enqueue([request]).first ?? request.id
    }

    /// Enqueues all of the requests, in the given order, or none of them. They may depend on each other.
    ///
    /// - Returns: The identifiers of their entries, in the same order.
    /// - Throws: ``SharedQueueError``, in which case nothing was enqueued.
    @discardableResult
    public func enqueue(_ requests: [SharedRequest]) async throws(SharedQueueError) -> [UUID] {
        let classifier = SecretClassifier(fields: sensitiveHeaders)
        let items = try requests.map { request throws(SharedQueueError) in try request.item(classifier) }
        return try await thread.perform { store throws(SharedQueueError) in try store.enqueue(items) }
    }

    /// Enqueues a group, and a request that runs once when all members have ended, whatever their outcome: a batch
    /// across machines.
    ///
    /// - Parameters:
    ///   - requests: The members.
    ///   - group: The name of the group.
    ///   - completion: A request that gets the members as dependencies; nil for none.
    /// - Returns: The identifiers of the members' entries, in the same order.
    /// - Throws: ``SharedQueueError``, in which case nothing was enqueued.
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

    /// Waits until all entries of a group have ended. Polls the database about once a second.
    ///
    /// - Returns: The number of entries that have ended, by state.
    /// - Throws: ``SharedQueueError``; `CancellationError`.
    public func waitForGroup(_ group: String) async throws -> [WorkState: Int] {
        var filter = Filter()
        filter.group = group
        return try await poll { [filter] in
            let counts = try await self.counts(filter)
            return counts.allSatisfy { $0.key.isOver } ? counts : nil
        }
    }

    /// Waits until an entry has ended, and returns it. Polls the database about once a second. The stored part of the
    /// response is available from ``result(of:)``.
    ///
    /// - Throws: ``SharedQueueError``, such as ``SharedQueueError/unknownEntry(_:)`` if the entry is removed in the
    ///   meantime; `CancellationError`.
    public func waitForEntry(_ id: UUID) async throws -> Entry {
        try await poll {
            let entry = try await self.entry(id)
            return entry.state.isOver ? entry : nil
        }
    }

    private func poll<Value: Sendable>(_ look: @Sendable () async throws -> Value?) async throws -> Value {
        var delay: UInt64 = 20_000_000
        while true {
            if let value = try await look() { return value }
            try await Task.sleep(nanoseconds: delay)
            delay = min(delay * 2, 1_000_000_000)
        }
    }

    // MARK: Changing

    /// Cancels entries, and returns their number. Workers stop running entries shortly afterwards.
    @discardableResult
    public func cancel(_ filter: Filter) async throws(SharedQueueError) -> Int { try await apply(.cancel, filter) }

    /// Retries entries that have failed or wait for their next attempt, and returns their number. If the filter
    /// specifies identifiers or states, this includes entries that were cancelled or paused, wait for their start time,
    /// or are held by a failed dependency. Retried entries get all their attempts again, and keep their
    /// `Idempotency-Key`. An entry whose unique key belongs to another entry by now is left unchanged.
    ///
    /// - Throws: ``SharedQueueError/duplicateKey(_:)`` if the filter has only the identifier of such an entry.
    @discardableResult
    public func retry(_ filter: Filter) async throws(SharedQueueError) -> Int {
        var filter = filter
        if filter.ids == nil, filter.states == nil { filter.states = [.failed, .retrying] }
        return try await apply(.retry, filter)
    }

    /// Pauses entries, and returns their number. Workers stop running entries, unless they must not be sent twice.
    @discardableResult
    public func pause(_ filter: Filter) async throws(SharedQueueError) -> Int { try await apply(.pause, filter) }

    /// Resumes entries, and returns their number.
    @discardableResult
    public func resume(_ filter: Filter) async throws(SharedQueueError) -> Int { try await apply(.resume, filter) }

    /// Changes the earliest start time of entries that are not running and have not ended, and returns their number. An
    /// entry that waits for its next attempt makes it at that time.
    @discardableResult
    public func reschedule(_ filter: Filter, notBefore: Date) async throws(SharedQueueError) -> Int {
        try await apply(.reschedule(delay: SharedRequest.microseconds(notBefore.timeIntervalSinceNow)), filter)
    }

    private func apply(_ change: WorkStanding.Change, _ filter: Filter) async throws(SharedQueueError) -> Int {
        let filter = filter.work
        return try await thread.perform { store throws(SharedQueueError) in try store.apply(change, to: filter) }
    }

    /// Removes entries that have ended and have not changed for the given number of seconds, and returns their number.
    @discardableResult
    public func purge(_ filter: Filter, olderThan age: TimeInterval = 0) async throws(SharedQueueError) -> Int {
        let (filter, age) = (filter.work, SharedRequest.microseconds(age))
        return try await thread.perform { store throws(SharedQueueError) in try store.purge(filter, olderThan: age) }
    }

    /// Pauses the whole queue: workers do not claim entries. Running entries continue.
    public func pause() async throws(SharedQueueError) {
        try await thread.perform { store throws(SharedQueueError) in try store.setPaused(true) }
    }

    /// Resumes the whole queue, except individually paused entries.
    public func resume() async throws(SharedQueueError) {
        try await thread.perform { store throws(SharedQueueError) in try store.setPaused(false) }
    }

    // MARK: Hosts

    /// Sets the limits that all workers share for a host.
    ///
    /// - Parameters:
    ///   - limits: The limits; nil to remove those of the host, so that the limits of all hosts
    ///     apply.
    ///   - host: The host as in a URL, with its port unless it is the scheme's default; nil for all
    ///     hosts without individual limits.
    public func setLimits(_ limits: HostLimits?, host: String? = nil) async throws(SharedQueueError) {
        let name = try host.map { host throws(SharedQueueError) in try Self.authority(host) } ?? WorkStore.everyHost
        try await thread.perform { store throws(SharedQueueError) in try store.setLimits(limits, host: name) }
    }

    /// Sets the limits that all workers share for a tag, in addition to those of hosts. ``HostLimits/retryShare`` has no
    /// effect.
    ///
    /// - Parameters:
    ///   - limits: The limits; nil to remove them.
    ///   - tag: The tag; an empty string for entries without a tag.
    public func setLimits(_ limits: HostLimits?, tag: String) async throws(SharedQueueError) {
        let tag = try SharedRequest.name(tag, "tag")
        try await thread.perform { store throws(SharedQueueError) in try store.setLimits(limits, tag: tag) }
    }

    /// Changes some of the limits of a tag, and keeps the others, in one transaction.
    ///
    /// - Parameters:
    ///   - tag: The tag; an empty string for entries without a tag.
    ///   - change: A closure that changes the limits. It may be called several times.
    /// - Returns: The new limits.
    @discardableResult
    public func changeLimits(
        tag: String, _ change: @escaping @Sendable (inout HostLimits) -> Void
    ) async throws(SharedQueueError) -> HostLimits {
        let tag = try SharedRequest.name(tag, "tag")
        return try await thread.perform { store throws(SharedQueueError) in try store.changeLimits(tag: tag, change) }
    }

    /// Returns the tags that have limits, at most 1,000.
    public func tagLimits() async throws(SharedQueueError) -> [String: HostLimits] {
        try await thread.perform { store throws(SharedQueueError) in try store.tagLimits() }
    }

    /// Changes some of the limits that all workers share for a host, and keeps the others, in one transaction. If no
    /// limit is left, those of all hosts apply to the host.
    ///
    /// - Parameters:
    ///   - host: The host, as in ``setLimits(_:host:)``.
    ///   - change: A closure that changes the limits. It may be called several times.
    /// - Returns: The new limits.
    @discardableResult
    public func changeLimits(
        host: String? = nil, _ change: @escaping @Sendable (inout HostLimits) -> Void
    ) async throws(SharedQueueError) -> HostLimits {
        let name = try host.map { host throws(SharedQueueError) in try Self.authority(host) } ?? WorkStore.everyHost
        return try await thread.perform { store throws(SharedQueueError) in try store.changeLimits(host: name, change) }
    }

    /// Opens the gate of a host early, after the host has responded with 429 or 503.
    public func openGate(host: String) async throws(SharedQueueError) {
        let name = try Self.authority(host)
        try await thread.perform { store throws(SharedQueueError) in try store.openGate(host: name) }
    }

    /// Returns the host of requests as it is stored. Throws an error for anything else, such as a pattern.
    package static func authority(_ host: String) throws(SharedQueueError) -> String {
        guard let target = Target(host) ?? Target("https://\(host)"), !target.host.contains("*") else {
            throw .unsuitableRequest("Invalid host \(host.debugDescription): use a host, with its port if necessary.")
        }
        // Requests omit the default ports 443 (https) and 80 (http).
        return target.port == 80 ? target.host : target.authority
    }

    /// Closes the connection after all pending calls. Later calls fail with ``SharedQueueError/closed``.
    public func close() { thread.close() }
}

extension SharedQueue: OpaqueReflectable {
    package var shownChildren: KeyValuePairs<String, Any> { ["store": store.name] }
}
