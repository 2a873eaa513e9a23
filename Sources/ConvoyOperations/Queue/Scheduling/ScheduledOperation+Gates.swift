/// The gate of the host that an operation has come to.
extension ScheduledOperation {
    /// Closes the gate of a host in the operation's queue until a time on the queue's clock, in nanoseconds.
    package final func closeGate(of host: HostKey, until deadline: UInt64) {
        scheduler.object?.closeGate(of: host, until: deadline)
    }

    /// As `closeGate(of:until:)`, after the host has refused a connection: `Scheduler.closeGateAfterRefusal` says how
    /// that gate opens.
    package final func closeGateAfterRefusal(of host: HostKey, until deadline: UInt64, patience: UInt64) {
        scheduler.object?.closeGateAfterRefusal(of: host, until: deadline, patience: patience)
    }

    /// Says that a host, which had refused connections, has answered.
    package final func hostDidAnswer(_ host: HostKey?) {
        reportsAnswer = false
        guard let scheduler = scheduler.object, let host else { return }
        scheduler.noteAnswer(of: host)
    }
}
