import ConvoySupport
import Foundation

/// An operation that finishes when something has happened, so that others can wait for that.
///
/// It needs no queue, and takes no slot of one. In Foundation's queues it does not belong: whoever adds it may come too late.
package final class Milestone: ScheduledOperation, @unchecked Sendable {
    private enum State { case ahead, due, over }

    private let state = Locked((State.ahead, isCancelled: false))

    override package var isReady: Bool { super.isReady && state.withLock { $0.0 != .ahead } }
    override package var isExecuting: Bool { false }
    override package var isFinished: Bool { state.withLock { $0.0 == .over } }
    override package var isCancelled: Bool { state.withLock { $0.isCancelled } }
    override package var isAsynchronous: Bool { true }
    override package var isStartedDirectly: Bool { true }
    override package var isOfLibrary: Bool { true }
    override package var takesSlot: Bool { false }
    override package var reportsItsEnd: Bool { true }
    override package var wasStarted: Bool { state.withLock { $0.0 != .ahead } }

    /// It has happened. Only the first call of this or `cancel()` counts.
    package func reach() { pass(isCancelled: false) }

    /// It will not happen.
    override package func cancel() { pass(isCancelled: true) }

    /// It will not happen any more, if it has not.
    package func end(because error: (any Error)?) {
        guard state.withLock({ $0.0 == .ahead }) else { return }
        if let error { cancel(because: error) } else { cancel() }
    }

    override package func start() { finish() }

    private func pass(isCancelled: Bool) {
        let isNew = state.withLock { state in
            guard state.0 == .ahead else { return false }
            state = (.due, isCancelled)
            return true
        }
        guard isNew else { return }
        if mayBeEnqueued { readinessDidChange() } else { finish() }
    }

    private func finish() {
        let isNew = state.withLock { state in
            guard state.0 == .due else { return false }
            state.0 = .over
            return true
        }
        // Started too early, it gives its place back.
        if isNew { executionDidFinish() } else { slotDidFree() }
    }
}
