import Foundation

/// The ready operations that lack a slot, in the order in which they will be granted one.
///
/// The operations are ordered by level. Within a level, the host with the fewest running operations comes first, then
/// the host that was served longest ago; within a host, the order is first in, first out. So a slow host that holds
/// many slots cannot delay a fast one. Every call takes O(log hosts).
///
/// Each operation is in two lists: a lane of its host and level, and the list of its level by age, whose head is
/// promoted to the next level first. A host has two lanes in each level: one for operations that wait while its gate is
/// closed, and one for operations that pass it. Operations are numbered, which gives both lanes a common order.
///
/// Members that are not private are used by `GatesAndRates.swift`.
struct ReadyQueue: ~Copyable {
    struct Entry {
        var since: UInt64 = 0
        /// The order within a host: the lower number comes first.
        var number: UInt64 = 0
        var host: Int32 = 0
        var level: Int8 = 2
        var waitsAtGate = false
        /// Whether the operation was started before and continues at another host, so that the rates count no start.
        var isRedirected = false
    }

    let clock: any SchedulingClock
    /// The time after which an operation is promoted to the next level, in nanoseconds; nil for no aging.
    var agingInterval: UInt64? = 30_000_000_000

    var entries: ContiguousArray<Entry> = []
    /// The links of the lanes. The queue may use the links of an operation that is in no lane.
    var laneLinks = IndexLinkedLists()
    private var ageLinks = IndexLinkedLists()
    private var ages = InlineArray<6, IndexLinkedLists.List>(repeating: IndexLinkedLists.List())
    /// The hosts of each level that have an operation which could start if a slot were free.
    private var heaps = InlineArray<6, [Int32]>(repeating: [])
    private var turn: UInt64 = 0
    private var lastNumber: UInt64 = 0

    var hosts = HostTable()
    var gates = GateReports()
    var rates = StartRates()

    /// The maximum number of running operations per host.
    var limitPerHost = Int.max {
        didSet { for index in hosts.hosts.indices { update(Int32(index)) } }
    }

    init(clock: any SchedulingClock) { self.clock = clock }

    /// Makes room for one more slot.
    mutating func grow() {
        entries.append(Entry())
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

    /// The current host of an operation; nil for none.
    func host(of slot: Int32) -> String? { hosts[entries[Int(slot)].host].name }

    /// Changes the host of an operation that is not in a lane and is not counted as running.
    mutating func move(_ slot: Int32, toHost name: String?) {
        let host = hosts.index(of: name, now: clock.now)
        let old = entries[Int(slot)].host
        guard old != host else { return }
        entries[Int(slot)].host = host
        if host > 0 { hosts[host].members += 1 }
        guard old > 0 else { return }
        hosts[old].members -= 1
        if hosts[old].members == 0 { lastMemberDidLeave(old) }
    }

    // MARK: Lanes

    func level(of slot: Int32) -> Int { Int(entries[Int(slot)].level) }

    /// Sets the level of an operation that is not in a lane.
    mutating func setLevel(_ level: Int, of slot: Int32) { entries[Int(slot)].level = Int8(level) }

    mutating func push(_ slot: Int32, level: Int) {
        lastNumber += 1
        entries[Int(slot)].level = Int8(level)
        entries[Int(slot)].since = agingInterval == nil ? 0 : clock.now
        entries[Int(slot)].number = lastNumber
        let host = entries[Int(slot)].host
        hosts[host].ready += 1
        laneLinks.append(slot, to: &hosts[host].lanes[lane(of: slot)])
        ageLinks.append(slot, to: &ages[level])
        update(host, level: level)
    }

    mutating func remove(_ slot: Int32) {
        let (host, level) = (entries[Int(slot)].host, level(of: slot))
        hosts[host].ready -= 1
        laneLinks.remove(slot, from: &hosts[host].lanes[lane(of: slot)])
        ageLinks.remove(slot, from: &ages[level])
        update(host, level: level)
    }

    private func lane(of slot: Int32) -> Int { 2 * level(of: slot) + (entries[Int(slot)].waitsAtGate ? 1 : 0) }

    /// Returns the first operation of a host and level that the gate lets pass; -1 for none.
    private func head(ofHost host: Int32, level: Int) -> Int32 {
        let passing = hosts[host].lanes[2 * level].head
        guard hosts[host].letsWaitingPass else { return passing }
        let waiting = hosts[host].lanes[2 * level + 1].head
        guard passing >= 0, waiting >= 0 else { return max(passing, waiting) }
        return entries[Int(passing)].number < entries[Int(waiting)].number ? passing : waiting
    }

    // MARK: Starting

    /// Whether an operation exists that its host, its gate and the rates would let start.
    var hasStartable: Bool { firstStartableLevel != nil }

    /// The first level in which an operation could start. Rates do not apply to operations without a host.
    private var firstStartableLevel: Int? {
        for level in 0..<PriorityLevel.count {
            if isOutOfStarts ? head(ofHost: 0, level: level) >= 0 : !heaps[level].isEmpty { return level }
        }
        return nil
    }

    /// Returns whether the limit and the rate of a host let another of its operations start. The rate does not apply to
    /// a redirected operation.
    private func mayStartMore(_ host: Int32, level: Int) -> Bool {
        host == 0
            || hosts[host].running < limitPerHost && (hosts[host].startsAt == 0 || level == PriorityLevel.redirected)
    }

    /// Returns whether an operation that is not in a lane is let through by its host's gate.
    private func passesGate(_ slot: Int32) -> Bool {
        !entries[Int(slot)].waitsAtGate || hosts[entries[Int(slot)].host].letsWaitingPass
    }

    /// Removes the next operation that may start, and counts it as running.
    mutating func pop() -> Int32? {
        promote()
        guard let level = firstStartableLevel, let host = isOutOfStarts ? 0 : heaps[level].first else { return nil }
        return take(head(ofHost: host, level: level))
    }

    private mutating func take(_ slot: Int32) -> Int32 {
        remove(slot)
        countAsRunning(slot)
        return slot
    }

    private mutating func countAsRunning(_ slot: Int32) {
        let host = entries[Int(slot)].host
        if hosts[host].isHalfOpen, entries[Int(slot)].waitsAtGate { hosts[host].probe = slot }
        turn += 1
        hosts[host].turn = turn
        hosts[host].running += 1
        if !entries[Int(slot)].isRedirected { noteStart(ofHost: host) }
        update(host)
    }

    /// Releases the slot of a running operation.
    mutating func didStop(_ slot: Int32) {
        let host = entries[Int(slot)].host
        // Let the next operation be the probe.
        if hosts[host].probe == slot { hosts[host].probe = -1 }
        hosts[host].running -= 1
        update(host)
    }

    // MARK: Redirects

    /// Moves a running operation to the host that it was redirected to. Releases the slot of its own host, and takes a
    /// slot of the other host. Returns false if the operation has to wait for that slot.
    mutating func redirect(_ slot: Int32, to name: String) -> Bool {
        guard host(of: slot) != name else { return true }
        didStop(slot)
        move(slot, toHost: name)
        entries[Int(slot)].isRedirected = true
        guard mayStartMore(entries[Int(slot)].host, level: PriorityLevel.redirected), passesGate(slot) else {
            push(slot, level: PriorityLevel.redirected)
            noteWaitAtGate(of: slot)
            return false
        }
        countAsRunning(slot)
        return true
    }

    /// Returns the next redirected operation whose host has a free slot, and takes the slot for it.
    mutating func popRedirected() -> Int32? {
        let level = PriorityLevel.redirected
        return heaps[level].first.map { take(head(ofHost: $0, level: level)) }
    }

    // MARK: Aging

    /// Promotes every operation that has waited in its level for the aging interval to the next higher level.
    private mutating func promote() {
        // Age matters only if operations of several levels wait.
        guard let agingInterval, (0..<PriorityLevel.count).count(where: { !ages[$0].isEmpty }) > 1 else { return }
        let now = clock.now
        for level in 1..<PriorityLevel.count {
            while !ages[level].isEmpty, now >= entries[Int(ages[level].head)].since &+ agingInterval {
                let slot = ages[level].head
                remove(slot)
                push(slot, level: level - 1)
            }
        }
    }

    // MARK: The heap of each level

    /// Restores the position of a host in the heaps of all levels after a change.
    mutating func update(_ host: Int32) {
        guard hosts[host].ready > 0 else { return }
        for level in 0...PriorityLevel.redirected { update(host, level: level) }
    }

    private mutating func update(_ host: Int32, level: Int) {
        let place = Int(hosts[host].places[level])
        if head(ofHost: host, level: level) >= 0, mayStartMore(host, level: level) {
            if place >= 0 {
                siftDown(siftUp(place, level: level), level: level)
            } else {
                heaps[level].append(host)
                hosts[host].places[level] = Int32(heaps[level].count - 1)
                _ = siftUp(heaps[level].count - 1, level: level)
            }
        } else if place >= 0 {
            let last = heaps[level].removeLast()
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
        while place > 0, precedes(heaps[level][place], heaps[level][(place - 1) / 2]) {
            exchange(place, (place - 1) / 2, level: level)
            place = (place - 1) / 2
        }
        return place
    }

    private mutating func siftDown(_ start: Int, level: Int) {
        var place = start
        while true {
            var least = place
            for child in 2 * place + 1...2 * place + 2
            where child < heaps[level].count && precedes(heaps[level][child], heaps[level][least]) {
                least = child
            }
            guard least != place else { return }
            exchange(place, least, level: level)
            place = least
        }
    }

    private mutating func exchange(_ first: Int, _ second: Int, level: Int) {
        heaps[level].swapAt(first, second)
        hosts[heaps[level][first]].places[level] = Int32(first)
        hosts[heaps[level][second]].places[level] = Int32(second)
    }
}

extension ReadyQueue {
    /// Returns the reason why an operation in a lane is held back, apart from the queue's own limit.
    func waitReason(of slot: Int32) -> WaitReason {
        guard passesGate(slot) else { return .closedGate }
        // Neither a limit nor a rate applies to operations without a host.
        let host = entries[Int(slot)].host
        guard host != 0 else { return .slot }
        if hosts[host].running >= limitPerHost { return .hostLimit }
        return hosts[host].startsAt != 0 || isOutOfStarts ? .startRate : .slot
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
        let priority = operation.queuePriority.rawValue
        if priority != 0 || isSerial { return min(max(2 - priority / 4, 0), count - 1) }
        return switch operation.qualityOfService {
        case .userInteractive: 0
        case .userInitiated: 1
        case .utility: 3
        case .background: 4
        default: 2
        }
    }
}
