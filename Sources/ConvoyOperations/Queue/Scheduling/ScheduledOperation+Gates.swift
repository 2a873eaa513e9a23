/// The gate of an operation's host.
extension ScheduledOperation {
    /// Closes the gate of the operation's host in its queue until a time on the queue's clock, in nanoseconds.
    package final func closeHostGate(until deadline: UInt64) {
        guard let scheduler = scheduler.object, let host = hostKey else { return }
        scheduler.closeGate(of: host, until: deadline)
    }

    /// As `closeHostGate(until:)`, after the host has refused a connection: `Scheduler.closeGateAfterRefusal` says how
    /// that gate opens.
    package final func closeHostGateAfterRefusal(until deadline: UInt64, patience: UInt64) {
        guard let scheduler = scheduler.object, let host = hostKey else { return }
        scheduler.closeGateAfterRefusal(of: host, until: deadline, patience: patience)
    }

    /// Says that the host, which had refused connections, has answered.
    package final func hostDidAnswer() {
        reportsAnswer = false
        guard let scheduler = scheduler.object, let host = hostKey else { return }
        scheduler.noteAnswer(of: host)
    }
}
