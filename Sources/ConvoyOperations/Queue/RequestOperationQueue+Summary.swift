import ConvoySupport
import Foundation

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
