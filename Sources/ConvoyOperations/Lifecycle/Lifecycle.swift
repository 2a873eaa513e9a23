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
/// | ready | | start | pause | cancel |
/// | executing | retry | | pause | done, failed, cancelled |
/// | paused | resume | | | cancel |
/// | finished | | | | |
package struct Lifecycle: Hashable, Sendable {
    package typealias State = OperationState

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

    package enum Event: Hashable, Sendable, CaseIterable {
        /// The queue, or a caller, starts the operation: for the first time, or again after a pause.
        case start
        case pause
        case resume
        /// Cancelled while a queue holds the operation, which will start it.
        case cancelInQueue
        /// Cancelled while nobody is known who would start it.
        case cancelAlone
        /// The work has stopped because it was asked to, without an outcome.
        case workStopped
        /// The work has an outcome, good or bad, and it is stored.
        case workCompleted
        /// The work has stopped by itself and must be done anew: what came was of no use.
        case workMustRepeat
        /// The work has failed and shall be tried again later.
        case workWillRetry
        /// It is later.
        case retryDue
    }

    package enum Action: Hashable, Sendable {
        case nothing
        /// Begin the work.
        case begin
        /// Ask the work to stop.
        case stop
        /// The state is `finished`: post it, and deliver.
        case finish
        /// Whether the operation is ready to be started has changed: tell its queue.
        case readinessChanged
        /// As before; and if no queue does it, start the operation again.
        case restart
        /// A queue has started an operation that was paused meanwhile: its slot is free.
        case slotFreed
        /// A running operation was paused: ask the work to stop, and give the slot back.
        case stopAndFreeSlot
        /// Give the slot back, and let `retryDue` come when it is time.
        case awaitRetry
    }

    package private(set) var state = State.ready
    package private(set) var work = Work.none
    package private(set) var isCancelled = false
    /// Whether `start` has ever come. Until then a Foundation queue must not see the operation finish.
    package private(set) var wasStarted = false
    /// Whether it finished because it was cancelled: whatever outcome there is does not count.
    package private(set) var endedByCancel = false
    /// Whether it is ready but for the time that must pass before it is tried again.
    package private(set) var isBackingOff = false

    /// Whether, as far as its own life goes, it may be started now.
    package var isStartable: Bool { state == .ready && !isBackingOff }

    package init() {}

    package mutating func handle(_ event: Event) -> Action {
        guard state != .finished else { return .nothing }
        switch event {
        case .start: return start()
        case .pause: return pause()
        case .resume: return resume()
        case .cancelInQueue: return cancel(willBeStarted: true)
        case .cancelAlone: return cancel(willBeStarted: false)
        case .workStopped: return workStopped()
        case .workCompleted: return workCompleted()
        case .workWillRetry: return workWillRetry()
        case .retryDue: return retryDue()
        case .workMustRepeat: return work == .running ? .begin : workStopped()
        }
    }

    private mutating func start() -> Action {
        switch state {
        case .executing, .finished: return .nothing
        case .paused:
            wasStarted = true
            return .slotFreed
        case .ready:
            wasStarted = true
            if isCancelled {
                // Work that is still stopping ends the operation when it has stopped.
                return work == .stopping ? .nothing : finish(byCancel: true)
            }
            guard !isBackingOff else { return .slotFreed }
            switch work {
            case .none:
                state = .executing
                work = .running
                return .begin
            case .complete:
                state = .executing
                return finish(byCancel: false)
            case .running, .stopping:
                // Resumed before the stop was done: it begins anew once it is.
                state = .executing
                return .nothing
            }
        }
    }

    private mutating func pause() -> Action {
        guard !isCancelled else { return .nothing }
        switch state {
        case .ready:
            state = .paused
            isBackingOff = false
            return .readinessChanged
        case .executing:
            state = .paused
            if work == .running { work = .stopping }
            return .stopAndFreeSlot
        case .paused, .finished: return .nothing
        }
    }

    private mutating func resume() -> Action {
        guard state == .paused, !isCancelled else { return .nothing }
        state = .ready
        return .restart
    }

    private mutating func cancel(willBeStarted: Bool) -> Action {
        guard !isCancelled else { return .nothing }
        isCancelled = true
        switch state {
        case .finished: return .nothing
        case .executing:
            guard work == .running else { return .nothing }
            work = .stopping
            return .stop
        case .ready, .paused:
            if wasStarted {
                return work == .stopping ? .nothing : finish(byCancel: true)
            }
            guard willBeStarted else { return finish(byCancel: true) }
            // The queue starts what is ready, and start finishes what is cancelled.
            state = .ready
            return .readinessChanged
        }
    }

    private mutating func workStopped() -> Action {
        guard work == .stopping else { return .nothing }
        work = .none
        if isCancelled { return finish(byCancel: true) }
        guard state == .executing else { return .nothing }
        work = .running
        return .begin
    }

    private mutating func workCompleted() -> Action {
        guard work == .running || work == .stopping else { return .nothing }
        work = .complete
        if isCancelled { return finish(byCancel: true) }
        return state == .executing ? finish(byCancel: false) : .nothing
    }

    private mutating func workWillRetry() -> Action {
        guard work == .running || work == .stopping else { return .nothing }
        work = .none
        if isCancelled { return finish(byCancel: true) }
        // Paused meanwhile: the resume is the next try.
        guard state == .executing else { return .nothing }
        state = .ready
        isBackingOff = true
        return .awaitRetry
    }

    private mutating func retryDue() -> Action {
        guard isBackingOff else { return .nothing }
        isBackingOff = false
        return .restart
    }

    private mutating func finish(byCancel: Bool) -> Action {
        state = .finished
        isBackingOff = false
        endedByCancel = byCancel
        return .finish
    }
}

// MARK: - In one word

extension Lifecycle {
    /// The whole life in a few bits, for an atomic.
    package var bits: UInt32 {
        UInt32(state.rawValue) | UInt32(work.rawValue) << 2 | (isCancelled ? 1 << 4 : 0)
            | (wasStarted ? 1 << 5 : 0) | (endedByCancel ? 1 << 6 : 0)
            | (isBackingOff ? 1 << 7 : 0)
    }

    package init(bits: UInt32) {
        state = State(rawValue: UInt8(bits & 3)) ?? .ready
        work = Work(rawValue: UInt8(bits >> 2 & 3)) ?? .none
        isCancelled = bits & 1 << 4 != 0
        wasStarted = bits & 1 << 5 != 0
        endedByCancel = bits & 1 << 6 != 0
        isBackingOff = bits & 1 << 7 != 0
    }
}
