import ConvoySupport
import Foundation
import Synchronization

extension URLConnectionOperation {
    /// The log; nil if it has no readers. Reading this property takes no lock.
    final var log: OperationLog? { logReference.object }

    /// The log, created if needed. From then on every change is recorded.
    final var openedLog: OperationLog {
        if let log { return log }
        let made = OperationLog()
        guard logReference.set(made) else { return logReference.object ?? made }
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        return made
    }

    /// Passes a lifecycle change to the log, if the log has been opened.
    func note(_ transition: AtomicLifecycle.Transition) {
        guard let log, let number = transition.number else { return }
        let (hasEvents, new) = (log.hasEvents, transition.new)
        let change = OperationLog.RecordedChange(
            transition: transition, number: number, moment: StartMoment.timeNow,
            whenReady: hasEvents && new.isStartable ? reasonToWait : .start,
            outcome: hasEvents && new.state == .finished ? outcome(of: new) : nil)
        log.note(change, of: self)
    }

    private func outcome(of life: Lifecycle) -> OperationOutcome {
        if life.isCancelled { return .cancelled }
        return error.map { .failed($0) } ?? .succeeded
    }
}

/// The metrics and events of an operation.
extension URLConnectionOperation {
    /// The metrics of the operation's waits and of all its requests. nil until the operation has finished, or if
    /// `collectsMetrics` is false. Like the results, the metrics are final when the finish of the operation is posted.
    public final var metrics: OperationMetrics? {
        guard lifecycle.value.state == .finished, collectsMetrics else { return nil }
        return eventLog?.metrics
    }

    /// The number of the operation in the events of monitors; nil without monitors.
    public final var operationNumber: UInt64? { eventLog?.operationNumber }

    /// The log, if it reports to metrics or monitors; nil without either. Reading this property takes no lock.
    final var eventLog: OperationLog? { log.flatMap { $0.hasEvents ? $0 : nil } }

    /// Starts to report to the metrics and the monitors.
    final func beginEvents(for monitors: [EventMonitor]) {
        openedLog.beginEvents(of: self, for: monitors)
        declare([.hearsOfQueue, .hearsOfWaits])
    }

    /// Reports the requests of this operation as events of the operation that it is a part of.
    final func addEvents(to parent: URLConnectionOperation) {
        guard let log = parent.eventLog else { return }
        openedLog.beginEvents(of: self, in: log)
        declare(.hearsOfQueue)
    }

    /// The reason why a startable operation waits, derived from the operation's own state.
    var reasonToWait: WaitReason {
        guard isScheduled else { return .start }
        return areDependenciesFinished ? .slot : .dependencies
    }

    /// Records that the operation was added to a queue or must wait in its queue again.
    func noteWaiting() {
        if eventLog != nil { willWait(for: reasonToWait) }
    }
}
