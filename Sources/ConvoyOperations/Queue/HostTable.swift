import ConvoySupport
import Foundation
import Synchronization

/// The hosts of a queue's operations, with their running counts, gates and lanes.
///
/// Index 0 represents operations without a host; it has no limit and no gate.
struct HostTable {
    struct Host {
        var key: HostKey?
        /// The number of operations in the queue. A host without operations can be removed.
        var members = 0
        /// The number of operations that hold a slot.
        var running = 0
        /// The turn at which the host was last served. Among equals, the host served longest ago comes first.
        var turn: UInt64 = 0
        /// The time when the gate opens, in nanoseconds of the queue's clock; 0 if the gate is open.
        var gate: UInt64 = 0
        /// The number of the current closing of the gate.
        var gateNumber: UInt32 = 0
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

        /// Whether redirected operations wait for a slot.
        var hasRedirected: Bool {
            !lanes[PriorityLevel.redirected].isEmpty || !waitingLanes[PriorityLevel.redirected].isEmpty
        }

        /// Whether operations that wait at the gate may start.
        var letsWaitingPass: Bool { gate == 0 || isHalfOpen && probe < 0 }
        /// The priority levels at which operations of the host are ready.
        var levels = PriorityLevels()
        /// The ready operations that pass a closed gate, for each level and for redirected operations.
        var lanes = InlineArray<6, IndexLinkedLists.List>(repeating: IndexLinkedLists.List())
        /// The ready operations that wait at a closed gate, for each level and for redirected operations.
        var waitingLanes = InlineArray<6, IndexLinkedLists.List>(repeating: IndexLinkedLists.List())
        /// The first waiting operation to which the closed gate may not have been reported, or -1, for each level and
        /// for redirected operations.
        var untold = InlineArray<6, Int32>(repeating: -1)
        var isToBeTold = false
        /// Whether redirected operations may be able to continue.
        var isToGoOn = false
        /// The host's position in the heap of each level, or -1.
        var places = InlineArray<5, Int32>(repeating: -1)
    }

    private(set) var hosts: ContiguousArray<Host> = [Host()]
    private var indices: [ObjectIdentifier: Int32] = [:]
    private var free: [Int32] = []
    /// The number of hosts without operations and without a closed gate.
    private var unused = 0
    /// The number of unused hosts that could not be removed at the last attempt, because their starts still count
    /// towards the rate.
    private var remembered = 0
    /// The time of the last start under a rate.
    private var lastStart: UInt64 = 0
    private var gateCount: UInt32 = 0

    /// The number of unused hosts to keep, so that operations which arrive one by one do not each add their host again.
    private static let mostUnused = 64

    subscript(index: Int32) -> Host {
        _read { yield hosts[Int(index)] }
        _modify { yield &hosts[Int(index)] }
    }

    /// Returns the index of a host; nil if it is not in the table.
    func knownIndex(of key: HostKey) -> Int32? {
        let guess = key.lastIndex.load(ordering: .relaxed)
        if Int(guess) < hosts.count, hosts[Int(guess)].key === key { return guess }
        guard let index = indices[ObjectIdentifier(key)] else { return nil }
        key.lastIndex.store(index, ordering: .relaxed)
        return index
    }

    /// Returns the index of a host, adding it if it is new.
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
            // No operation is left that could detect whether the host has recovered.
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
        // Sweep only at twice the number that could not be removed, so that those are not checked each time.
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

    /// Records a start of a host's operation under the rate per host.
    mutating func noteStart(of index: Int32, due: UInt64, at now: UInt64) {
        hosts[Int(index)].startDue = due
        lastStart = max(lastStart, now)
    }

    /// The hosts whose gate is closed.
    var gated: [Int32] {
        hosts.indices.lazy.map { Int32($0) }.filter { hosts[Int($0)].gate > 0 }
    }

    /// Closes the gate of a host. Returns false if it was already closed for at least as long.
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

/// The identity of a host, for a queue's limits, gates and fairness.
///
/// Only one key exists per name while it is referenced, so that keys can be compared by identity and a queue does not
/// hash a name each time an operation becomes ready.
package final class HostKey: Sendable {
    /// The name as in ``Target/place``: in lower case, with the port unless it is the scheme's default, because two
    /// services on one machine count as two hosts.
    package let name: String
    private let bytes: ContiguousArray<UInt8>
    /// The index at which a ``HostTable`` last found the key, where the next lookup begins.
    let lastIndex = Atomic<Int32>(0)

    private init(_ name: String) {
        self.name = name
        bytes = ContiguousArray(name.utf8)
    }

    // MARK: Creating

    /// Returns the key of a host name in the form of ``name``.
    package static func named(_ name: String) -> HostKey {
        known.withLock { $0.key(named: name) }
    }

    /// Returns the key of a URL's host; nil for a URL without a host or with a scheme other than HTTP or HTTPS.
    ///
    /// - Parameter guess: The probable result. If it is correct, no lock and no lookup is needed.
    package static func of(_ url: URL, guess: HostKey? = nil) -> HostKey? {
        enum Found {
            case guess(HostKey)
            case name(String)
            case nothing
        }
        let found = url.absoluteString.utf8.withContiguousStorageIfAvailable { text -> Found in
            guard let plain = SimpleURLAuthority(text) else { return .nothing }
            let name = text[plain.place]
            if let guess, name.elementsEqual(guess.bytes) { return .guess(guess) }
            return .name(String(decoding: name, as: UTF8.self))
        }
        switch found {
        case .guess(let key): return key
        case .name(let name): return named(name)
        case .nothing, nil: return Target(url).map { named($0.place) }
        }
    }

    // MARK: The existing keys

    private static let known = Locked(Known())

    private struct Known {
        private var keys: [String: HostKey] = [:]
        private var sweepAt = 256

        var count: Int { keys.count }

        mutating func key(named name: String) -> HostKey {
            if let key = keys[name] { return key }
            if keys.count >= sweepAt { sweep() }
            let key = HostKey(name)
            keys[name] = key
            return key
        }

        /// Removes the keys that are not referenced elsewhere, because a program may contact any number of hosts.
        ///
        /// The sweep runs whenever the count has doubled, so that the cost per new key is low. A key that is not
        /// referenced elsewhere can only be obtained here, under the lock, so no removed key can come into use during
        /// the sweep.
        private mutating func sweep() {
            var unused: [String] = []
            var index = keys.startIndex
            while index != keys.endIndex {
                if isKnownUniquelyReferenced(&keys.values[index]) { unused.append(keys[index].key) }
                keys.formIndex(after: &index)
            }
            for name in unused { keys[name] = nil }
            sweepAt = max(256, keys.count * 2)
        }
    }

    /// The number of keys. Only tests use it.
    static var count: Int { known.withLock { $0.count } }
}

/// The host of an operation, and its gate.
extension ScheduledOperation {
    /// The host whose limit and gate apply to the operation; nil for none.
    package final var hostKey: HostKey? { hostAndGate.host }

    /// The name of the host whose limit and gate apply to the operation; nil for none.
    package final var schedulingHost: String? { hostKey?.name }

    /// Returns the key of a URL's host, without a lookup if it is the host of the operation's first URL.
    package final func hostKey(of url: URL?) -> HostKey? {
        url.flatMap { HostKey.of($0, guess: firstHost) }
    }

    /// The host of the operation's first URL, once it has been looked up.
    final var firstHost: HostKey? { firstHostReference.object }

    /// Records the host of the operation's first URL.
    final func noteHost(_ host: HostKey) { _ = firstHostReference.set(host) }

    /// Closes the gate of a host in the operation's queue until a time on the queue's clock, in nanoseconds.
    package final func closeGate(of host: HostKey, until deadline: UInt64) {
        scheduler.object?.closeGate(of: host, until: deadline)
    }

    /// Closes the gate of a host that has refused a connection; `Scheduler.closeGateAfterRefusal` describes when it
    /// opens.
    package final func closeGateAfterRefusal(of host: HostKey, until deadline: UInt64, patience: UInt64) {
        scheduler.object?.closeGateAfterRefusal(of: host, until: deadline, patience: patience)
    }

    /// Reports that a host which had refused connections has answered.
    package final func hostDidAnswer(_ host: HostKey?) {
        reportsAnswer = false
        guard let scheduler = scheduler.object, let host else { return }
        scheduler.noteAnswer(of: host)
    }
}
