/// The hosts that a queue has operations for, and what holds each back: its limit and its gate.
///
/// Index 0 stands for operations without a host; it has no limit and no gate.
struct HostTable {
    struct Host {
        var name: String?
        /// Operations in the queue, so that a host without any can be forgotten.
        var members = 0
        /// Slots taken.
        var running = 0
        /// The turn at which it was served last: among equals the longest unserved goes first.
        var turn: UInt64 = 0
        /// Until when nothing is started, in nanoseconds of the queue's clock; 0 for an open gate.
        var gate: UInt64 = 0
        var lanes = InlineArray<5, IndexList>(repeating: IndexList())
        /// Its place in the heap of each level, or -1.
        var places = InlineArray<5, Int32>(repeating: -1)
    }

    private(set) var hosts: ContiguousArray<Host> = [Host()]
    private var indices: [String: Int32] = [:]
    private var free: [Int32] = []
    private var gated: [Int32] = []

    subscript(index: Int32) -> Host {
        _read { yield hosts[Int(index)] }
        _modify { yield &hosts[Int(index)] }
    }

    /// The index of a host, which is added if it is new.
    mutating func index(of name: String?) -> Int32 {
        guard let name else { return 0 }
        if let index = indices[name] { return index }
        let index: Int32
        if let reused = free.popLast() {
            index = reused
            hosts[Int(index)] = Host(name: name)
        } else {
            index = Int32(hosts.count)
            hosts.append(Host(name: name))
        }
        indices[name] = index
        return index
    }

    /// Forgets a host that has no operations and an open gate.
    mutating func releaseIfUnused(_ index: Int32) {
        guard index > 0, hosts[Int(index)].members == 0, hosts[Int(index)].gate == 0,
            let name = hosts[Int(index)].name
        else { return }
        indices[name] = nil
        hosts[Int(index)] = Host()
        free.append(index)
    }

    /// Closes the gate of a host. A gate that is closed for longer stays so.
    mutating func closeGate(of index: Int32, until deadline: UInt64) -> Bool {
        guard index > 0, deadline > hosts[Int(index)].gate else { return false }
        if hosts[Int(index)].gate == 0 { gated.append(index) }
        hosts[Int(index)].gate = deadline
        return true
    }

    /// Opens the gates that are due, and returns their hosts.
    mutating func openGates(at now: UInt64) -> [Int32] {
        guard !gated.isEmpty else { return [] }
        let due = gated.filter { hosts[Int($0)].gate <= now }
        gated.removeAll { hosts[Int($0)].gate <= now }
        for index in due { hosts[Int(index)].gate = 0 }
        return due
    }
}
