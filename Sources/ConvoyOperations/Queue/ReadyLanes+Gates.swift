/// The gates of the hosts: which operations wait at a closed gate, and to which of them that was not reported yet.
extension ReadyLanes {
    /// Notes whether an operation waits while its host's gate is closed. Called before it is put into a lane.
    mutating func setWaitsAtGate(_ waits: Bool, of slot: Int32) {
        entries[Int(slot)].waitsAtGate = waits
        entries[Int(slot)].toldOfGate = 0
        entries[Int(slot)].isRedirected = false
    }

    /// Closes a host's gate until a time. False if it was already closed for at least that long.
    mutating func closeGate(of key: HostKey, until deadline: UInt64) -> Bool {
        guard deadline > 0 else { return false }
        let host = hosts.index(of: key)
        // The host states itself how long to wait.
        hosts[host].needsProbe = false
        hosts[host].refusedSince = 0
        return closeGate(of: host, until: deadline)
    }

    private mutating func closeGate(of host: Int32, until deadline: UInt64) -> Bool {
        let wasOpen = hosts[host].gate == 0
        guard hosts.closeGate(of: host, until: deadline) else { return false }
        if wasOpen {
            for level in 0...PriorityLevel.redirected {
                noteUntold(hosts[host].waitingLanes[level].head, host: host, level: level)
            }
        }
        update(host)
        return true
    }

    /// Opens a host's gate if it is due; a later closing may not be. The gate of a host that has refused connections
    /// opens for one operation at a time.
    mutating func openGate(of key: HostKey, dueAt now: UInt64) {
        guard let host = hosts.knownIndex(of: key), hosts[host].gate > 0, hosts[host].gate <= now else { return }
        guard hosts[host].needsProbe, hosts[host].members > 0 else { return openGate(host) }
        hosts[host].isHalfOpen = true
        update(host)
    }

    /// When a closed gate is to be opened; nil for one that is open, or that lets one operation through at a time.
    func gateDeadline(of key: HostKey) -> UInt64? {
        guard let host = hosts.knownIndex(of: key), hosts[host].gate > 0, !hosts[host].isHalfOpen else { return nil }
        return hosts[host].gate
    }

    // MARK: Hosts that refuse connections

    /// Closes the gate of a host that has refused a connection. False if it was closed for as long or longer before, or
    /// if the host has refused for longer than `patience` (nanoseconds): then its gate stays open, and each operation
    /// finds out by itself.
    mutating func closeGateAfterRefusal(
        of key: HostKey, until deadline: UInt64, patience: UInt64, now: UInt64
    ) -> Bool {
        let host = hosts.index(of: key)
        if hosts[host].refusedSince == 0 {
            hosts[host].refusedSince = max(now, 1)
        } else if now > hosts[host].refusedSince, now - hosts[host].refusedSince > patience {
            if hosts[host].needsProbe { openGate(host) }
            return false
        }
        hosts[host].needsProbe = true
        return closeGate(of: host, until: deadline)
    }

    /// Notes that a host which had refused connections has answered.
    mutating func noteAnswer(of key: HostKey) {
        guard let host = hosts.knownIndex(of: key) else { return }
        hosts[host].refusedSince = 0
        if hosts[host].needsProbe { openGate(host) }
    }

    /// Whether an operation that is about to start must report an answer of its host.
    func reportsAnswer(_ slot: Int32) -> Bool {
        entries[Int(slot)].waitsAtGate && hosts[entries[Int(slot)].host].refusedSince != 0
    }

    /// Opens a host's gate. False if it was open.
    mutating func openGate(of key: HostKey) -> Bool {
        guard let host = hosts.knownIndex(of: key), hosts[host].gate > 0 else { return false }
        openGate(host)
        return true
    }

    mutating func openAllGates() {
        for host in hosts.gated { openGate(host) }
    }

    /// The closed gates. Takes time proportional to the number of hosts.
    var closedGates: [(host: String, deadline: UInt64)] {
        hosts.gated.compactMap { index in hosts[index].key.map { ($0.name, hosts[index].gate) } }
    }

    private mutating func openGate(_ host: Int32) {
        hosts.openGate(of: host)
        update(host)
    }

    // MARK: Telling waiting operations

    /// Notes that a closed gate may have to be reported to an operation in a lane, and to those after it.
    mutating func noteUntold(_ slot: Int32, host: Int32, level: Int) {
        guard slot >= 0, hosts[host].gate > 0, hosts[host].untold[level] < 0 else { return }
        hosts[host].untold[level] = slot
        guard !hosts[host].isToBeTold else { return }
        hosts[host].isToBeTold = true
        hostsToTell.append(host)
    }

    /// The next operation to which the closed gate must be reported, and when that gate opens.
    mutating func nextToBeTold() -> (slot: Int32, deadline: UInt64)? {
        while let host = hostsToTell.last {
            for level in 0...PriorityLevel.redirected {
                while hosts[host].untold[level] >= 0 {
                    let slot = hosts[host].untold[level]
                    hosts[host].untold[level] = laneLinks.next(after: slot)
                    // It may have been reported already, in another level.
                    guard entries[Int(slot)].toldOfGate != hosts[host].gateNumber else { continue }
                    entries[Int(slot)].toldOfGate = hosts[host].gateNumber
                    return (slot, hosts[host].gate)
                }
            }
            hostsToTell.removeLast()
            hosts[host].isToBeTold = false
        }
        return nil
    }
}
