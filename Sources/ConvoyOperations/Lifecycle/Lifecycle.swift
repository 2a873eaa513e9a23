import Synchronization

/// The lifecycle of an operation as a value: its state, what it still waits for, and the effect of each event.
///
/// It uses no locks and no I/O. Only `handle(_:)` changes the lifecycle. It returns the action that the operation must
/// perform. Every interleaving is a sequence of `handle(_:)` calls, and the tests run all of them.
///
/// | from \ to | ready | executing | paused | finished |
/// |---|---|---|---|---|
/// | ready | | start | pause | cancel, expire |
/// | executing | retry | | pause | done, failed, cancelled, expired |
/// | paused | resume | | | cancel, expire |
/// | finished | | | | |
///
/// A change and the action that it requires are two steps, and other threads may make any number of changes in between.
/// So each attempt has a number, and every call that begins, stops or ends work specifies its attempt. A late or early
/// call is recognized by its number, and has no effect.
///
/// `pause` stops the work, and the next attempt repeats it. `hold` pauses work that must not be done twice: the work
/// remains in progress while the operation is paused, and continues when the operation is started again.
///
/// While the output stream is being committed, a cancellation or an expiry is only recorded. The operation then
/// finishes with the result of the commit, and does not count as cancelled. If the commit takes too long, it is
/// abandoned, and the cancellation or expiry takes effect.
package struct Lifecycle: Hashable, Sendable {
    /// The number of an attempt at the request. It grows by one each time work begins, and wraps around at 65,536.
    package typealias AttemptNumber = UInt16

    /// The state of the current attempt's work: preparing the request, transferring it, and processing the response.
    package enum Work: UInt8, Sendable, CaseIterable {
        /// The work has not begun, or was stopped.
        case none
        /// The work is in progress. It ends with `workCompleted`. It is held while the operation is not executing.
        case running
        /// The work is in progress, and a stop was requested. It ends with `workStopped`, or with `workCompleted` if
        /// that event arrives first.
        case stopping
        /// The work is complete. A paused operation withholds the outcome until it is resumed.
        case complete
        /// The bytes are being moved to their final destination. The work ends with `workCompleted`, unless it is
        /// abandoned.
        case committing

        /// Whether the work has begun, and has neither stopped nor produced an outcome.
        package var isUnderWay: Bool { self == .running || self == .stopping || self == .committing }
    }

    package enum Event: Hashable, Sendable {
        /// The queue or a caller starts the operation, for the first time or again after a pause.
        case start
        case pause
        /// A pause that holds the work instead of stopping it.
        case hold
        case resume
        case cancel
        /// The time limit of the whole operation has expired.
        case expire
        /// The work has ended without an outcome, because a stop was requested or because it must be repeated.
        case workStopped(AttemptNumber)
        /// The work has a response, and its output stream can commit it.
        case workCanCommit(AttemptNumber)
        /// The work has an outcome, success or failure, which is stored.
        case workCompleted(AttemptNumber)
        /// The wait for a commit has timed out.
        case commitTakesTooLong(AttemptNumber)
        /// The work has failed, and will be retried later.
        case workWillRetry(AttemptNumber)
        /// The delay before the retry that follows the given attempt is over.
        case retryDue(AttemptNumber)
    }

    package enum Action: Hashable, Sendable {
        case nothing
        /// Begin the work of the given attempt.
        case begin(AttemptNumber)
        /// Stop the work of the given attempt. If the operation is ending, do not wait for user code: a stop may
        /// already have been requested for a pause, and the attempt may still be waiting for user code.
        case stop(AttemptNumber)
        /// The state is `finished`: post the change, and call the handlers.
        case finish
        /// The readiness of the operation has changed: notify its queue.
        case readinessChanged
        /// Like `readinessChanged`; if no queue will start the operation again, start it here.
        case restart
        /// A queue has started an operation that cannot run now: release the slot.
        case slotFreed
        /// A running operation was paused: stop the work of the given attempt, and release the slot.
        case stopAndFreeSlot(AttemptNumber)
        /// A running operation was paused: hold the work of the given attempt, and release the slot.
        case holdAndFreeSlot(AttemptNumber)
        /// Continue the held work of the given attempt.
        case release(AttemptNumber)
        /// Release the slot, and send `retryDue` when the delay is over.
        case awaitRetry(AttemptNumber)
        /// Commit the output stream of the given attempt, then send `workCompleted`.
        case commit(AttemptNumber)
        /// The operation must end but is committing: send `commitTakesTooLong` if the commit takes too long.
        case awaitCommit(AttemptNumber)
    }

    package private(set) var state = OperationState.ready
    package private(set) var work = Work.none
    private var cancels = false
    private var expires = false
    /// Whether the operation was ever started. Until then, a Foundation queue must not observe its end.
    package private(set) var wasStarted = false
    /// Whether the operation's work has ever begun.
    package private(set) var hasBegun = false
    /// Whether the operation is ready except for the delay before a retry.
    package private(set) var isBackingOff = false
    /// The current attempt, or the last one; 0 before the first.
    package private(set) var attemptNumber: AttemptNumber = 0

    /// Whether the operation was cancelled before it had an outcome.
    package var isCancelled: Bool { cancels && work != .committing }
    /// Whether the operation's overall time limit expired before it had an outcome or was cancelled.
    package var isExpired: Bool { expires && work != .committing }
    /// Whether the operation was cancelled or has expired, even if it is committing.
    private var wantsEnd: Bool { cancels || expires }

    /// Whether the operation may be started now, apart from dependencies and queues.
    package var isStartable: Bool { state == .ready && !isBackingOff }

    /// Whether the operation was cancelled or has expired, so that it only has to finish, without an outcome.
    package var isEnding: Bool { isCancelled || isExpired }

    /// Whether the operation finished with the outcome of its work. After a cancellation or an expiry, the outcome is
    /// ignored.
    package var hasOutcome: Bool { state == .finished && !isEnding }

    package init() {}

    package mutating func handle(_ event: Event) -> Action {
        guard state != .finished else { return .nothing }
        switch event {
        case .start: return start()
        case .pause: return pause(holdsWork: false)
        case .hold: return pause(holdsWork: true)
        case .resume: return resume()
        case .cancel: return cancel()
        case .expire: return expire()
        case .workStopped(let number): return isUnderWay(number) ? workStopped() : .nothing
        case .workCanCommit(let number): return isUnderWay(number) ? workCanCommit() : .nothing
        case .commitTakesTooLong(let number): return number == attemptNumber ? commitTakesTooLong() : .nothing
        case .workCompleted(let number): return isUnderWay(number) ? workCompleted() : .nothing
        case .workWillRetry(let number): return isUnderWay(number) ? workWillRetry() : .nothing
        case .retryDue(let number): return number == attemptNumber ? retryDue() : .nothing
        }
    }

    /// Returns whether the given attempt is in progress.
    package func isUnderWay(_ number: AttemptNumber) -> Bool {
        number == attemptNumber && work.isUnderWay
    }

    private mutating func begin() -> Action {
        work = .running
        hasBegun = true
        attemptNumber &+= 1
        return .begin(attemptNumber)
    }

    private mutating func start() -> Action {
        switch state {
        case .executing, .finished: return .nothing
        case .paused:
            wasStarted = true
            return .slotFreed
        case .ready:
            wasStarted = true
            // If the work is still stopping, the operation finishes when it has stopped.
            if isEnding { return work == .stopping ? .nothing : finish() }
            guard !isBackingOff else { return .slotFreed }
            state = .executing
            switch work {
            case .none: return begin()
            case .complete: return finish()
            case .running: return .release(attemptNumber)
            // The operation was resumed before its work has stopped or committed. The end of the work triggers the next
            // step.
            case .stopping, .committing: return .nothing
            }
        }
    }

    private mutating func pause(holdsWork: Bool) -> Action {
        guard !wantsEnd else { return .nothing }
        switch state {
        case .ready:
            state = .paused
            isBackingOff = false
            return .readinessChanged
        case .executing:
            state = .paused
            guard work == .running else { return .stopAndFreeSlot(attemptNumber) }
            if holdsWork { return .holdAndFreeSlot(attemptNumber) }
            work = .stopping
            return .stopAndFreeSlot(attemptNumber)
        case .paused, .finished: return .nothing
        }
    }

    private mutating func resume() -> Action {
        guard state == .paused, !wantsEnd else { return .nothing }
        state = .ready
        return .restart
    }

    private mutating func cancel() -> Action {
        guard !cancels else { return .nothing }
        let isFirst = !expires
        cancels = true
        expires = false
        return isFirst || work != .committing ? end() : .nothing
    }

    private mutating func expire() -> Action {
        guard !wantsEnd else { return .nothing }
        expires = true
        return end()
    }

    private mutating func end() -> Action {
        if work == .committing { return .awaitCommit(attemptNumber) }
        switch state {
        case .finished: return .nothing
        case .executing: return stopWork()
        case .ready, .paused:
            if wasStarted { return work.isUnderWay ? stopWork() : finish() }
            // The operation finishes when it is started. Make it ready, so that a queue starts it.
            state = .ready
            return .readinessChanged
        }
    }

    private mutating func stopWork() -> Action {
        guard work.isUnderWay else { return .nothing }
        work = .stopping
        return .stop(attemptNumber)
    }

    private mutating func workStopped() -> Action {
        guard work != .committing else { return .nothing }
        work = .none
        if isEnding { return finish() }
        return state == .executing ? begin() : .nothing
    }

    private mutating func workCanCommit() -> Action {
        guard work != .committing else { return .nothing }
        // The bytes of an operation without an outcome are discarded.
        if isEnding { return workCompleted() }
        work = .committing
        return .commit(attemptNumber)
    }

    private mutating func commitTakesTooLong() -> Action {
        guard work == .committing, wantsEnd else { return .nothing }
        work = .none
        return finish()
    }

    private mutating func workCompleted() -> Action {
        let finishes = wantsEnd || state == .executing
        // The result of a commit takes precedence.
        if work == .committing {
            cancels = false
            expires = false
        }
        work = .complete
        return finishes ? finish() : .nothing
    }

    private mutating func workWillRetry() -> Action {
        guard work != .committing else { return .nothing }
        work = .none
        if isEnding { return finish() }
        // The operation was paused in the meantime. The next attempt begins after it is resumed.
        guard state == .executing else { return .nothing }
        state = .ready
        isBackingOff = true
        return .awaitRetry(attemptNumber)
    }

    private mutating func retryDue() -> Action {
        guard isBackingOff else { return .nothing }
        isBackingOff = false
        return .restart
    }

    private mutating func finish() -> Action {
        state = .finished
        isBackingOff = false
        return .finish
    }
}

// MARK: - Compact representation

extension Lifecycle {
    /// The whole lifecycle packed into one word, for an atomic.
    package var bits: UInt32 {
        UInt32(state.rawValue) | UInt32(work.rawValue) << 2 | (cancels ? 1 << 5 : 0)
            | (wasStarted ? 1 << 6 : 0) | (expires ? 1 << 7 : 0) | (isBackingOff ? 1 << 8 : 0)
            | (hasBegun ? 1 << 9 : 0) | UInt32(attemptNumber) << 16
    }

    package init(bits: UInt32) {
        state = OperationState(rawValue: UInt8(bits & 3)) ?? .ready
        work = Work(rawValue: UInt8(bits >> 2 & 7)) ?? .none
        cancels = bits & 1 << 5 != 0
        wasStarted = bits & 1 << 6 != 0
        expires = bits & 1 << 7 != 0
        isBackingOff = bits & 1 << 8 != 0
        hasBegun = bits & 1 << 9 != 0
        attemptNumber = AttemptNumber(truncatingIfNeeded: bits >> 16)
    }
}

/// A `Lifecycle` shared by many threads. It is read without a lock and changed by compare-and-exchange, so that no
/// transition overwrites another.
///
/// Changes are numbered, so that observers can restore their order.
package struct AtomicLifecycle: ~Copyable, Sendable {
    /// The lifecycle in the lower half, and the number of its last change in the upper half.
    private let word = Atomic<UInt64>(UInt64(Lifecycle().bits))

    package init() {}

    package struct Transition: Sendable {
        package let old: Lifecycle
        package let new: Lifecycle
        package let action: Lifecycle.Action
        /// The number of the change, one higher than the previous one; nil if the event only requires an action.
        package let number: UInt32?
    }

    package var value: Lifecycle { Lifecycle(bits: UInt32(truncatingIfNeeded: word.load(ordering: .acquiring))) }

    /// The lifecycle, and the number of its last change.
    package var current: (life: Lifecycle, number: UInt32) {
        let word = word.load(ordering: .sequentiallyConsistent)
        return (Lifecycle(bits: UInt32(truncatingIfNeeded: word)), UInt32(truncatingIfNeeded: word >> 32))
    }

    /// Applies an event; returns nil if it changes nothing and requires no action.
    package borrowing func handle(_ event: Lifecycle.Event) -> Transition? {
        var current = word.load(ordering: .acquiring)
        while true {
            let old = Lifecycle(bits: UInt32(truncatingIfNeeded: current))
            var new = old
            let action = new.handle(event)
            if new == old {
                guard action != .nothing else { return nil }
                return Transition(old: old, new: new, action: action, number: nil)
            }
            let number = UInt32(truncatingIfNeeded: current >> 32) &+ 1
            let (exchanged, original) = word.compareExchange(
                expected: current, desired: UInt64(number) << 32 | UInt64(new.bits),
                ordering: .sequentiallyConsistent)
            if exchanged { return Transition(old: old, new: new, action: action, number: number) }
            current = original
        }
    }
}
