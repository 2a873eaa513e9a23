import ConvoySupport
import Foundation

/// An operation that finishes when something has happened, so that others can wait for that.
///
/// It needs no queue, and takes no slot of one. In Foundation's queues it does not belong: whoever adds it may come too late.
package final class Milestone: ScheduledOperation, @unchecked Sendable {
    override package var isStartedDirectly: Bool { true }
    override package var isAsynchronous: Bool { true }
    override package var isOfLibrary: Bool { true }
    override package var takesSlot: Bool { false }

    package override init() {
        super.init()
        // What lies ahead is held back as by a pause.
        _ = lifecycle.handle(.pause)
    }

    private var isAhead: Bool { lifecycle.value.state == .paused }

    /// It has happened. Only the first call of this or `cancel()` counts.
    package func reach() { handle(.resume) }

    /// It will not happen.
    override package func cancel() { if isAhead { handle(.cancel) } }

    /// It will not happen any more, if it has not.
    package func end(because error: (any Error)?) {
        guard isAhead else { return }
        if let error { cancel(because: error) } else { cancel() }
    }

    override package func start() { handle(.start) }

    override package func proceed(after transition: AtomicLifecycle.Transition) {
        // No queue has it, which would start it.
        if transition.new.state == .ready, !mayBeEnqueued { return handle(.start) }
        super.proceed(after: transition)
    }
}
