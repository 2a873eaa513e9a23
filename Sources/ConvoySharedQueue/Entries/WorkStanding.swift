import Foundation

/// The status of an entry: a pure state machine. Stores read it, apply an event, and write it back in one transaction.
///
/// Times are in microseconds since 1970 on the store's clock.
package struct WorkStanding: Sendable, Hashable {
    package var state = WorkState.ready
    /// The number of dependencies that have not ended.
    package var openDependencies = 0
    /// The number of dependencies that failed or were cancelled.
    package var failedDependencies = 0
    package var policy = FailedDependencyPolicy.hold
    /// Whether the entry runs without its failed dependencies, because it was retried manually.
    package var ignoresFailures = false
    /// The earliest start time.
    package var due: Int64 = 0
    /// The time at which the entry fails unless it has begun; nil for no deadline.
    package var deadline: Int64?
    /// The number of attempts that have begun.
    package var attempts = 0
    package var maximumAttempts = 1
    /// Whether the request may be sent again if it is unknown whether it has arrived.
    package var sendsAgain = true
    /// Whether the request of the current attempt may have been sent. A ``SharedQueue`` sets it only for entries that are
    /// not sent again.
    package var hasBegun = false
    /// The number of the last lease, which identifies reports of a worker that has lost its lease.
    package var lease: Int64 = 0
    /// The worker that has leased the entry.
    package var worker: UUID?
    /// The status of the last response.
    package var statusCode: Int?
    /// The length of the result, in bytes.
    package var size: Int64?
    /// The reason why the last attempt failed, without secrets.
    package var error: String?
    /// The time for which the entry is kept after it has ended without failing, in microseconds; nil for no limit.
    package var kept: Int64?
    /// The time at which the entry is removed.
    package var expires: Int64?
    package var changed: Int64 = 0
    /// The position in the order of claims. A repeated attempt moves the entry back by the delay, behind those that have
    /// become due in the meantime.
    package var rank: Int64 = 0

    package init() {}

    /// A change to an entry.
    package enum Change: Sendable, Equatable {
        case enqueue
        case becomeDue
        /// The numbers of dependencies have changed by the given amounts.
        case dependencies(open: Int, failed: Int)
        /// A dependency that had failed will be removed, so it will not be retried.
        case dependencyRemoval
        case claim(worker: UUID)
        /// The request of the entry is about to be sent.
        case begin(lease: Int64)
        /// An operation of a ``DownloadQueue`` begins, or continues after a pause or a delay, with the given number of new
        /// attempts. The operation exists as long as the entry, so it does not wait for a claim.
        case start(worker: UUID, attempts: Int)
        /// An operation of a ``DownloadQueue`` pauses. It may keep its connection, so its request may have been sent.
        case hold
        case report(WorkReport)
        case release(worker: UUID, lease: Int64)
        case expire
        case passDeadline
        /// The entry starts the given number of microseconds from now, or later.
        case reschedule(delay: Int64)
        case cancel, retry, pause, resume
    }

    /// The outcome of an entry, as seen by its dependents.
    package enum Outcome: Sendable { case succeeded, failed }

    /// The outcome; nil for an entry that has not ended.
    package var outcome: Outcome? {
        switch state {
        case .done: .succeeded
        case .failed, .cancelled: .failed
        default: nil
        }
    }

    /// Returns the changes to a dependent's counts when the outcome of an entry changes.
    package static func counts(from old: Outcome?, to new: Outcome?) -> (open: Int, failed: Int) {
        (
            (new == nil ? 1 : 0) - (old == nil ? 1 : 0),
            (new == .failed ? 1 : 0) - (old == .failed ? 1 : 0)
        )
    }

    /// Applies a change.
    ///
    /// - Returns: False if the change is not allowed in this state, or comes from a worker that has lost its lease. The
    ///   entry is then unchanged.
    @discardableResult
    package mutating func apply(_ change: Change, now: Int64) -> Bool {
        var next = self
        guard next.carryOut(change, now), let event = change.event(next) else { return false }
        if case .dependencies = change, next.state == state {
            // Only the counts have changed.
        } else {
            let from = event == .enqueue ? nil : Optional(state)
            guard WorkState.transitions.contains(.init(event: event, from: from, to: next.state)) else { return false }
            // While an entry is leased, this is the time of its claim, which identifies the probe of an overloaded host.
            if event != .begin { next.changed = now }
            // A failed entry is kept until somebody has looked at it.
            next.expires = next.state == .done || next.state == .cancelled ? kept.map { Self.sum(now, $0) } : nil
        }
        if next.state != .leased { next.worker = nil }
        self = next
        return true
    }

    private mutating func carryOut(_ change: Change, _ now: Int64) -> Bool {
        switch change {
        case .enqueue, .resume: place(now)
        case .becomeDue:
            guard due <= now else { return false }
            place(now)
        case .dependencies(let open, let failed):
            openDependencies += open
            failedDependencies += failed
            switch state {
            case .held: place(now)
            // A dependency runs again.
            case .waiting, .ready, .retrying: if openDependencies > 0 { state = .held }
            default: break
            }
        case .dependencyRemoval:
            guard failedDependencies > 0, !ignoresFailures, policy != .run else { return false }
            fail("A dependency failed and was removed.")
        case .claim(let worker):
            // The clock may have been set back since the entry became ready.
            due = min(due, now)
            place(now)
            guard state == .ready else { return true }
            state = .leased
            self.worker = worker
            lease &+= 1
            attempts += 1
            hasBegun = false
        case .begin(let lease):
            guard state == .leased, self.lease == lease else { return false }
            hasBegun = true
        case .start(let worker, let count):
            state = .leased
            self.worker = worker
            lease &+= 1
            hasBegun = true
            due = 0
            attempts = attempts.addingReportingOverflow(count).partialValue
        case .hold: state = .paused
        case .report(let report):
            guard state == .leased, lease == report.lease, worker == report.worker else { return false }
            conclude(report, now)
        case .release(let worker, let lease):
            guard state == .leased, self.lease == lease, self.worker == worker else { return false }
            // Nothing is known about the attempt, except that it will not be reported.
            if mayHaveArrived {
                fail(Self.unknownOutcome)
            } else {
                attempts -= 1
                place(now)
            }
        case .expire:
            if mayHaveArrived {
                fail(Self.unknownOutcome)
            } else if attempts >= maximumAttempts {
                fail("The worker ended or was disconnected during the last of \(attempts) attempts.")
            } else {
                error = "The worker ended or was disconnected."
                place(now)
            }
        case .passDeadline:
            guard let deadline, deadline <= now else { return false }
            fail("The deadline has passed.")
        case .reschedule(let delay):
            due = Self.sum(now, max(0, delay))
            if state != .paused { place(now) }
        case .cancel: state = .cancelled
        case .retry:
            // An entry with dependencies that have not ended continues to wait for them.
            ignoresFailures = true
            attempts = 0
            due = min(due, now)
            if let deadline, deadline <= now { self.deadline = nil }
            place(now)
        case .pause:
            // Do not pause a request that may have been sent and is not sent again: its outcome would be unknown.
            if state == .leased, mayHaveArrived { return false }
            state = .paused
        }
        return true
    }

    /// Whether the current attempt may have sent a request that must not be sent again.
    private var mayHaveArrived: Bool { !sendsAgain && hasBegun }

    /// Determines the state of an entry that is not in progress. Only an entry that may be claimed becomes ready.
    private mutating func place(_ now: Int64) {
        if let deadline, deadline <= now {
            fail("The deadline has passed.")
        } else if openDependencies > 0 {
            state = .held
        } else if failedDependencies > 0, !ignoresFailures, policy != .run {
            if policy == .fail { fail("A dependency failed.") } else { state = .held }
        } else {
            state = due > now ? .waiting : .ready
        }
    }

    private mutating func conclude(_ report: WorkReport, _ now: Int64) {
        statusCode = report.statusCode
        size = report.size
        error = report.error
        switch report.end {
        case .succeeded: state = .done
        case .failed: state = .failed
        case .failedForNow(let delay):
            postpone(delay, now)
            if attempts >= maximumAttempts {
                state = .failed
            } else if let deadline, due > deadline {
                fail("\(report.error ?? "The attempt failed.") The next attempt would be after the deadline.")
            } else {
                state = openDependencies > 0 ? .held : .retrying
            }
        case .returned(let delay):
            attempts -= 1
            postpone(delay, now)
            // Entries that this worker can execute come first, including those enqueued later.
            if delay > 0 { rank = max(rank, Self.sum(due, Self.priorityStep)) }
            place(now)
            if state == .waiting { state = .retrying }
        }
    }

    /// The time by which each step of priority moves an entry forward, in microseconds: 15 minutes.
    static let priorityStep: Int64 = 900_000_000

    private mutating func postpone(_ delay: Int64, _ now: Int64) {
        let old = due
        due = Self.sum(now, max(0, delay))
        rank = Self.sum(rank, max(0, due.subtractingReportingOverflow(old).partialValue))
    }

    private mutating func fail(_ reason: String) {
        state = .failed
        error = reason
    }

    /// The error of a request if it is unknown whether it has arrived.
    package static let unknownOutcome =
        "The request may have reached the server and must not be sent again automatically."

    private static func sum(_ one: Int64, _ other: Int64) -> Int64 {
        let (sum, overflow) = one.addingReportingOverflow(other)
        return overflow ? .max : sum
    }
}

extension WorkStanding.Change {
    /// Returns the event that corresponds to the change.
    fileprivate func event(_ next: WorkStanding) -> WorkState.Trigger? {
        switch self {
        case .enqueue: .enqueue
        case .becomeDue: .becomeDue
        case .dependencies: .dependencyChange
        case .dependencyRemoval: .dependencyRemoval
        case .claim: .claim
        case .begin: .begin
        case .start: .start
        case .report(let report):
            switch report.end {
            case .succeeded: .succeed
            case .failed: .failForGood
            case .failedForNow: .failForNow
            case .returned: .release
            }
        case .release: .release
        case .expire: .expire
        case .passDeadline: .passDeadline
        case .reschedule: .reschedule
        case .cancel: .cancel
        case .retry: .retry
        case .hold, .pause: .pause
        case .resume: .resume
        }
    }
}

/// A worker's report on a completed attempt.
package struct WorkReport: Sendable, Equatable {
    package enum End: Sendable, Equatable {
        case succeeded
        /// The next attempt may begin after the given number of microseconds.
        case failedForNow(delay: Int64)
        case failed
        /// The worker has not sent the request, because it cannot: another worker may, after the given number of
        /// microseconds. The attempt does not count.
        case returned(delay: Int64)
    }

    package var id: UUID
    package var worker: UUID
    package var lease: Int64
    package var end: End
    package var statusCode: Int?
    package var size: Int64?
    /// The reason why the attempt failed, without secrets.
    package var error: String?
    /// The time for which workers must not send requests to the host, in microseconds, as specified by its
    /// `Retry-After`.
    package var gate: Int64?
    /// Whether the host responded with 429 or 503 without specifying a time, or refused the connection.
    package var isOverloaded = false
    /// The stored part of the response, in addition to the status; nil if nothing is stored.
    package var result: WorkResult?

    package init(id: UUID, worker: UUID, lease: Int64, end: End) {
        self.id = id
        self.worker = worker
        self.lease = lease
        self.end = end
    }
}

/// The stored part of a response.
package struct WorkResult: Sendable, Equatable {
    /// The header fields, one per line.
    package var head: String?
    /// The checksum of the body, such as `sha-256=…`.
    package var digest: String?
    /// A body stored in the entry.
    package var body: [UInt8]?
    /// The URL of the file or object with the body, if the body is not stored in the entry.
    package var place: String?

    package init() {}
}
