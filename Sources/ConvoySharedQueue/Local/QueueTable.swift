import Foundation

/// The entries of a queue, their dependencies, and their next steps, as a value without locks, files or operations.
struct QueueTable: Sendable {
    /// An entry with the state that is known only in this process.
    struct Record: Sendable {
        var row: QueueRow
        /// Whether the row is not on the disk yet, so that the entry is not reported.
        var isNew = false
        /// Whether the operation was added to the operation queue.
        var isStarted = false
        /// Whether the entry is waiting for the time of the next attempt, as stored by an earlier process.
        var isDelayed = false
        /// Whether the operation is executing, and the number of the change that reported this.
        var isExecuting = false
        var changeNumber: UInt32?
        /// The number of dependencies that have not ended.
        fileprivate(set) var unfinished = 0
        /// The number of dependencies that have failed or no longer exist.
        fileprivate(set) var failed = 0

        var phase: QueueStatus.Phase { row.status.phase }

        /// Whether a failed dependency keeps the entry from running.
        var isBlocked: Bool { phase == .waiting && !isStarted && failed > 0 && row.policy == .hold }

        var state: DownloadQueue.State {
            switch phase {
            case .finished: .finished
            case .failed: .failed
            case .unknown: .outcomeUnknown
            case .waiting, .running, .finishing:
                if isExecuting { .running } else if row.status.isPaused { .paused } else { isBlocked ? .blocked : .waiting }
            }
        }

        /// Whether the entry will end automatically once the queue is running.
        var isPending: Bool { state == .running || state == .waiting }
    }

    /// The state of a dependency from the perspective of its dependents.
    private enum DependencyState { case unfinished, succeeded, failed }

    private var records: [UUID: Record] = [:]
    /// The dependents of each entry, including removed entries.
    private var dependents: [UUID: Set<UUID>] = [:]
    /// The number of pending entries.
    private(set) var pendingCount = 0
    private var nextSequence: Int64 = 1
    /// The entries that have changed since the last call of `takeChanges()`, with their previous states; nil for a new
    /// entry.
    private var changed: [UUID: DownloadQueue.State?] = [:]

    subscript(id: UUID) -> Record? { records[id] }

    /// The entries in order.
    var ordered: [Record] { records.values.sorted { $0.row.sequence < $1.row.sequence } }

    /// Reserves sequence numbers for the next entries, and returns the first one.
    mutating func takeSequence(_ count: Int) -> Int64 {
        defer { nextSequence += Int64(count) }
        return nextSequence
    }

    /// Reserves the sequence number of a row that is not in the table. Numbers above the limit need not be reserved.
    mutating func reserve(_ sequence: Int64) {
        if sequence <= QueueFile.largestNumber { nextSequence = max(nextSequence, sequence + 1) }
    }

    // MARK: Changing

    /// Adds entries. A dependency that does not exist and is not among them counts as failed.
    mutating func insert(_ new: [Record]) {
        for record in new {
            let (id, waiting) = (record.row.id, dependents[record.row.id] ?? [])
            records[id] = record
            nextSequence = max(nextSequence, record.row.sequence + 1)
            // Dependents may remain from an earlier entry with the same identifier that was removed.
            move(waiting, from: .failed, to: standing(of: id))
        }
        for record in new {
            for dependency in record.row.dependencies { dependents[dependency, default: []].insert(record.row.id) }
        }
        for record in new {
            let (unfinished, failed) = counts(record.row.dependencies)
            var record = record
            (record.unfinished, record.failed) = (unfinished, failed)
            records[record.row.id] = record
            if record.isPending { pendingCount += 1 }
        }
    }

    private func counts(_ dependencies: Set<UUID>) -> (unfinished: Int, failed: Int) {
        let standings = dependencies.map(standing)
        return (standings.count { $0 == .unfinished }, standings.count { $0 == .failed })
    }

    private func standing(of id: UUID) -> DependencyState {
        guard let record = records[id] else { return .failed }
        return switch record.phase {
        case .finished: .succeeded
        case .failed, .unknown: .failed
        case .waiting, .running, .finishing: .unfinished
        }
    }

    /// Changes an entry, and updates its dependents.
    ///
    /// - Returns: The entries that may be able to start now, or must fail.
    @discardableResult
    mutating func change(_ id: UUID, _ body: (inout Record) -> Void) -> Set<UUID> {
        guard var record = records[id] else { return [] }
        let (oldStanding, oldState, wasPending, wasNew) = (standing(of: id), record.state, record.isPending, record.isNew)
        body(&record)
        records[id] = record
        if record.isPending != wasPending { pendingCount += record.isPending ? 1 : -1 }
        if wasNew { changed[id] = .some(nil) } else if changed[id] == nil { changed[id] = oldState }
        let waiting = dependents[id] ?? []
        move(waiting, from: oldStanding, to: standing(of: id))
        return oldStanding == standing(of: id) ? [] : waiting
    }

    /// Updates the dependents of an entry whose state has changed.
    private mutating func move(_ dependents: Set<UUID>, from old: DependencyState, to new: DependencyState) {
        guard old != new else { return }
        for dependent in dependents {
            change(dependent) { record in
                record.unfinished += (new == .unfinished ? 1 : 0) - (old == .unfinished ? 1 : 0)
                record.failed += (new == .failed ? 1 : 0) - (old == .failed ? 1 : 0)
            }
        }
    }

    /// Removes an entry. Unless it has succeeded, it counts as a failed dependency from now on.
    ///
    /// - Returns: The entries that may be able to start now, or must fail.
    @discardableResult
    mutating func remove(_ id: UUID) -> Set<UUID> {
        guard let record = records[id] else { return [] }
        let (old, waiting) = (standing(of: id), dependents[id] ?? [])
        if old == .succeeded {
            for dependent in waiting { records[dependent]?.row.dependencies.remove(id) }
            dependents[id] = nil
        } else {
            move(waiting, from: old, to: .failed)
        }
        for dependency in record.row.dependencies { unregister(id, from: dependency) }
        if record.isPending { pendingCount -= 1 }
        records[id] = nil
        changed[id] = nil
        return old == .unfinished ? waiting : []
    }

    private mutating func unregister(_ id: UUID, from dependency: UUID) {
        dependents[dependency]?.remove(id)
        if dependents[dependency]?.isEmpty == true { dependents[dependency] = nil }
    }

    /// Removes an entry's dependencies that have failed or no longer exist, and returns them.
    mutating func forgetFailedDependencies(of id: UUID) -> [UUID] {
        let forgotten = (records[id]?.row.dependencies ?? []).filter { standing(of: $0) == .failed }
        for dependency in forgotten { unregister(id, from: dependency) }
        change(id) { record in
            record.row.dependencies.subtract(forgotten)
            record.failed = 0
        }
        return Array(forgotten)
    }

    // MARK: Queries

    /// The next step of an entry.
    enum EntryStep { case waits, starts, fails }

    func fate(of id: UUID) -> EntryStep {
        guard let record = records[id], record.phase == .waiting, !record.isStarted, !record.isNew,
            !record.isDelayed
        else { return .waits }
        if record.failed > 0, record.row.policy == .fail { return .fails }
        guard !record.row.status.isPaused, record.unfinished == 0, record.failed == 0 || record.row.policy == .run
        else { return .waits }
        return .starts
    }

    /// Returns the entries whose state has changed, in order, and resets the changes.
    mutating func takeChanges() -> [Record] {
        guard !changed.isEmpty else { return [] }
        defer { changed = [:] }
        return changed.compactMap { id, old in
            guard let record = records[id], !record.isNew, record.state != old else { return nil }
            return record
        }.sorted { $0.row.sequence < $1.row.sequence }
    }
}

/// A stored entry.
struct QueueRow: Sendable {
    let id: UUID
    /// The position of the entry in the queue.
    let sequence: Int64
    var request: StoredRequest
    var dependencies: Set<UUID>
    let policy: FailedDependencyPolicy
    let tag: String?
    /// The time of the `enqueue` call, in microseconds since 1970.
    let enqueued: Int64
    var status: QueueStatus
}

/// The part of a row that changes.
struct QueueStatus: Sendable, Equatable {
    enum Phase: Int64, Sendable {
        /// The entry is waiting and not in progress.
        case waiting = 0
        /// The operation has begun but not finished.
        case running = 1
        /// The file of a download is complete and about to be renamed to its final name.
        case finishing = 2
        case finished = 3
        case failed = 4
        /// The request may have reached the server and must not be sent again automatically.
        case unknown = 5

        /// Whether the entry does not continue automatically.
        var isOver: Bool { self == .finished || self == .failed || self == .unknown }
    }

    var phase = Phase.waiting
    var isPaused = false
    /// Whether an attempt has begun whose outcome was not stored, so that the request may have been sent.
    var mayHaveBeenSent = false
    var priority: Int64 = 0
    var attempts: Int64 = 0
    /// The number of consecutive retries without progress, from which the policy continues counting.
    var retries: Int64 = 0
    /// The time of the next attempt, in microseconds since 1970; nil if no attempt has failed since the entry last
    /// began.
    var next: Int64?
    var bytesReceived: Int64 = 0
    var bytesExpected: Int64?
    var error: String?
    var statusCode: Int64?
    var file: FinishedFile?
    /// The time of the last change of phase, in microseconds since 1970.
    var changed: Int64
}

/// A change to the database.
enum QueueChange: Sendable {
    case insert(QueueRow)
    case update(UUID, QueueStatus)
    case remove(UUID)
    /// The removal of a finished entry, which does not block its dependents.
    case removeFinished(UUID)
    /// The removal of dependencies of an entry.
    case removeDependencies(of: UUID, [UUID])
    case setPaused(Bool)
}
