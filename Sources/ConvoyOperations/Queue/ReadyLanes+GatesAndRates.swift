import ConvoySupport
import Foundation

/// Methods that manage the gates of the hosts, the operations that wait at a closed gate, and the reports to these
/// operations.
extension ReadyLanes {
    /// Sets whether an operation waits while its host's gate is closed. Called before it is added to a lane.
    mutating func setWaitsAtGate(_ waits: Bool, of slot: Int32) {
        entries[Int(slot)].waitsAtGate = waits
        entries[Int(slot)].toldOfGate = 0
        entries[Int(slot)].isRedirected = false
    }

    /// Closes a host's gate until the given time. Returns false if it was already closed for at least that long.
    mutating func closeGate(of key: HostKey, until deadline: UInt64) -> Bool {
        guard deadline > 0 else { return false }
        let host = hosts.index(of: key)
        // The host itself has specified how long to wait, so no probe is needed.
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

    /// Opens a host's gate if its deadline, which may have been extended, has passed. The gate of a host that has
    /// refused connections lets only a probe through.
    mutating func openGate(of key: HostKey, dueAt now: UInt64) {
        guard let host = hosts.knownIndex(of: key), hosts[host].gate > 0, hosts[host].gate <= now else { return }
        guard hosts[host].needsProbe, hosts[host].members > 0 else { return openGate(host) }
        hosts[host].isHalfOpen = true
        update(host)
    }

    /// Returns the time when a closed gate opens; nil if the gate is open or half open.
    func gateDeadline(of key: HostKey) -> UInt64? {
        guard let host = hosts.knownIndex(of: key), hosts[host].gate > 0, !hosts[host].isHalfOpen else { return nil }
        return hosts[host].gate
    }

    // MARK: Hosts that refuse connections

    /// Closes the gate of a host that has refused a connection. Returns false if it was already closed for at least as
    /// long. Also returns false if the host has refused for longer than `patience` (nanoseconds): its gate then stays
    /// open, and each operation fails individually.
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

    /// Records that a host which had refused connections has answered.
    mutating func noteAnswer(of key: HostKey) {
        guard let host = hosts.knownIndex(of: key) else { return }
        hosts[host].refusedSince = 0
        if hosts[host].needsProbe { openGate(host) }
    }

    /// Returns whether an operation that is about to start must report an answer of its host.
    func reportsAnswer(_ slot: Int32) -> Bool {
        entries[Int(slot)].waitsAtGate && hosts[entries[Int(slot)].host].refusedSince != 0
    }

    /// Opens a host's gate. Returns false if it was open.
    mutating func openGate(of key: HostKey) -> Bool {
        guard let host = hosts.knownIndex(of: key), hosts[host].gate > 0 else { return false }
        openGate(host)
        return true
    }

    mutating func openAllGates() {
        for host in hosts.gated { openGate(host) }
    }

    /// The closed gates. Reading this property takes time proportional to the number of hosts.
    var closedGates: [(host: String, deadline: UInt64)] {
        hosts.gated.compactMap { index in hosts[index].key.map { ($0.name, hosts[index].gate) } }
    }

    private mutating func openGate(_ host: Int32) {
        hosts.openGate(of: host)
        update(host)
    }

    // MARK: Notifying waiting operations

    /// Records that a closed gate may have to be reported to an operation in a lane and to the operations after it.
    mutating func noteUntold(_ slot: Int32, host: Int32, level: Int) {
        guard slot >= 0, hosts[host].gate > 0, hosts[host].untold[level] < 0 else { return }
        hosts[host].untold[level] = slot
        guard !hosts[host].isToBeTold else { return }
        hosts[host].isToBeTold = true
        hostsToTell.append(host)
    }

    /// Returns the next operation to which the closed gate must be reported, and the time when that gate opens.
    mutating func nextToBeTold() -> (slot: Int32, deadline: UInt64)? {
        while let host = hostsToTell.last {
            for level in 0...PriorityLevel.redirected {
                while hosts[host].untold[level] >= 0 {
                    let slot = hosts[host].untold[level]
                    hosts[host].untold[level] = laneLinks.next(after: slot)
                    // The closing may have been reported already, while the operation was in a different level.
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

/// The pace at which operations may start, in total and per host. Operations without a host send no request: they are
/// neither counted nor held back.
extension ReadyLanes {
    /// The state of the overall start rate.
    struct StartRateState {
        var overall: StartRateLimiter?
        var perHost: StartRateLimiter?
        /// The state of the overall rate; see ``StartRateLimiter``. The state of a host's rate is stored with the host.
        var due: UInt64 = 0
        /// The time when the next operation may start; 0 if it may start now.
        var opensAt: UInt64 = 0
        /// The hosts, or nil for all, whose next start time has changed and whose timers must be set.
        var wakes: [HostKey?] = []
    }

    /// Whether any rate is set.
    var isPaced: Bool { pacing.overall != nil || pacing.perHost != nil }

    /// Whether the overall rate holds back all operations that have a host.
    var isOutOfStarts: Bool { pacing.opensAt != 0 }

    /// Changes the overall rate.
    mutating func setStartRate(_ rate: StartRate?, at now: UInt64) {
        pacing.overall = rate.map(StartRateLimiter.init)
        pacing.due = pacing.overall?.due(limiting: pacing.due, at: now) ?? 0
        pacing.opensAt = pacing.overall?.nextStart(pacing.due, at: now) ?? 0
        if isOutOfStarts { pacing.wakes.append(nil) }
    }

    /// Changes the rate of each host.
    mutating func setStartRatePerHost(_ rate: StartRate?, at now: UInt64) {
        pacing.perHost = rate.map(StartRateLimiter.init)
        for index in hosts.hosts.indices.dropFirst().map({ Int32($0) }) {
            hosts[index].startDue = pacing.perHost?.due(limiting: hosts[index].startDue, at: now) ?? 0
            hosts[index].startsAt = pacing.perHost?.nextStart(hosts[index].startDue, at: now) ?? 0
            if hosts[index].startsAt != 0 { pacing.wakes.append(hosts[index].key) }
            update(index)
        }
    }

    /// Counts a start. Must be called before the host's position is updated.
    mutating func noteStart(ofHost host: Int32, at now: UInt64) {
        guard host > 0 else { return }
        if let pace = pacing.overall {
            pacing.due = pace.due(after: pacing.due, startAt: now)
            pacing.opensAt = pace.nextStart(pacing.due, at: now)
            if isOutOfStarts { pacing.wakes.append(nil) }
        }
        if let pace = pacing.perHost {
            hosts.noteStart(of: host, due: pace.due(after: hosts[host].startDue, startAt: now), at: now)
            hosts[host].startsAt = pace.nextStart(hosts[host].startDue, at: now)
            if hosts[host].startsAt != 0 { pacing.wakes.append(hosts[host].key) }
        }
    }

    /// Returns the time when a host (nil for all hosts) may start operations again; nil if it may start them now.
    func startDeadline(of key: HostKey?) -> UInt64? {
        let time = key.map { key in hosts.knownIndex(of: key).map { hosts[$0].startsAt } ?? 0 } ?? pacing.opensAt
        return time == 0 ? nil : time
    }

    /// Lets operations for a host (nil for all hosts) start again, unless a change to the rate has delayed their start.
    mutating func resumeStarts(of key: HostKey?, at now: UInt64) {
        guard let key else {
            if pacing.opensAt <= now { pacing.opensAt = 0 }
            return
        }
        guard let host = hosts.knownIndex(of: key), hosts[host].startsAt != 0, hosts[host].startsAt <= now else { return }
        hosts[host].startsAt = 0
        update(host)
    }
}

/// The times at which operations may start under a ``StartRate``, in nanoseconds of the queue's clock.
///
/// The only state is the time at which the rate, without a burst, would allow the next start. (This is the generic cell
/// rate algorithm: a token bucket that does not have to be refilled.)
struct StartRateLimiter {
    let rate: StartRate
    private let interval: UInt64
    /// The time by which a burst lets an operation start earlier than the rate alone would.
    private let slack: UInt64

    init(_ rate: StartRate) {
        self.rate = rate
        interval = Nanoseconds.clamping(seconds: 1 / rate.startsPerSecond)
        let (slack, overflow) = interval.multipliedReportingOverflow(by: UInt64(rate.burst - 1))
        self.slack = overflow ? Nanoseconds.longest : min(slack, Nanoseconds.longest)
    }

    /// Returns the state after a start.
    ///
    /// - Parameter due: The state before the start; 0 for none.
    func due(after due: UInt64, startAt now: UInt64) -> UInt64 {
        guard rate.spread > 0 else { return Self.sum(max(due, now), interval) }
        let factor = Double.random(in: (1 - rate.spread)...(1 + rate.spread))
        return Self.sum(max(due, now), Nanoseconds.clamping(seconds: factor / rate.startsPerSecond))
    }

    /// Returns the state to use when this rate replaces another: at most the state after a full burst.
    func due(limiting due: UInt64, at now: UInt64) -> UInt64 { min(due, Self.sum(Self.sum(now, slack), interval)) }

    /// Returns the time when the next operation may start; 0 if it may start now.
    func nextStart(_ due: UInt64, at now: UInt64) -> UInt64 {
        let time = due > slack ? due - slack : 0
        return time > now ? time : 0
    }

    private static func sum(_ first: UInt64, _ second: UInt64) -> UInt64 {
        let (sum, overflow) = first.addingReportingOverflow(second)
        return overflow ? .max : sum
    }
}

/// The rate at which operations may start.
///
/// ```swift
/// queue.maximumStartRate = StartRate(perSecond: 20, burst: 5)
/// queue.maximumStartRatePerHost = StartRate(perSecond: 100.0 / 3600)  // a hundred an hour
/// ```
public struct StartRate: Sendable, Hashable {
    /// The long-term number of starts per second.
    public let startsPerSecond: Double

    /// The number of operations that may start at once after an idle time. With 1, they start at even intervals.
    public let burst: Int

    /// The random variation of the time between two starts. With 0.5, the time varies from 50% to 150%; with 0, it does
    /// not vary.
    public let spread: Double

    /// Creates a rate.
    ///
    /// - Parameters:
    ///   - startsPerSecond: The number of starts per second; may be less than one.
    ///   - burst: The number of operations that may start at once after an idle time.
    ///   - spread: The random variation of the time between two starts, clamped to the range from 0 to 1.
    /// - Precondition: `startsPerSecond` is positive, and `burst` is at least 1.
    public init(perSecond startsPerSecond: Double, burst: Int = 1, spread: Double = 0) {
        precondition(
            startsPerSecond > 0,
            "Invalid rate \(startsPerSecond): use a positive rate, or set isSuspended to stop all starts.")
        precondition(burst >= 1, "Invalid burst \(burst): it must be at least 1.")
        self.startsPerSecond = startsPerSecond
        self.burst = burst
        self.spread = spread > 0 ? min(spread, 1) : 0
    }
}
