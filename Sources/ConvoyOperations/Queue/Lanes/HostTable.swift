/// The hosts of a queue's operations, with their running counts, gates and lanes.
///
/// Index 0 stands for operations without a host; it has no limit and no gate.
struct HostTable {
    struct Host {
        var key: HostKey?
        /// Operations in the queue; a host without any can be removed.
        var members = 0
        /// Slots taken.
        var running = 0
        /// The turn at which the host was last served. Among equals, the one served longest ago comes first.
        var turn: UInt64 = 0
        /// When the gate opens, in nanoseconds of the queue's clock; 0 if it is open.
        var gate: UInt64 = 0
        /// Distinguishes this closing of the gate from others.
        var gateNumber: UInt32 = 0
        /// Since when the host refuses connections, as far as is known; 0 if it does not.
        var refusedSince: UInt64 = 0
        /// Whether the gate, when its time is over, lets only one through at a time, until the host has answered.
        var needsProbe = false
        /// Whether that time is over.
        var isHalfOpen = false
        /// The operation that was let through, to see whether the host is back; -1 for none.
        var probe: Int32 = -1

        /// What is remembered of the starts under the rate of each host; see ``StartPace``.
        var startDue: UInt64 = 0
        /// When the rate lets another operation start; 0 for now.
        var startsAt: UInt64 = 0

        /// Whether redirected operations wait for a slot.
        var hasRedirected: Bool {
            !lanes[PriorityLevel.redirected].isEmpty || !waitingLanes[PriorityLevel.redirected].isEmpty
        }

        /// Whether what waits at the gate may start.
        var letsWaitingPass: Bool { gate == 0 || isHalfOpen && probe < 0 }
        /// The levels in which operations of the host are ready.
        var levels = PriorityLevels()
        /// For each level, and for the redirected, the ready operations that pass a closed gate.
        var lanes = InlineArray<6, LinkTable.List>(repeating: LinkTable.List())
        /// For each level, and for the redirected, the ready operations that wait at a closed gate.
        var waitingLanes = InlineArray<6, LinkTable.List>(repeating: LinkTable.List())
        /// For each of these, the first waiting operation that may not have been told of the closed gate, or -1.
        var untold = InlineArray<6, Int32>(repeating: -1)
        var isToBeTold = false
        /// Whether redirected operations may have become able to go on.
        var isToGoOn = false
        /// The host's place in the heap of each level, or -1.
        var places = InlineArray<5, Int32>(repeating: -1)
    }

    private(set) var hosts: ContiguousArray<Host> = [Host()]
    private var indices: [ObjectIdentifier: Int32] = [:]
    private var free: [Int32] = []
    /// How many hosts have no operations and no closed gate.
    private var unused = 0
    /// How many of them could not be removed when that was last tried, as their starts are still to be remembered.
    private var remembered = 0
    /// The time of the last start under a rate.
    private var lastStart: UInt64 = 0
    private var gateCount: UInt32 = 0

    /// How many unused hosts are kept, so that operations that come one by one do not each add their host again.
    private static let mostUnused = 64

    subscript(index: Int32) -> Host {
        _read { yield hosts[Int(index)] }
        _modify { yield &hosts[Int(index)] }
    }

    /// The index of a host, if the table has it.
    func knownIndex(of key: HostKey) -> Int32? {
        let guess = key.lastIndex.load(ordering: .relaxed)
        if Int(guess) < hosts.count, hosts[Int(guess)].key === key { return guess }
        guard let index = indices[ObjectIdentifier(key)] else { return nil }
        key.lastIndex.store(index, ordering: .relaxed)
        return index
    }

    /// The index of a host, which is added if it is new.
    mutating func index(of key: HostKey?) -> Int32 {
        guard let key else { return 0 }
        if let index = knownIndex(of: key) { return index }
        let index: Int32
        if let reused = free.popLast() {
            index = reused
            hosts[Int(index)] = Host(key: key)
        } else {
            index = Int32(hosts.count)
            hosts.append(Host(key: key))
        }
        unused += 1
        indices[ObjectIdentifier(key)] = index
        key.lastIndex.store(index, ordering: .relaxed)
        return index
    }

    /// Counts an operation of a host.
    mutating func join(_ index: Int32) {
        guard index > 0 else { return }
        if isUnused(index) { unused -= 1 }
        hosts[Int(index)].members += 1
    }

    mutating func leave(_ index: Int32) {
        guard index > 0 else { return }
        hosts[Int(index)].members -= 1
        if hosts[Int(index)].members == 0 {
            // Nobody is left to find out whether it is back.
            hosts[Int(index)].refusedSince = 0
            if hosts[Int(index)].isHalfOpen { return openGate(of: index) }
        }
        if isUnused(index) { didBecomeUnused() }
    }

    private func isUnused(_ index: Int32) -> Bool {
        hosts[Int(index)].members == 0 && hosts[Int(index)].gate == 0
    }

    private mutating func didBecomeUnused() {
        unused += 1
        // Twice as many as could not be removed, so that they are not looked at each time.
        guard unused > max(Self.mostUnused, 2 * remembered), unused > hosts.count / 2 else { return }
        remembered = 0
        for index in hosts.indices.dropFirst() where isUnused(Int32(index)) {
            guard let key = hosts[index].key else { continue }
            guard hosts[index].startDue <= lastStart else {
                remembered += 1
                continue
            }
            indices[ObjectIdentifier(key)] = nil
            hosts[index] = Host()
            free.append(Int32(index))
        }
        unused = remembered
    }

    /// Remembers a start under the rate of each host.
    mutating func noteStart(of index: Int32, due: UInt64, at now: UInt64) {
        hosts[Int(index)].startDue = due
        lastStart = max(lastStart, now)
    }

    /// The hosts whose gate is closed.
    var gated: [Int32] {
        hosts.indices.lazy.map { Int32($0) }.filter { hosts[Int($0)].gate > 0 }
    }

    /// Closes the gate of a host. False if it was closed for as long or longer before.
    mutating func closeGate(of index: Int32, until deadline: UInt64) -> Bool {
        guard index > 0, deadline > hosts[Int(index)].gate else { return false }
        if isUnused(index) { unused -= 1 }
        if hosts[Int(index)].gate == 0 {
            gateCount &+= 1
            hosts[Int(index)].gateNumber = gateCount
        }
        hosts[Int(index)].gate = deadline
        hosts[Int(index)].isHalfOpen = false
        return true
    }

    mutating func openGate(of index: Int32) {
        hosts[Int(index)].gate = 0
        hosts[Int(index)].isHalfOpen = false
        hosts[Int(index)].needsProbe = false
        hosts[Int(index)].probe = -1
        hosts[Int(index)].untold = InlineArray(repeating: -1)
        if isUnused(index) { didBecomeUnused() }
    }
}
