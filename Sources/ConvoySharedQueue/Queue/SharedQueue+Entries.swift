import ConvoySupport
import Foundation

/// The entries of a queue.
extension SharedQueue {
    /// A filter for the entries that match all of its properties that are set.
    public struct Filter: Sendable, Hashable {
        /// The identifiers of the entries; nil for all.
        public var ids: [UUID]?
        /// The states of the entries; nil for all.
        public var states: Set<WorkState>?
        /// The tag of the entries; nil for all.
        public var tag: String?
        /// The group of the entries; nil for all.
        public var group: String?
        /// The host of the entries as in a URL, with its port unless it is the scheme's default; nil for all.
        public var host: String?

        /// Creates a filter for all entries.
        public init() {}

        /// Creates a filter for one entry.
        public init(id: UUID) { ids = [id] }

        var work: WorkFilter {
            var filter = WorkFilter()
            filter.ids = ids
            filter.states = states
            filter.tag = tag
            filter.batch = group
            // `example.com:443` is the host of https as well as of http.
            filter.host = host
            filter.otherHost = host.flatMap { host in try? SharedQueue.authority(host) }
            return filter
        }
    }

    /// A snapshot of an entry.
    public struct Entry: Sendable, Identifiable, Hashable {
        /// The identifier of the entry.
        public let id: UUID
        /// The position of the entry in the order in which entries were enqueued.
        public let sequence: Int64
        /// The kind of the request.
        public let kind: WorkKind
        /// The method of the request.
        public let method: String
        /// The URL of the request, without secrets.
        public let url: String
        /// The host and port to which limits apply.
        public let host: String
        /// The tag of the request, if any.
        public let tag: String?
        /// The group of the entry, if any.
        public let group: String?
        /// The key that prevents duplicates, if any.
        public let uniqueKey: String?
        /// The current state.
        public let state: WorkState
        /// The priority, from -8 (very low) to 8 (very high).
        public let priority: Int
        /// The number of attempts that have begun.
        public let attempts: Int
        /// The number of attempts after which the entry fails permanently.
        public let maximumAttempts: Int
        /// The earliest start time; for a retry, the time of the next attempt.
        public let notBefore: Date
        /// The time by which the entry must have begun; nil for no deadline.
        public let deadline: Date?
        /// The worker that has leased the entry, if any.
        public let worker: UUID?
        /// The status of the last response, if any.
        public let statusCode: Int?
        /// The length of the result of the last attempt, in bytes; nil if unknown.
        public let size: Int64?
        /// The reason why the last attempt failed, without secrets; nil if it has not failed.
        public let errorDescription: String?
        /// The time of the `enqueue` call.
        public let enqueuedAt: Date
        /// The time of the last change in the state.
        public let changedAt: Date

        init(_ record: WorkRecord) {
            let standing = record.standing
            id = record.id
            sequence = record.sequence
            kind = record.kind
            method = record.method
            host = record.host
            url = Redaction.url(record.url)
            tag = record.tag.isEmpty ? nil : record.tag
            group = record.batch
            uniqueKey = record.uniqueKey
            state = standing.state
            priority = record.priority
            attempts = standing.attempts
            maximumAttempts = standing.maximumAttempts
            notBefore = Date(microseconds: standing.due)
            deadline = standing.deadline.map(Date.init(microseconds:))
            worker = standing.worker
            statusCode = standing.statusCode
            size = standing.size
            errorDescription = standing.error
            enqueuedAt = Date(microseconds: record.enqueued)
            changedAt = Date(microseconds: standing.changed)
        }
    }

    /// The stored part of an entry's response.
    public struct Response: Sendable, Hashable {
        /// The header of the response, one field per line; nil if it was not stored.
        public let header: String?
        /// The checksum of a body stored in the entry, such as `sha-256=…`.
        public let digest: String?
        /// The body; nil if it was not stored in the entry.
        public let body: Data?
        /// The URL of the body, if it is a file or an object.
        public let place: String?
    }

    /// A snapshot of a worker of the queue.
    public struct Worker: Sendable, Identifiable, Hashable {
        /// The identifier, which is new each time the worker starts.
        public let id: UUID
        /// The host and process of the worker, or a configured name.
        public let name: String
        /// The maximum number of concurrent entries.
        public let jobs: Int
        /// The number of leased entries.
        public let leasedCount: Int
        /// The time at which the worker started.
        public let startedAt: Date
        /// The time at which the worker last renewed its leases.
        public let seenAt: Date
    }

    /// The limits and state of a host.
    public struct Host: Sendable, Hashable {
        /// The host, with its port unless it is the scheme's default; `*` for the limits of all others.
        public let name: String
        /// The limits shared by all workers.
        public let limits: HostLimits
        /// The end of the time during which no request is sent to the host; nil if its gate is open.
        public let closedUntil: Date?
    }

    /// Returns the entries that match a filter, in the order in which they were enqueued.
    ///
    /// - Parameters:
    ///   - filter: The filter for the entries.
    ///   - place: The ``Entry/sequence`` after which to continue; nil for the first entries.
    ///   - newestFirst: Whether to reverse the order.
    ///   - limit: The maximum number of entries, from 1 to 10,000.
    public func entries(
        _ filter: Filter = Filter(), behind place: Int64? = nil, newestFirst: Bool = false, limit: Int = 100
    ) async throws(SharedQueueError) -> [Entry] {
        let (filter, limit) = (filter.work, max(1, min(limit, 10_000)))
        return try await thread.perform { store throws(SharedQueueError) in
            try store.list(filter, behind: place, newestFirst: newestFirst, limit: limit)
        }.map(Entry.init)
    }

    /// Returns the entries whose URL, tag, group, unique key or error contains a text, newest first. The case of ASCII
    /// letters is ignored. One call reads at most 20,000 entries, so that it takes a limited time in a long queue.
    ///
    /// - Parameters:
    ///   - text: The text, of which the first 200 characters count.
    ///   - filter: A filter for the entries.
    ///   - place: The ``Entry/sequence`` after which to continue; nil for the newest entries.
    ///   - limit: The maximum number of entries, from 1 to 10,000.
    /// - Returns: The entries, and the sequence number after which to continue; nil if there are no more entries.
    public func search(
        _ text: String, _ filter: Filter = Filter(), behind place: Int64? = nil, limit: Int = 100
    ) async throws(SharedQueueError) -> (entries: [Entry], next: Int64?) {
        let (filter, limit) = (filter.work, max(1, min(limit, 10_000)))
        let found = try await thread.perform { store throws(SharedQueueError) in
            let (records, next) = try store.search(text, filter, behind: place, limit: limit)
            return (records: records, next: next)
        }
        return (found.records.map(Entry.init), found.next)
    }

    /// Returns an entry.
    ///
    /// - Throws: ``SharedQueueError/unknownEntry(_:)``.
    public func entry(_ id: UUID) async throws(SharedQueueError) -> Entry {
        guard let entry = try await entries(Filter(id: id), limit: 1).first else { throw .unknownEntry(id) }
        return entry
    }

    /// Returns the dependencies and the dependents of an entry, at most 100 of each.
    public func dependencies(
        of id: UUID
    ) async throws(SharedQueueError) -> (dependencies: [UUID], dependents: [UUID]) {
        try await thread.perform { store throws(SharedQueueError) in
            let edges = try store.edges(of: id, limit: 100)
            return (dependencies: edges.needed, dependents: edges.dependents)
        }
    }

    /// Returns the stored part of an entry's response; nil if nothing was stored.
    public func result(of id: UUID) async throws(SharedQueueError) -> Response? {
        try await thread.perform { store throws(SharedQueueError) in try store.result(of: id) }.map { result in
            Response(header: result.head, digest: result.digest, body: result.body.map { Data($0) }, place: result.place)
        }
    }

    /// Returns the number of entries that match a filter, by state. States without entries are omitted.
    public func counts(_ filter: Filter = Filter()) async throws(SharedQueueError) -> [WorkState: Int] {
        let filter = filter.work
        return try await thread.perform { store throws(SharedQueueError) in try store.counts(filter) }
    }

    /// Returns the number of entries that are neither done nor cancelled, by host and state. Only the 100 largest
    /// numbers are included.
    public func countsByHost() async throws(SharedQueueError) -> [String: [WorkState: Int]] {
        let rows = try await thread.perform { store throws(SharedQueueError) in try store.countsByHost(limit: 100) }
        return rows.reduce(into: [:]) { $0[$1.host, default: [:]][$1.state] = $1.count }
    }

    /// Returns how long the entries that are ready have been able to start, in seconds, by host: the time since the
    /// oldest one was enqueued, or since its start time. Includes about 500 tags and hosts.
    public func readyAges() async throws(SharedQueueError) -> [String: TimeInterval] {
        try await thread.perform { store throws(SharedQueueError) in
            let now = try store.now()
            return try store.oldestReady().mapValues {
                Double(max(0, now.subtractingReportingOverflow($0).partialValue)) / 1e6
            }
        }
    }

    /// Returns the durations of the requests to hosts. About 100 hosts have their own; the others are counted under an
    /// empty name.
    public func durations() async throws(SharedQueueError) -> [String: RequestDurations] {
        try await thread.perform { store throws(SharedQueueError) in try store.durations().hosts }
    }

    /// Returns the workers that are alive.
    public func workers() async throws(SharedQueueError) -> [Worker] {
        try await thread.perform { store throws(SharedQueueError) in try store.workers() }.map { worker in
            Worker(
                id: worker.id, name: worker.name, jobs: worker.jobs, leasedCount: worker.leased,
                startedAt: Date(microseconds: worker.since), seenAt: Date(microseconds: worker.seen))
        }
    }

    /// Returns the hosts that have limits or a closed gate, at most 1,000.
    public func hosts() async throws(SharedQueueError) -> [Host] {
        try await thread.perform { store throws(SharedQueueError) in try store.hosts() }.map { host in
            Host(name: host.host, limits: host.limits, closedUntil: host.gate.map(Date.init(microseconds:)))
        }
    }

    /// Returns whether the whole queue is paused.
    public func isPaused() async throws(SharedQueueError) -> Bool {
        try await thread.perform { store throws(SharedQueueError) in try store.isPaused() }
    }
}

extension Date {
    init(microseconds: Int64) { self.init(timeIntervalSince1970: Double(microseconds) / 1e6) }
}
