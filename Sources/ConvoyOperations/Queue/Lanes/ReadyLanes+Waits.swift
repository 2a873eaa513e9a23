/// What an operation in a lane waits for.
extension ReadyLanes {
    /// What holds an operation back, apart from the queue's own limit.
    func waitReason(of slot: Int32) -> WaitReason {
        let entry = entries[Int(slot)]
        if entry.waitsAtGate, !hosts[entry.host].letsWaitingPass { return .closedGate }
        // Those without a host have neither a limit nor a rate.
        guard entry.host != 0 else { return .slot }
        if hosts[entry.host].running >= limitPerHost { return .hostLimit }
        return hosts[entry.host].startsAt != 0 || isOutOfStarts ? .startRate : .slot
    }
}
