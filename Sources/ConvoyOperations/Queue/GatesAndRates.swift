import ConvoySupport
import Foundation

/// The gates of the hosts. A gate that is closed holds back the operations that wait at it, until its deadline or until
/// it is opened.
extension ReadyQueue {
    /// The operations that may have to be notified of a closed gate, and the timers that may have to be changed.
    struct GateReports {
        /// The operations that have begun to wait at a closed gate since the last notification.
        var waiting: [Int32] = []
        /// The hosts, or nil for all, whose ``wakeTime(of:)`` may have changed.
        var wakes: [String?] = []

        var isEmpty: Bool { waiting.isEmpty && wakes.isEmpty }
    }

    /// Sets whether an operation waits while its host's gate is closed. Called before it is added to a lane.
    mutating func setWaitsAtGate(_ waits: Bool, of slot: Int32) {
        entries[Int(slot)].waitsAtGate = waits
        entries[Int(slot)].isRedirected = false
    }

    /// Closes a host's gate until the given time. A gate that is already closed for at least that long is unchanged.
    ///
    /// - Parameter patience: For a host that has refused a connection, the time in nanoseconds after which its gate is
    ///   opened instead, and each operation fails individually. From the deadline on, the gate lets operations through
    ///   one at a time, until the host has answered. nil for a host that has specified how long to wait.
    mutating func closeGate(of name: String, until deadline: UInt64, patience: UInt64?) {
        let now = clock.now
        guard patience != nil || deadline > now else { return }
        let host = hosts.index(of: name, now: now)
        if let patience {
            if hosts[host].refusedSince == 0 { hosts[host].refusedSince = max(now, 1) }
            if now > hosts[host].refusedSince, now - hosts[host].refusedSince > patience {
                if hosts[host].needsProbe { openGate(host) }
                return
            }
        } else {
            hosts[host].refusedSince = 0
        }
        hosts[host].needsProbe = patience != nil
        closeGate(of: host, until: max(deadline, now &+ 1))
    }

    private mutating func closeGate(of host: Int32, until deadline: UInt64) {
        guard deadline > hosts[host].gate else { return }
        if hosts[host].gate == 0 {
            for level in 0...PriorityLevel.redirected {
                var slot = hosts[host].lanes[2 * level + 1].head
                while slot >= 0 {
                    gates.waiting.append(slot)
                    slot = laneLinks.next(after: slot)
                }
            }
        }
        hosts[host].gate = deadline
        hosts[host].isHalfOpen = false
        gates.wakes.append(hosts[host].name)
        update(host)
    }

    /// Records that a host which had refused connections has answered.
    mutating func noteAnswer(of name: String) {
        guard let host = hosts.knownIndex(of: name) else { return }
        hosts[host].refusedSince = 0
        if hosts[host].needsProbe { openGate(host) }
    }

    /// Returns whether an operation that is about to start must report an answer of its host.
    func reportsAnswer(_ slot: Int32) -> Bool {
        entries[Int(slot)].waitsAtGate && hosts[entries[Int(slot)].host].refusedSince != 0
    }

    /// Called when a host has no operations left that could detect whether it has recovered.
    mutating func lastMemberDidLeave(_ host: Int32) {
        hosts[host].refusedSince = 0
        if hosts[host].isHalfOpen { openGate(host) }
    }

    /// Opens a host's gate. Returns false if it was open.
    mutating func openGate(of name: String) -> Bool {
        guard let host = hosts.knownIndex(of: name), hosts[host].gate > 0 else { return false }
        openGate(host)
        return true
    }

    mutating func openAllGates() {
        for host in hosts.gated { openGate(host) }
    }

    private mutating func openGate(_ host: Int32) {
        hosts[host].openGate()
        gates.wakes.append(hosts[host].name)
        update(host)
    }

    /// The closed gates. Reading this property takes time proportional to the number of hosts.
    var closedGates: [(host: String, deadline: UInt64)] {
        hosts.gated.compactMap { index in hosts[index].name.map { ($0, hosts[index].gate) } }
    }

    /// Returns the time when the closed gate of an operation's host opens.
    func gateDeadline(of slot: Int32) -> UInt64 { hosts[entries[Int(slot)].host].gate }

    /// Records that an operation in a lane begins to wait at its host's gate, if that is closed.
    mutating func noteWaitAtGate(of slot: Int32) {
        if entries[Int(slot)].waitsAtGate, gateDeadline(of: slot) > 0 { gates.waiting.append(slot) }
    }

    // MARK: Timers

    /// Returns the time when a host, or all hosts if nil, must be woken with ``wake(_:at:)``; nil for never.
    func wakeTime(of name: String?) -> UInt64? {
        guard let name else { return rates.opensAt == 0 ? nil : rates.opensAt }
        guard let host = hosts.knownIndex(of: name).map({ hosts[$0] }) else { return nil }
        return [host.isHalfOpen ? 0 : host.gate, host.startsAt].filter { $0 > 0 }.min()
    }

    /// Opens a host's gate and lets the host, or all hosts if nil, start operations again, if their times have come: both
    /// may have been postponed. The gate of a host that has refused connections lets only a probe through.
    mutating func wake(_ name: String?, at now: UInt64) {
        guard let name else {
            if rates.opensAt <= now { rates.opensAt = 0 }
            return
        }
        guard let host = hosts.knownIndex(of: name) else { return }
        if hosts[host].startsAt <= now { hosts[host].startsAt = 0 }
        if hosts[host].gate > 0, hosts[host].gate <= now {
            guard hosts[host].needsProbe, hosts[host].members > 0 else { return openGate(host) }
            hosts[host].isHalfOpen = true
        }
        update(host)
    }
}

/// The rates at which operations may start, in total and per host. Operations without a host send no request: they are
/// neither counted nor held back.
extension ReadyQueue {
    /// The start rates, and the state of the overall rate. The state of a host's rate is stored with the host.
    struct StartRates {
        var overall: StartRateLimiter?
        var perHost: StartRateLimiter?
        /// The state of the overall rate; see ``StartRateLimiter``.
        var due: UInt64 = 0
        /// The time when the next operation may start; 0 if it may start now.
        var opensAt: UInt64 = 0
    }

    /// Whether the overall rate holds back all operations that have a host.
    var isOutOfStarts: Bool { rates.opensAt != 0 }

    /// Changes the overall rate.
    mutating func setStartRate(_ rate: StartRate?) {
        let now = clock.now
        rates.overall = rate.map(StartRateLimiter.init)
        rates.due = rates.overall?.due(limiting: rates.due, at: now) ?? 0
        rates.opensAt = rates.overall?.nextStart(rates.due, at: now) ?? 0
        gates.wakes.append(nil)
    }

    /// Changes the rate of each host.
    mutating func setStartRatePerHost(_ rate: StartRate?) {
        let now = clock.now
        rates.perHost = rate.map(StartRateLimiter.init)
        for index in hosts.hosts.indices.dropFirst().map({ Int32($0) }) where hosts[index].name != nil {
            hosts[index].startDue = rates.perHost?.due(limiting: hosts[index].startDue, at: now) ?? 0
            hosts[index].startsAt = rates.perHost?.nextStart(hosts[index].startDue, at: now) ?? 0
            gates.wakes.append(hosts[index].name)
            update(index)
        }
    }

    /// Counts a start. Must be called before the host's position is updated.
    mutating func noteStart(ofHost host: Int32) {
        guard host > 0, rates.overall != nil || rates.perHost != nil else { return }
        let now = clock.now
        if let limiter = rates.overall {
            rates.due = limiter.due(after: rates.due, startAt: now)
            rates.opensAt = limiter.nextStart(rates.due, at: now)
            if isOutOfStarts { gates.wakes.append(nil) }
        }
        if let limiter = rates.perHost {
            hosts[host].startDue = limiter.due(after: hosts[host].startDue, startAt: now)
            hosts[host].startsAt = limiter.nextStart(hosts[host].startDue, at: now)
            if hosts[host].startsAt != 0 { gates.wakes.append(hosts[host].name) }
        }
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
