/// The hosts of a queue's operations, with their running counts, gates, rates and lanes.
///
/// A host is identified by ``Target/place``: its name in lower case, with the port unless it is the scheme's default,
/// because two services on one machine count as two hosts. Index 0 represents operations without a host; it has no
/// limit and no gate.
struct HostTable {
    struct Host {
        /// The name; nil for operations without a host.
        var name: String?
        /// The number of operations in the queue. A host without operations can be removed.
        var members = 0
        /// The number of operations in the lanes.
        var ready = 0
        /// The number of operations that hold a slot.
        var running = 0
        /// The turn at which the host was last served. Among equals, the host served longest ago comes first.
        var turn: UInt64 = 0
        /// The time when the gate opens, in nanoseconds of the queue's clock; 0 if the gate is open.
        var gate: UInt64 = 0
        /// The time when the host began to refuse connections; 0 if it has not refused any.
        var refusedSince: UInt64 = 0
        /// Whether the gate, after its deadline, lets operations through one at a time, until the host has answered.
        var needsProbe = false
        /// Whether the gate's deadline has passed, so that a probe may pass.
        var isHalfOpen = false
        /// The operation that was let through as a probe; -1 for none.
        var probe: Int32 = -1

        /// The state of the host's start rate; see ``StartRateLimiter``.
        var startDue: UInt64 = 0
        /// The time when the rate lets the next operation start; 0 if it may start now.
        var startsAt: UInt64 = 0

        /// Two lanes of ready operations for each level: those that pass a closed gate, and those that wait at it.
        var lanes = InlineArray<12, IndexLinkedLists.List>(repeating: IndexLinkedLists.List())
        /// The host's position in the heap of each level, or -1.
        var places = InlineArray<6, Int32>(repeating: -1)

        /// Whether operations that wait at the gate may start.
        var letsWaitingPass: Bool { gate == 0 || isHalfOpen && probe < 0 }

        mutating func openGate() {
            gate = 0
            isHalfOpen = false
            needsProbe = false
            probe = -1
        }
    }

    private(set) var hosts: ContiguousArray<Host> = [Host()]
    private var indices: [String: Int32] = [:]
    private var free: [Int32] = []
    /// The number of hosts at which unused ones are removed.
    private var sweepAt = Self.leastSweep
    private static let leastSweep = 64

    subscript(index: Int32) -> Host {
        _read { yield hosts[Int(index)] }
        _modify { yield &hosts[Int(index)] }
    }

    /// Returns the index of a host; nil if it is not in the table.
    func knownIndex(of name: String) -> Int32? { indices[name] }

    /// Returns the index of a host, adding it if it is new.
    ///
    /// - Parameter now: The time, which is read before other hosts are removed.
    mutating func index(of name: String?, now: @autoclosure () -> UInt64) -> Int32 {
        guard let name else { return 0 }
        if let index = indices[name] { return index }
        if indices.count >= sweepAt { removeUnused(now: now()) }
        let index = free.popLast() ?? Int32(hosts.count)
        if Int(index) == hosts.count { hosts.append(Host()) }
        hosts[Int(index)].name = name
        indices[name] = index
        return index
    }

    /// Removes the hosts that have no operations, no closed gate, and no starts that still count towards a rate.
    ///
    /// The next removal takes place when the number of hosts has doubled, so that the cost per new host is low.
    private mutating func removeUnused(now: UInt64) {
        for (name, index) in indices {
            let host = hosts[Int(index)]
            guard host.members == 0, host.gate == 0, host.startDue <= now else { continue }
            indices[name] = nil
            hosts[Int(index)] = Host()
            free.append(index)
        }
        sweepAt = max(Self.leastSweep, 2 * indices.count)
    }

    /// The hosts whose gate is closed.
    var gated: [Int32] { hosts.indices.map { Int32($0) }.filter { hosts[Int($0)].gate > 0 } }
}
