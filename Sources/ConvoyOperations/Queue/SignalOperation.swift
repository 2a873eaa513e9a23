import Foundation

/// An operation that finishes when an event has occurred, so that other operations can wait for the event.
///
/// It needs no queue, and takes no slot. Do not add it to Foundation's queues: it may already have finished.
package final class SignalOperation: ScheduledOperation, @unchecked Sendable {
    override package var isAsynchronous: Bool { true }

    package override init() {
        super.init()
        declare([.ofLibrary, .startedDirectly, .slotless])
        // The event has not occurred yet, so the operation is held back like a paused one.
        _ = lifecycle.handle(.pause)
    }

    private var isAhead: Bool { lifecycle.value.state == .paused }

    /// Records that the event has occurred. Only the first call of this method or `cancel()` has an effect.
    package func reach() { handle(.resume) }

    /// Records that the event will not occur.
    override package func cancel() { if isAhead { handle(.cancel) } }

    /// Records that the event will not occur, unless it has already occurred.
    package func end(because error: (any Error)?) {
        guard isAhead else { return }
        if let error { cancel(because: error) } else { cancel() }
    }

    override package func start() { handle(.start) }

    override package func proceed(after transition: AtomicLifecycle.Transition) {
        // The operation is not in a queue that would start it.
        if transition.new.state == .ready, !mayBeEnqueued { return handle(.start) }
        super.proceed(after: transition)
    }
}
