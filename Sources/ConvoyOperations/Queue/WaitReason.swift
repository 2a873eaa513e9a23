import Foundation

/// The reason why an operation waits.
///
/// ``ScheduledOperation/waitReason`` is the current reason. In events and metrics, the reason is determined when the
/// operation begins to wait: if the limit of its host is reached while it waits for a slot, the reason does not change;
/// a gate that closes in the meantime is reported.
public enum WaitReason: String, Sendable, Hashable, CaseIterable {
    /// The operation was neither started nor added to a `RequestOperationQueue`. All waiting in a Foundation queue has
    /// this reason, because Foundation does not report what its operations wait for.
    case start
    /// At least one dependency of the operation has not finished.
    case dependencies
    /// The operation's class has declared, with `isReady`, that it is not ready.
    case condition
    /// A barrier of the operation's queue, or an operation before the barrier, has not finished.
    case barrier
    /// The operation's queue is suspended.
    case suspendedQueue
    /// The operation's queue has reached its limit of concurrent operations.
    case slot
    /// The limit of concurrent operations for its host has been reached.
    case hostLimit
    /// The start rate of the queue, in total or for its host, has been reached.
    case startRate
    /// The gate of the operation's host is closed, because the host has requested a delay or has refused connections.
    case closedGate
    /// The operation has failed, and will be retried.
    case retry
    /// The network is unavailable.
    case connectivity
    /// The operation's `Authenticator` is obtaining a token.
    case token
    /// A handler has not yet answered a request for a credential.
    case challenge
    /// The operation is paused.
    case pause
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

extension RequestOperationQueue {
    /// A summary of the operations in the queue, for ``description``.
    var summary: String {
        let members = scheduler.members.filter { !$0.flags.contains(.barrier) }.compactMap(\.operation)
        var reasons: [WaitReason: Int] = [:]
        var hosts: [String: (running: Int, waiting: Int)] = [:]
        var unstarted = 0
        for member in members {
            let reason = member.waitReason
            if let reason { reasons[reason, default: 0] += 1 }
            if reason == .dependencies, member.waitsForUnstarted { unstarted += 1 }
            guard let host = scheduler.state.withLock({ $0.host(of: member) }) ?? member.schedulingHost else { continue }
            if reason == nil { hosts[host, default: (0, 0)].running += 1 } else { hosts[host, default: (0, 0)].waiting += 1 }
        }
        let waiting = reasons.values.reduce(0, +)
        // Foundation names a queue without a name after its class and address.
        let givenName = name.flatMap { $0.hasPrefix("NSOperationQueue 0x") ? nil : " \"\($0)\"" } ?? ""
        let title = "\(type(of: self))\(givenName)\(isSuspended ? " (suspended)" : "")"
        var lines = ["\(title): \(members.count - waiting) running, \(waiting) waiting"]
        for reason in WaitReason.allCases {
            guard let count = reasons[reason] else { continue }
            let note = reason == .dependencies && unstarted > 0 ? ", \(unstarted) for an operation that was not started" : ""
            lines.append("  \(count) waiting: \(reason.rawValue)\(note)")
        }
        let gates = Dictionary(uniqueKeysWithValues: closedGates.map { ($0.host, $0.opensAt.timeIntervalSinceNow) })
        let names = Set(hosts.keys).union(gates.keys).sorted()
        for host in names.prefix(Self.mostHostsInSummary) {
            let count = hosts[host] ?? (0, 0)
            let gate = gates[host].map { ", gate closed for \(Int(max(0, $0).rounded(.up))) s" } ?? ""
            lines.append("  \(host): \(count.running) running, \(count.waiting) waiting\(gate)")
        }
        let others = names.count - Self.mostHostsInSummary
        if others > 0 { lines.append("  and \(others) other hosts") }
        return lines.joined(separator: "\n")
    }

    private static let mostHostsInSummary = 20
}
