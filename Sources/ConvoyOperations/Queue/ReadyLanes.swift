import Foundation

/// The ready operations that lack a slot, in the order in which they will be granted one.
///
/// The operations are ordered by level. Within a level, the host with the fewest running operations comes first, then
/// the host that was served longest ago; within a host, the order is first in, first out. So a slow host that holds
/// many slots cannot delay a fast one. Every call takes O(log hosts).
///
/// Each operation is in two lists: a lane of its host and level, and the list of its level by age, whose head is
/// promoted to the next level first. A host has two lanes in each level: one for operations that wait while its gate is
/// closed, and one for operations that pass it. Entries are numbered, which gives both lanes a common order.
///
/// Members that are not private are used by `ReadyLanes+GatesAndRates.swift`.
struct ReadyLanes: ~Copyable {
    struct Entry {
        var since: UInt64 = 0
        var host: Int32 = 0
        /// The order within a host: the lower number comes first. Numbers wrap around.
        var number: UInt32 = 0
        /// The number of the gate closing that was last reported to the operation.
        var toldOfGate: UInt32 = 0
        var level: Int8 = 2
        var waitsAtGate = false
        /// Whether the operation was started before and continues at another host, so that the rates count no start.
        var isRedirected = false
    }

    var entries: ContiguousArray<Entry> = []
    /// The links of the lanes. The queue may use the links of an operation that is in no lane.
    var laneLinks = IndexLinkedLists()
    private var ageLinks = IndexLinkedLists()
    private var ages = InlineArray<5, IndexLinkedLists.List>(repeating: IndexLinkedLists.List())
    /// The levels that have ready operations.
    private var levels = PriorityLevels()
    private var heaps = InlineArray<5, [Int32]>(repeating: [])
    /// The levels in which an operation could start if a slot were free.
    private var startableLevels = PriorityLevels()
    private var turn: UInt64 = 0
    private var lastNumber: UInt32 = 0

    var hosts = HostTable()
    /// The hosts with operations to which a closed gate must be reported.
    var hostsToTell: [Int32] = []
    /// The hosts with redirected operations that may be able to continue.
    private var hostsToGoOn: [Int32] = []

    /// The rates at which operations may start.
    var pacing = StartRateState()

    /// The maximum number of running operations per host.
    var limitPerHost = Int.max {
        didSet { for index in hosts.hosts.indices { update(Int32(index)) } }
    }

    /// Whether the lanes contain an operation that its host, gate and rates would let start.
    var hasStartable: Bool { firstStartableLevel != nil }

    /// The first level in which an operation could start. Rates do not apply to operations without a host.
    private var firstStartableLevel: Int? { isOutOfStarts ? hosts[0].levels.first : startableLevels.first }

    /// Makes room for one more slot.
    mutating func grow() {
        entries.appendGrowingByAQuarter(Entry())
        laneLinks.grow()
        ageLinks.grow()
    }

    /// Frees the memory of the slots. The queue must be empty.
    mutating func releaseTables() {
        entries = []
        laneLinks.removeAll()
        ageLinks.removeAll()
    }

    // MARK: Membership

    mutating func leave(_ slot: Int32) {
        let host = entries[Int(slot)].host
        guard host > 0 else { return }
        entries[Int(slot)].host = 0
        hosts.leave(host)
    }

    /// Changes the host of an operation that is not in a lane and is not counted as running.
    mutating func move(_ slot: Int32, toHost key: HostKey?) {
        let host = hosts.index(of: key)
        let old = entries[Int(slot)].host
        guard old != host else { return }
        // The order matters: leaving a host may remove all unused hosts.
        hosts.join(host)
        hosts.leave(old)
        entries[Int(slot)].host = host
    }

    // MARK: Lanes

    func level(of slot: Int32) -> Int { Int(entries[Int(slot)].level) }

    /// Sets the level of an operation that is not in a lane.
    mutating func setLevel(_ level: Int, of slot: Int32) {
        entries[Int(slot)].level = Int8(level)
    }

    /// Counts an operation that is not in a lane as running, if its host lets it start and no operation in the lanes
    /// could start before it.
    mutating func startAtOnce(_ slot: Int32, now: () -> UInt64) -> Bool {
        guard !hasStartable else { return false }
        let host = entries[Int(slot)].host
        guard host == 0 || mayStartMore(host) && !isOutOfStarts,
            hosts[host].letsWaitingPass || !entries[Int(slot)].waitsAtGate
        else { return false }
        countAsRunning(slot, host, now: now)
        return true
    }

    mutating func push(_ slot: Int32, level: Int, now: UInt64) {
        entries[Int(slot)].level = Int8(level)
        entries[Int(slot)].since = now
        let host = entries[Int(slot)].host
        link(slot, host: host, level: level)
        hosts[host].levels.insert(level)
        ageLinks.append(slot, to: &ages[level])
        levels.insert(level)
        update(host, level: level)
    }

    mutating func remove(_ slot: Int32) {
        let (host, level) = (entries[Int(slot)].host, Int(entries[Int(slot)].level))
        unlink(slot, host: host, level: level)
        update(host, level: level)
    }

    /// Appends an operation to a lane.
    private mutating func link(_ slot: Int32, host: Int32, level: Int) {
        lastNumber &+= 1
        entries[Int(slot)].number = lastNumber
        if entries[Int(slot)].waitsAtGate {
            laneLinks.append(slot, to: &hosts[host].waitingLanes[level])
            noteUntold(slot, host: host, level: level)
        } else {
            laneLinks.append(slot, to: &hosts[host].lanes[level])
        }
    }

    private mutating func unlinkFromLane(_ slot: Int32, host: Int32, level: Int) {
        if entries[Int(slot)].waitsAtGate {
            if hosts[host].untold[level] == slot { hosts[host].untold[level] = laneLinks.next(after: slot) }
            laneLinks.remove(slot, from: &hosts[host].waitingLanes[level])
        } else {
            laneLinks.remove(slot, from: &hosts[host].lanes[level])
        }
    }

    private mutating func unlink(_ slot: Int32, host: Int32, level: Int) {
        unlinkFromLane(slot, host: host, level: level)
        if hosts[host].lanes[level].isEmpty, hosts[host].waitingLanes[level].isEmpty {
            hosts[host].levels.remove(level)
        }
        ageLinks.remove(slot, from: &ages[level])
        if ages[level].isEmpty { levels.remove(level) }
    }

    /// Returns the first operation of a host and level that the gate lets pass; -1 for none.
    private func head(ofHost host: Int32, level: Int) -> Int32 {
        let passing = hosts[host].lanes[level].head
        guard hosts[host].letsWaitingPass else { return passing }
        let waiting = hosts[host].waitingLanes[level].head
        guard passing >= 0, waiting >= 0 else { return max(passing, waiting) }
        let distance = Int32(bitPattern: entries[Int(waiting)].number &- entries[Int(passing)].number)
        return distance > 0 ? passing : waiting
    }

    /// Returns whether the limit and the rate of a host let another of its operations start.
    private func mayStartMore(_ host: Int32) -> Bool { hosts[host].running < limitPerHost && hosts[host].startsAt == 0 }

    /// Removes the next operation that may start, and counts it as running.
    mutating func pop(now: () -> UInt64) -> Int32? {
        guard let level = firstStartableLevel, let host = isOutOfStarts ? 0 : heaps[level].first else { return nil }
        let slot = head(ofHost: host, level: level)
        unlink(slot, host: host, level: level)
        // If the host has no more operations in the level, `countAsRunning` does not update that level.
        if !hosts[host].levels.contains(level) { update(host, level: level) }
        countAsRunning(slot, host, now: now)
        return slot
    }

    private mutating func countAsRunning(_ slot: Int32, _ host: Int32, now: () -> UInt64) {
        if hosts[host].isHalfOpen, entries[Int(slot)].waitsAtGate { hosts[host].probe = slot }
        turn += 1
        hosts[host].turn = turn
        hosts[host].running += 1
        if isPaced, !entries[Int(slot)].isRedirected { noteStart(ofHost: host, at: now()) }
        update(host)
    }

    // MARK: Redirects

    /// Moves a running operation to the host that it was redirected to. Releases the slot of its own host, and takes a
    /// slot of the other host. Returns false if the operation has to wait for that slot.
    mutating func redirect(_ slot: Int32, to key: HostKey) -> Bool {
        let host = hosts.index(of: key)
        guard entries[Int(slot)].host != host else { return true }
        didStop(slot)
        move(slot, toHost: key)
        entries[Int(slot)].toldOfGate = 0
        entries[Int(slot)].isRedirected = true
        guard hosts[host].running < limitPerHost, hosts[host].letsWaitingPass || !entries[Int(slot)].waitsAtGate else {
            link(slot, host: host, level: PriorityLevel.redirected)
            return false
        }
        countAsRunning(slot, host, now: { 0 })
        return true
    }

    /// Whether redirected operations may be able to continue.
    var mayHaveRedirected: Bool { !hostsToGoOn.isEmpty }

    /// Returns the next redirected operation whose host has a free slot, and takes the slot for it.
    mutating func nextRedirected() -> Int32? {
        while let host = hostsToGoOn.last {
            let slot = head(ofHost: host, level: PriorityLevel.redirected)
            if slot >= 0, hosts[host].running < limitPerHost {
                unlinkFromLane(slot, host: host, level: PriorityLevel.redirected)
                countAsRunning(slot, host, now: { 0 })
                return slot
            }
            hostsToGoOn.removeLast()
            hosts[host].isToGoOn = false
        }
        return nil
    }

    /// Records that a redirected operation has stopped, and no longer waits.
    mutating func stopWaiting(_ slot: Int32) {
        unlinkFromLane(slot, host: entries[Int(slot)].host, level: PriorityLevel.redirected)
    }

    // MARK: Removing operations

    /// Releases the slot of a running operation.
    mutating func didStop(_ slot: Int32) {
        let host = entries[Int(slot)].host
        // Let the next operation be the probe.
        if hosts[host].probe == slot { hosts[host].probe = -1 }
        hosts[host].running -= 1
        update(host)
    }

    // MARK: Aging

    /// Whether operations of several levels wait, so that age matters.
    var isMixed: Bool { levels.isMixed }

    /// Promotes every operation that has waited in its level for `interval` nanoseconds to the next higher level.
    mutating func promote(now: UInt64, interval: UInt64) {
        for level in 1..<PriorityLevel.count {
            while let slot = ages[level].isEmpty ? nil : ages[level].head,
                now >= entries[Int(slot)].since &+ interval
            {
                remove(slot)
                push(slot, level: level - 1, now: now)
            }
        }
    }

    // MARK: The heap of each level

    /// Restores the position of a host in the heaps of all its levels after a change.
    mutating func update(_ host: Int32) {
        if hosts[host].hasRedirected, !hosts[host].isToGoOn {
            hosts[host].isToGoOn = true
            hostsToGoOn.append(host)
        }
        guard !hosts[host].levels.isEmpty else { return }
        for level in 0..<PriorityLevel.count where hosts[host].levels.contains(level) { update(host, level: level) }
    }

    private mutating func update(_ host: Int32, level: Int) {
        let place = Int(hosts[host].places[level])
        let mayStart = head(ofHost: host, level: level) >= 0 && (host == 0 || mayStartMore(host))
        if mayStart {
            if place >= 0 {
                siftDown(siftUp(place, level: level), level: level)
            } else {
                heaps[level].append(host)
                startableLevels.insert(level)
                hosts[host].places[level] = Int32(heaps[level].count - 1)
                _ = siftUp(heaps[level].count - 1, level: level)
            }
        } else if place >= 0 {
            let last = heaps[level].removeLast()
            if heaps[level].isEmpty { startableLevels.remove(level) }
            hosts[host].places[level] = -1
            guard last != host else { return }
            heaps[level][place] = last
            hosts[last].places[level] = Int32(place)
            siftDown(siftUp(place, level: level), level: level)
        }
    }

    private func precedes(_ first: Int32, _ second: Int32) -> Bool {
        let (a, b) = (hosts[first].running, hosts[second].running)
        return a != b ? a < b : hosts[first].turn < hosts[second].turn
    }

    private mutating func siftUp(_ start: Int, level: Int) -> Int {
        var place = start
        while place > 0 {
            let parent = (place - 1) / 2
            guard precedes(heaps[level][place], heaps[level][parent]) else { break }
            exchange(place, parent, level: level)
            place = parent
        }
        return place
    }

    private mutating func siftDown(_ start: Int, level: Int) {
        var place = start
        while true {
            var least = place
            least = lesser(2 * place + 1, least, level: level)
            least = lesser(2 * place + 2, least, level: level)
            guard least != place else { return }
            exchange(place, least, level: level)
            place = least
        }
    }

    private func lesser(_ child: Int, _ other: Int, level: Int) -> Int {
        child < heaps[level].count && precedes(heaps[level][child], heaps[level][other]) ? child : other
    }

    private mutating func exchange(_ first: Int, _ second: Int, level: Int) {
        heaps[level].swapAt(first, second)
        hosts[heaps[level][first]].places[level] = Int32(first)
        hosts[heaps[level][second]].places[level] = Int32(second)
    }
}

/// The reasons why operations in lanes wait.
extension ReadyLanes {
    /// Returns the reason why an operation is held back, apart from the queue's own limit.
    func waitReason(of slot: Int32) -> WaitReason {
        let entry = entries[Int(slot)]
        if entry.waitsAtGate, !hosts[entry.host].letsWaitingPass { return .closedGate }
        // Neither a limit nor a rate applies to operations without a host.
        guard entry.host != 0 else { return .slot }
        if hosts[entry.host].running >= limitPerHost { return .hostLimit }
        return hosts[entry.host].startsAt != 0 || isOutOfStarts ? .startRate : .slot
    }
}

/// The five levels of `Operation.QueuePriority`, the most urgent first.
enum PriorityLevel {
    static let count = 5

    /// A separate level for redirected operations that wait for a slot of the other host. They precede all operations
    /// that have not started.
    static let redirected = 5

    /// Returns the level of an operation.
    ///
    /// As in Foundation, the quality of service replaces a priority that was not set, unless the queue is serial and
    /// therefore promises an order.
    static func level(of operation: Operation, inSerialQueue isSerial: Bool) -> Int {
        switch operation.queuePriority {
        case .veryHigh: return 0
        case .high: return 1
        case .low: return 3
        case .veryLow: return 4
        case .normal: break
        @unknown default: break
        }
        guard !isSerial else { return 2 }
        switch operation.qualityOfService {
        case .userInteractive: return 0
        case .userInitiated: return 1
        case .utility: return 3
        case .background: return 4
        case .default: return 2
        @unknown default: return 2
        }
    }
}

/// A set of priority levels, in one byte.
struct PriorityLevels {
    private var bits: UInt8 = 0

    var isEmpty: Bool { bits == 0 }
    /// The most urgent level.
    var first: Int? { bits == 0 ? nil : bits.trailingZeroBitCount }
    /// Whether the set contains more than one level.
    var isMixed: Bool { bits & (bits &- 1) != 0 }

    func contains(_ level: Int) -> Bool { bits & 1 << UInt8(level) != 0 }
    mutating func insert(_ level: Int) { bits |= 1 << UInt8(level) }
    mutating func remove(_ level: Int) { bits &= ~(1 << UInt8(level)) }
}
