import ConvoySupport
import Dispatch
import Foundation

/// Methods that determine who starts an operation: a queue, its owner, or a task that awaits it.
extension ScheduledOperation {
    /// Whether the operation may be in a queue, Convoy's or Foundation's, that will call `start()`. True if that is
    /// unknown because `isReady` was evaluated: manually starting an operation that a Foundation queue holds would
    /// corrupt that queue's memory.
    package final var mayBeEnqueued: Bool { isScheduled || inquiries.wereMade }

    /// Claims the operation for a caller that adds it to a queue or starts it, now or later. Until then, awaiting it does
    /// not start it. Returns false if it is in a queue of Convoy's or was claimed before.
    @discardableResult
    package final func claim() -> Bool { !isScheduled && set(.claimed) }

    /// Claims the operation, unless it may be in a queue or was started manually.
    final func claimUnlessTaken() -> Bool {
        !mayBeEnqueued && !lifecycle.value.wasStarted && !isExecuting && claim()
    }

    /// Starts the operation now, or as soon as its dependencies have finished, unless something else starts it. The
    /// dependencies are not started.
    package final func startAwaited() {
        guard claimUnlessTaken() else { return }
        declare(.startsWhenReady)
        connections.object?.beObserved(self)
        checkDependencies()
        start()
    }

    /// Whether nothing has started or claimed the operation.
    final var isUnclaimed: Bool { lifecycle.value.state == .ready && !mayBeEnqueued && !has(.claimed) }

    /// Looks for dependencies that would never finish. Called for an operation that waits in a queue, after it was
    /// inserted and after a dependency was added.
    final func checkDependencies() {
        DependencyCycle.end(through: self)
        watchDependencies(.unstartedDependency)
    }

    /// Warns if the operation, which is in a queue, is still waiting later for a dependency that nothing starts.
    final func watchDependencies(_ warning: UsageWarning) {
        guard !warning.wasGiven else { return }
        for case let dependency as ScheduledOperation in unfinishedDependencies where dependency.isUnclaimed {
            return warning.watch { [weak self, weak dependency] in
                guard let self, let dependency else { return false }
                return !self.isFinished && !self.isCancelled && dependency.isUnclaimed
            }
        }
    }
}

extension ScheduledOperation {
    /// The reason why the operation waits at this moment; nil if it is executing, is about to start, or has finished.
    ///
    /// An executing operation also waits if it was redirected to a host that has no free slot.
    public final var waitReason: WaitReason? {
        let life = lifecycle.value
        if isFinished { return nil }
        if life.state == .paused { return .pause }
        if life.isBackingOff { return delayReason }
        let reason: WaitReason? =
            if let scheduler = scheduler.object {
                scheduler.state.withLock { $0.waitReason(of: self) }
            } else {
                has(.startsWhenReady) ? .condition : .start
            }
        switch reason {
        case .condition where waitsForDependencies: return .dependencies
        case .condition, .start: return life.hasBegun || isExecuting ? nil : reason
        default: return reason
        }
    }
}
