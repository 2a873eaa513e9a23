import ConvoySupport
import ConvoyTransport
import Foundation

/// Methods that close the gate of a host, and report waits at a closed gate.
extension URLConnectionOperation {
    /// The handler called when the operation waits at the closed gate of its host, on the queue of the `retryHandler`.
    package final var closedGateHandler: (@Sendable () -> Void)? {
        get { handler(\.closedGate) }
        set { setHandler(\.closedGate, newValue) }
    }

    /// Closes the gate of a host.
    func closeGate(_ gate: NextStep.GateClosure) {
        let deadline = Nanoseconds.deadline(gate.duration, after: retryClock.now)
        let patience = gate.patience.map { Nanoseconds.clamping(seconds: $0) }
        closeGate(of: gate.host, until: deadline, patience: patience)
    }

    /// Reports to monitors that the gate of the host is closed. The `retryHandler` is not called, because no attempt
    /// has failed.
    func reportClosedGate(until deadline: UInt64) {
        if let handler = closedGateHandler { (completionQueue ?? OperationQueues.processing).submit(handler) }
        guard let eventLog, let host = waitingHost else { return }
        let decision = RetryEvent.Decision.waitAtGate(until: retryClock.date(of: deadline))
        let event = RetryEvent(retryCount: retryCount, reason: .closedGate(host: host), decision: decision)
        eventLog.note(.event(.retryDecided(event.naming(request.url))))
    }

    /// The host whose slot the operation waits for: the host of its request, or the host to which it was redirected.
    private var waitingHost: String? {
        scheduler.object?.state.withLock { $0.host(of: self) } ?? schedulingHost
    }
}
