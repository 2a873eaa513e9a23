import ConvoyDownloads
import ConvoySupport
import Foundation

/// What is in a queue.
extension SharedQueue {
    /// Which entries are meant: those that have all that is set.
    public struct Filter: Sendable, Hashable {
        /// Only these; nil for all.
        public var ids: [UUID]?
        /// Only those in these states; nil for all.
        public var states: Set<WorkState>?
        /// Only those with this tag.
        public var tag: String?
        /// Only those of this group.
        public var group: String?
        /// Only those for this host, with its port if that is not the scheme's own.
        public var host: String?

        /// All entries.
        public init() {}

        /// One entry.
        public init(id: UUID) { ids = [id] }

        var work: WorkFilter {
            var filter = WorkFilter()
            (filter.ids, filter.states, filter.tag, filter.batch, filter.host) = (ids, states, tag, group, host)
            return filter
        }
    }

    /// An entry as it was at a moment.
    public struct Entry: Sendable, Identifiable, Hashable {
        /// What kind of request it is.
        public enum Kind: String, Sendable, Hashable { case download, outbox, plain, upload }

        /// The name of the entry.
        public let id: UUID
        /// Its place in the order in which entries were enqueued.
        public let sequence: Int64
        /// What kind of request it is.
        public let kind: Kind
        /// The method of the request.
        public let method: String
        /// The URL of the request, without secrets.
        public let url: String
        /// The host and port by which limits count.
        public let host: String
        /// The tag that the request was given; nil for none.
        public let tag: String?
        /// The group that the entry belongs to; nil for none.
        public let group: String?
        /// The key by which the same work is there once; nil for none.
        public let uniqueKey: String?
        /// Where it is.
        public let state: WorkState
        /// From -8 to 8.
        public let priority: Int
        /// How many attempts have begun.
        public let attempts: Int
        /// After how many it fails for good.
        public let maximumAttempts: Int
        /// When it may start; of one that waits for its next attempt, when that is due.
        public let notBefore: Date
        /// By when it must have begun; nil for no limit.
        public let deadline: Date?
        /// The worker that has leased it; nil if none has.
        public let worker: UUID?
        /// The status of the last response; nil for none.
        public let statusCode: Int?
        /// The length of what the last attempt has brought, in bytes; nil if that is unknown.
        public let size: Int64?
        /// Why the last attempt has failed, without secrets; nil if it has not.
        public let errorDescription: String?
        /// When it was enqueued.
        public let enqueuedAt: Date
        /// When its state has changed last.
        public let changedAt: Date

        init(_ record: WorkRecord) {
            let standing = record.standing
            (id, sequence, method, host) = (record.id, record.sequence, record.method, record.host)
            url = Redaction.url(record.url)
            kind =
                switch record.kind {
                case .download: .download
                case .outbox: .outbox
                case .plain: .plain
                case .upload: .upload
                }
            (tag, group, uniqueKey) = (record.tag.isEmpty ? nil : record.tag, record.batch, record.uniqueKey)
            (state, priority) = (standing.state, record.priority)
            (attempts, maximumAttempts) = (standing.attempts, standing.maximumAttempts)
            (notBefore, deadline) = (Date(microseconds: standing.due), standing.deadline.map(Date.init(microseconds:)))
            (worker, statusCode, size) = (standing.worker, standing.statusCode, standing.size)
            errorDescription = standing.error
            (enqueuedAt, changedAt) = (Date(microseconds: record.enqueued), Date(microseconds: standing.changed))
        }
    }

    /// What is kept of the response of an entry.
    public struct Result: Sendable, Hashable {
        /// The header of the response, a field in each line; nil if it was not kept.
        public let header: String?
        /// The checksum of a body that was kept in the entry, such as `sha-256=…`.
        public let digest: String?
        /// The body; nil if it was not kept in the entry.
        public let body: Data?
        /// Where the body is, if it is a file or an object.
        public let place: String?
    }

    /// A worker.
    public struct Worker: Sendable, Identifiable, Hashable {
        /// Its name, a new one each time it starts.
        public let id: UUID
        /// Its machine and process, or what it was called.
        public let name: String
        /// How many entries it carries out at once.
        public let jobs: Int
        /// How many it has leased.
        public let leasedCount: Int
        /// When it started, and when it has renewed its leases last.
        public let startedAt: Date
        /// When it has renewed its leases last.
        public let seenAt: Date
    }

    /// What is known of a host.
    public struct Host: Sendable, Hashable {
        /// The host, with its port if that is not the scheme's own; `*` for the limits of all others.
        public let name: String
        /// What all workers together may do.
        public let limits: HostLimits
        /// Until when it is left alone; nil if it is not.
        public let closedUntil: Date?
    }

    /// The entries that a filter means, in the order in which they were enqueued.
    ///
    /// - Parameters:
    ///   - filter: which entries.
    ///   - place: the ``Entry/sequence`` behind which to go on; nil for the first ones.
    ///   - newestFirst: whether the order is the other way round.
    ///   - limit: how many at most; from 1 to 10,000.
    public func entries(
        _ filter: Filter = Filter(), behind place: Int64? = nil, newestFirst: Bool = false, limit: Int = 100
    ) async throws(SharedQueueError) -> [Entry] {
        let (filter, limit) = (filter.work, max(1, min(limit, 10_000)))
        return try await thread.perform { store throws(SharedQueueError) in
            try store.list(filter, behind: place, newestFirst: newestFirst, limit: limit)
        }.map(Entry.init)
    }

    /// An entry.
    ///
    /// - Throws: ``SharedQueueError/unknownEntry(_:)``.
    public func entry(_ id: UUID) async throws(SharedQueueError) -> Entry {
        guard let entry = try await entries(Filter(id: id), limit: 1).first else { throw .unknownEntry(id) }
        return entry
    }

    /// The entries that an entry depends on, and those that depend on it; at most 100 of each.
    public func dependencies(
        of id: UUID
    ) async throws(SharedQueueError) -> (dependencies: [UUID], dependents: [UUID]) {
        try await thread.perform { store throws(SharedQueueError) in
            let edges = try store.edges(of: id, limit: 100)
            return (dependencies: edges.needed, dependents: edges.dependents)
        }
    }

    /// What is kept of the response of an entry; nil if nothing is.
    public func result(of id: UUID) async throws(SharedQueueError) -> Result? {
        try await thread.perform { store throws(SharedQueueError) in try store.result(of: id) }.map { result in
            Result(header: result.head, digest: result.digest, body: result.body.map { Data($0) }, place: result.place)
        }
    }

    /// How many entries a filter means, by state. States without an entry are left out.
    public func counts(_ filter: Filter = Filter()) async throws(SharedQueueError) -> [WorkState: Int] {
        let filter = filter.work
        return try await thread.perform { store throws(SharedQueueError) in try store.counts(filter) }
    }

    /// How many entries that are not done there are for each host, by state: those of the 100 largest numbers.
    public func countsByHost() async throws(SharedQueueError) -> [String: [WorkState: Int]] {
        let rows = try await thread.perform { store throws(SharedQueueError) in try store.countsByHost(limit: 100) }
        return rows.reduce(into: [:]) { $0[$1.host, default: [:]][$1.state] = $1.count }
    }

    /// The workers that are alive.
    public func workers() async throws(SharedQueueError) -> [Worker] {
        try await thread.perform { store throws(SharedQueueError) in try store.workers() }.map { worker in
            Worker(
                id: worker.id, name: worker.name, jobs: worker.jobs, leasedCount: worker.leased,
                startedAt: Date(microseconds: worker.since), seenAt: Date(microseconds: worker.seen))
        }
    }

    /// The hosts that have limits, or are left alone; at most 1,000.
    public func hosts() async throws(SharedQueueError) -> [Host] {
        try await thread.perform { store throws(SharedQueueError) in try store.hosts() }.map { host in
            Host(name: host.host, limits: host.limits, closedUntil: host.gate.map(Date.init(microseconds:)))
        }
    }

    /// Whether the whole queue is paused.
    public func isPaused() async throws(SharedQueueError) -> Bool {
        try await thread.perform { store throws(SharedQueueError) in try store.isPaused() }
    }
}

extension Date {
    init(microseconds: Int64) { self.init(timeIntervalSince1970: Double(microseconds) / 1e6) }
}
