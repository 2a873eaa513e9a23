/// Where an operation is in its life.
public enum OperationState: UInt8, Sendable, CaseIterable {
    /// Not begun, or resumed after a pause and not yet started again.
    case ready
    case executing
    /// Held back by `pause()`, before it began or in the middle.
    case paused
    /// Done, failed or cancelled. Final.
    case finished
}

/// The life of an operation as a value: what state it is in, what it still waits for, and what each event does.
///
/// No locks and no I/O. `handle(_:)` is the one function that changes it; it returns what the operation must do.
/// Every interleaving of the operation's life is a sequence of calls of it, and the tests run them all.
///
/// | from \ to | ready | executing | paused | finished |
/// |---|---|---|---|---|
/// | ready | | start | pause | cancel, expire |
/// | executing | retry | | pause | done, failed, cancelled, expired |
/// | paused | resume | | | cancel, expire |
/// | finished | | | | |
///
/// A change and the action that it asks for are two steps, and other threads may make any number of changes in
/// between. So each try at the request has a number. Whoever begins or stops the work says which try is meant, and
/// so does the work when it ends: what comes too late, or too early, finds out and does no harm.
package struct Lifecycle: Hashable, Sendable {
    /// The number of a try at the request. Each time work begins it is a higher one, modulo 65,536.
    package typealias TryNumber = UInt16

    /// What goes on beneath the state. Work is one try at the request: preparing, transferring and processing it.
    package enum Work: UInt8, Sendable, CaseIterable {
        /// Nothing: it has not begun, or it was stopped.
        case none
        /// Under way. It ends with `workCompleted`.
        case running
        /// Under way, and asked to stop. It ends with `workStopped`, or with `workCompleted` if that came first.
        case stopping
        /// It has an outcome, which waits for a paused operation to go on.
        case complete
    }

    package enum Event: Hashable, Sendable {
        /// The queue, or a caller, starts the operation: for the first time, or again after a pause.
        case start
        case pause
        case resume
        case cancel
        /// The time that the whole operation may take is over.
        case expire
        /// The work has stopped because it was asked to, without an outcome.
        case workStopped(TryNumber)
        /// The work has an outcome, good or bad, and it is stored.
        case workCompleted(TryNumber)
        /// The work has stopped by itself and must be done anew: what came was of no use.
        case workMustRepeat(TryNumber)
        /// The work has failed and shall be tried again later.
        case workWillRetry(TryNumber)
        /// It is later: what the wait after that try was for.
        case retryDue(TryNumber)
    }

    package enum Action: Hashable, Sendable {
        case nothing
        /// Begin the work of that try.
        case begin(TryNumber)
        /// Ask the work of that try to stop.
        case stop(TryNumber)
        /// The state is `finished`: post it, and deliver.
        case finish
        /// Whether the operation is ready to be started has changed: tell its queue.
        case readinessChanged
        /// As before; and if no queue does it, start the operation again.
        case restart
        /// A queue has started an operation that was paused meanwhile: its slot is free.
        case slotFreed
        /// A running operation was paused: ask the work of that try to stop, and give the slot back.
        case stopAndFreeSlot(TryNumber)
        /// Give the slot back, and let `retryDue` come when it is time.
        case awaitRetry(TryNumber)
    }

    package private(set) var state = OperationState.ready
    package private(set) var work = Work.none
    package private(set) var isCancelled = false
    /// Whether the time for the whole operation was over before it had an outcome, and before it was cancelled.
    package private(set) var isExpired = false
    /// Whether `start` has ever come. Until then a Foundation queue must not see the operation finish.
    package private(set) var wasStarted = false
    /// Whether it is ready but for the time that must pass before it is tried again.
    package private(set) var isBackingOff = false
    /// The try that is under way, or the last one; 0 before the first.
    package private(set) var tryNumber: TryNumber = 0

    /// Whether, as far as its own life goes, it may be started now.
    package var isStartable: Bool { state == .ready && !isBackingOff }

    /// Whether all that is left for it is to finish, without an outcome.
    package var isEnding: Bool { isCancelled || isExpired }

    /// Whether it finished with what the work has brought. What came before an end of another kind does not count.
    package var hasOutcome: Bool { state == .finished && !isEnding }

    package init() {}

    package mutating func handle(_ event: Event) -> Action {
        guard state != .finished else { return .nothing }
        switch event {
        case .start: return start()
        case .pause: return pause()
        case .resume: return resume()
        case .cancel: return cancel()
        case .expire: return expire()
        case .workStopped(let number): return isUnderWay(number) ? workStopped() : .nothing
        case .workCompleted(let number): return isUnderWay(number) ? workCompleted() : .nothing
        case .workMustRepeat(let number): return isUnderWay(number) ? workMustRepeat() : .nothing
        case .workWillRetry(let number): return isUnderWay(number) ? workWillRetry() : .nothing
        case .retryDue(let number): return number == tryNumber ? retryDue() : .nothing
        }
    }

    /// Whether work is being done, and it is that of the given try.
    package func isUnderWay(_ number: TryNumber) -> Bool {
        number == tryNumber && (work == .running || work == .stopping)
    }

    private mutating func begin() -> Action {
        work = .running
        tryNumber &+= 1
        return .begin(tryNumber)
    }

    private mutating func start() -> Action {
        switch state {
        case .executing, .finished: return .nothing
        case .paused:
            wasStarted = true
            return .slotFreed
        case .ready:
            wasStarted = true
            // Work that is still stopping ends the operation when it has stopped.
            if isEnding { return work == .stopping ? .nothing : finish() }
            guard !isBackingOff else { return .slotFreed }
            state = .executing
            switch work {
            case .none: return begin()
            case .complete: return finish()
            // Resumed before the stop was done: it begins anew once it is.
            case .running, .stopping: return .nothing
            }
        }
    }

    private mutating func pause() -> Action {
        guard !isEnding else { return .nothing }
        switch state {
        case .ready:
            state = .paused
            isBackingOff = false
            return .readinessChanged
        case .executing:
            state = .paused
            if work == .running { work = .stopping }
            return .stopAndFreeSlot(tryNumber)
        case .paused, .finished: return .nothing
        }
    }

    private mutating func resume() -> Action {
        guard state == .paused, !isEnding else { return .nothing }
        state = .ready
        return .restart
    }

    private mutating func cancel() -> Action {
        guard !isCancelled else { return .nothing }
        isCancelled = true
        isExpired = false
        return end()
    }

    private mutating func expire() -> Action {
        guard !isEnding else { return .nothing }
        isExpired = true
        return end()
    }

    private mutating func end() -> Action {
        switch state {
        case .finished: return .nothing
        case .executing:
            guard work == .running else { return .nothing }
            work = .stopping
            return .stop(tryNumber)
        case .ready, .paused:
            if wasStarted { return work == .stopping ? .nothing : finish() }
            // Whoever starts it, now or later, finishes it: a queue starts what is ready.
            state = .ready
            return .readinessChanged
        }
    }

    private mutating func workStopped() -> Action {
        guard work == .stopping else { return .nothing }
        work = .none
        if isEnding { return finish() }
        return state == .executing ? begin() : .nothing
    }

    private mutating func workCompleted() -> Action {
        work = .complete
        return isEnding || state == .executing ? finish() : .nothing
    }

    private mutating func workMustRepeat() -> Action {
        work == .running ? begin() : workStopped()
    }

    private mutating func workWillRetry() -> Action {
        work = .none
        if isEnding { return finish() }
        // Paused meanwhile: the resume is the next try.
        guard state == .executing else { return .nothing }
        state = .ready
        isBackingOff = true
        return .awaitRetry(tryNumber)
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

// MARK: - In one word

extension Lifecycle {
    /// The whole life in one word, for an atomic.
    package var bits: UInt32 {
        UInt32(state.rawValue) | UInt32(work.rawValue) << 2 | (isCancelled ? 1 << 4 : 0)
            | (wasStarted ? 1 << 5 : 0) | (isExpired ? 1 << 6 : 0) | (isBackingOff ? 1 << 7 : 0)
            | UInt32(tryNumber) << 16
    }

    package init(bits: UInt32) {
        state = OperationState(rawValue: UInt8(bits & 3)) ?? .ready
        work = Work(rawValue: UInt8(bits >> 2 & 3)) ?? .none
        isCancelled = bits & 1 << 4 != 0
        wasStarted = bits & 1 << 5 != 0
        isExpired = bits & 1 << 6 != 0
        isBackingOff = bits & 1 << 7 != 0
        tryNumber = TryNumber(truncatingIfNeeded: bits >> 16)
    }
}
