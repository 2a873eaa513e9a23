import Foundation

/// An entry of a queue, with the state that is known only in this process.
struct QueueRecord: Sendable {
    let id: UUID
    /// The position of the entry in the queue; 0 until it is in the table.
    var sequence: Int64 = 0
    var request: StoredRequest
    var dependencies: Set<UUID>
    let tag: String?
    /// The time of the `enqueue` call, in microseconds since 1970.
    let enqueued: Int64
    var priority: Int
    var standing = WorkStanding()
    var progress = QueueProgress()

    /// Whether the entry is not on the disk yet, so that it is not reported.
    var isNew = false
    /// Whether the operation was added to the operation queue.
    var isStarted = false
    /// Whether the operation is executing, and the number of the change that reported this.
    var isExecuting = false
    var changeNumber: UInt32?

    init(
        id: UUID, request: StoredRequest, dependencies: Set<UUID>, policy: FailedDependencyPolicy, tag: String?,
        priority: Int, enqueued: Int64
    ) {
        self.id = id
        self.request = request
        self.dependencies = dependencies
        self.tag = tag
        self.priority = priority
        self.enqueued = enqueued
        standing.policy = policy
        standing.changed = enqueued
        // The operation counts its attempts, by its own policy.
        standing.maximumAttempts = .max
        standing.sendsAgain = request.sendsAgain
    }

    var isOver: Bool { standing.state.isOver }

    /// Whether a failed dependency keeps the entry from running.
    var isBlocked: Bool {
        standing.state == .held && !isStarted && standing.failedDependencies > 0 && standing.policy == .hold
    }

    /// Whether the request may have reached the server, and must not be sent again automatically.
    var hasUnknownOutcome: Bool { standing.state == .failed && standing.hasBegun && !standing.sendsAgain }

    var state: DownloadQueue.State {
        switch standing.state {
        case .done: .finished
        case .failed: hasUnknownOutcome ? .outcomeUnknown : .failed
        case .cancelled: .cancelled
        case .waiting, .held, .ready, .leased, .retrying, .paused:
            if isExecuting {
                .running
            } else if standing.state == .paused {
                .paused
            } else {
                isBlocked ? .blocked : .waiting
            }
        }
    }

    /// Whether the entry will end automatically once the queue is running.
    var isPending: Bool { state == .running || state == .waiting }

    /// The time of the next attempt, in microseconds since 1970; nil if no attempt has failed since the entry last began.
    var nextAttempt: Int64? { !isOver && standing.due > 0 ? standing.due : nil }

    /// Whether the entry waits for the time of its next attempt as stored by an earlier process.
    var isDelayed: Bool { nextAttempt != nil && !isStarted }
}

extension QueueRecord {
    /// Determines the state of an entry that is not in progress from its dependencies and times.
    mutating func place() {
        guard !isOver, standing.state != .paused, standing.state != .leased else { return }
        let changed = standing.changed
        standing.apply(.enqueue, now: QueueTable.now)
        standing.changed = changed
    }

    /// Begins or continues the operation, with the given number of new attempts.
    mutating func begin(_ worker: UUID, attempts: Int) {
        let isPaused = standing.state == .paused
        start(worker, attempts: max(0, attempts))
        // The entry was paused just when its operation began, which will be paused as well.
        if isPaused { standing.apply(.hold, now: QueueTable.now) }
    }

    private mutating func start(_ worker: UUID, attempts: Int) {
        standing.apply(.start(worker: worker, attempts: attempts), now: QueueTable.now)
    }

    /// Ends the entry.
    mutating func end(_ end: WorkReport.End, _ worker: UUID, error: String? = nil, statusCode: Int? = nil) {
        // The operation may have ended before it began, or just when the entry was paused.
        start(worker, attempts: 0)
        var report = WorkReport(id: id, worker: worker, lease: standing.lease, end: end)
        report.error = error
        report.statusCode = statusCode
        standing.apply(.report(report), now: QueueTable.now)
        standing.hasBegun = false
        progress.retries = 0
    }

    /// Ends an attempt without a result, because its process has ended or the queue is closing.
    mutating func takeBack() {
        guard standing.state == .leased else { return }
        let error = standing.error
        standing.apply(.expire, now: QueueTable.now)
        if !isOver { standing.error = error }
    }

    /// Makes an entry that has failed or waits for its next attempt ready again. By retrying, the user accepts that the
    /// request may be sent twice.
    mutating func retry() {
        let attempts = standing.attempts
        standing.apply(.retry, now: QueueTable.now)
        standing.attempts = attempts
        // Only the dependencies that have failed so far are ignored.
        standing.ignoresFailures = false
        standing.hasBegun = false
        standing.due = 0
        standing.error = nil
        standing.statusCode = nil
        progress.retries = 0
        progress.file = nil
    }

    /// Ends the wait for the next attempt.
    mutating func endDelay() {
        let now = QueueTable.now
        standing.due = min(standing.due, now)
        if standing.state == .waiting { standing.apply(.becomeDue, now: now) }
    }

    /// Determines the state of an entry restored from an earlier process.
    mutating func comeBack(_ worker: UUID, _ bodies: BodyFolder) {
        guard !isOver else { return }
        if let file = progress.file, file.isThere {
            // The process ended after the file had been moved to its destination, but before the queue recorded the move.
            request.removeJournal(ofCommitted: file.url)
            return end(.succeeded, worker)
        }
        progress.file = nil
        if standing.state != .leased, standing.hasBegun, !standing.sendsAgain {
            // The operation was paused after its request may have been sent.
            end(.failed, worker, error: WorkStanding.unknownOutcome)
            standing.hasBegun = true
            return
        }
        takeBack()
        if !isOver, let body = request.body, !bodies.contains(body) {
            end(.failed, worker, error: DownloadQueueError.bodyMissing(id).description)
        }
    }
}

/// What the operation of an entry has achieved so far, stored as the mark of its attempts.
struct QueueProgress: Sendable, Equatable, Codable {
    /// The number of consecutive retries without progress, from which the policy continues counting.
    var retries: Int64 = 0
    var received: Int64 = 0
    var expected: Int64?
    /// The file of a download that is complete.
    var file: FinishedFile?
}

extension QueueProgress {
    /// Decodes a mark; nil if it is invalid.
    init?(mark: String) {
        guard let progress = try? JSONDecoder().decode(Self.self, from: Data(mark.utf8)),
            progress.file?.url.isFileURL ?? true
        else { return nil }
        self = progress
    }

    var mark: String { (try? JSONEncoder().encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "" }
}

/// A change to the database.
enum QueueChange: Sendable {
    case insert([QueueRecord])
    case update(UUID, WorkStanding, QueueProgress)
    case setPriority(UUID, Int)
    /// The removal of an entry. Its dependents treat it as failed, unless it has finished.
    case remove(UUID, isFinished: Bool)
    /// The removal of dependencies of an entry.
    case removeDependencies(of: UUID, [UUID])
    case setPaused(Bool)
}
