import ConvoySupport
import Foundation
import Synchronization

/// The stored responses, in memory and on disk, with the rules applied to them.
///
/// Lookups in memory return immediately. Lookups on disk run on the disk's queue: for responses that are not in memory,
/// and once a second for everything, to detect changes by other processes.
final class CacheStorage: SaltSource {
    struct Counts: ~Copyable {
        let hits = Atomic<Int>(0)
        let misses = Atomic<Int>(0)
        let validations = Atomic<Int>(0)
        let stores = Atomic<Int>(0)
    }

    private struct Memory {
        var index: MemoryIndex
        /// The invalidation number of each invalidated address: a response requested before an invalidation must not be
        /// stored after it.
        var invalidated: [String: UInt64] = [:]
        /// The number of the last invalidation of all addresses.
        var allInvalidated: UInt64 = 0
    }

    let clock: CacheClock
    let disk: DiskStore?
    let counts = Counts()
    private let ownSalt = (0..<2).map { _ in String(UInt64.random(in: .min ... .max), radix: 36) }.joined()
    /// See ``ResponseCache/salt``.
    var salt: String { disk?.salt ?? ownSalt }
    private let memoryCapacity: Int
    private let memory: Locked<Memory>
    private let invalidations = Atomic<UInt64>(1)
    /// The time of the last check for changes by other processes, in milliseconds of `up`.
    private let lastCheck = Atomic<Int64>(0)
    private static let checkInterval: Int64 = 1000

    init(memoryCapacity: Int, disk: DiskStore?, clock: CacheClock = .system) {
        self.memoryCapacity = memoryCapacity
        self.disk = disk
        self.clock = clock
        memory = Locked(Memory(index: MemoryIndex(capacity: memoryCapacity, hasDisk: disk != nil)))
    }

    // MARK: Lookup

    struct Lookup {
        var entry: CacheEntry?
        var decision: CacheDecision
        /// The time of the decision.
        var now: CacheTime
    }

    /// Finds the stored response for a request, and decides what to do. The body is ready if it is needed.
    ///
    /// - Returns: nil if the disk must be read.
    func find(_ request: RequestFacts) -> Lookup? {
        let now = clock.now()
        // Also look up a request that ignores stored responses, because its response may make them obsolete.
        guard request.mayBeAnswered, !request.directives.noStore else {
            return Lookup(decision: CacheDecision(request, nil, now: now, boot: clock.boot), now: now)
        }
        return findInMemory(request, now) ?? (disk == nil ? Lookup(decision: .miss, now: now) : nil)
    }

    /// Finds the stored response for a request on the disk. Call this after `find(_:)` has returned nil.
    ///
    /// - Parameter then: Called once, on the disk's queue.
    func findOnDisk(_ request: RequestFacts, _ then: @escaping @Sendable (Lookup) -> Void) {
        guard let disk else { return then(Lookup(decision: .miss, now: clock.now())) }
        disk.queue.async { then(self.findOnDisk(request, disk)) }
    }

    /// - Returns: nil if the disk must be read.
    private func findInMemory(_ request: RequestFacts, _ now: CacheTime) -> Lookup? {
        if disk != nil {
            let elapsed = now.up - lastCheck.load(ordering: .relaxed)
            guard elapsed >= 0, elapsed < Self.checkInterval else { return nil }
        }
        guard let found = memory.withLock({ $0.index.find(request.address) }) else { return nil }
        let lookup = decide(request, found.entries, now)
        guard !needsBody(request, lookup, now) || lookup.entry?.body.isReady == true else { return nil }
        if found.isComplete { return lookup }
        guard case .serve = lookup.decision else { return nil }
        return lookup
    }

    private func findOnDisk(_ request: RequestFacts, _ disk: DiskStore) -> Lookup {
        let now = clock.now()
        if now.up - lastCheck.load(ordering: .relaxed) >= Self.checkInterval || now.up < lastCheck.load(ordering: .relaxed) {
            if disk.hasChanged() {
                disk.write()
                memory.withLock { $0.index.removeAll() }
            }
            lastCheck.store(now.up, ordering: .relaxed)
        }
        var entries = load(request.address, disk)
        while true {
            var lookup = decide(request, entries, now)
            guard let entry = lookup.entry, needsBody(request, lookup, now), !entry.body.isReady else { return lookup }
            switch disk.body(of: entry.record) {
            case .found(let body):
                lookup.entry?.body = body
                if let bytes = body.bytes, bytes.count <= memoryCapacity / 8 {
                    memory.withLock { $0.index.setBody(body, of: entry.record) }
                }
                return lookup
            case .gone: discard(entry.record)
            case .unavailable: break
            }
            entries.removeAll { $0.record.id == entry.record.id }
        }
    }

    /// Returns all stored responses of an address, from memory or the disk. Called on the disk's queue.
    private func load(_ address: String, _ disk: DiskStore) -> [CacheEntry] {
        let (found, snapshot) = memory.withLock { ($0.index.find(address), $0.index.snapshot(address)) }
        let present = found?.entries ?? []
        if found?.isComplete == true { return present }
        guard let rows = disk.entries(of: address) else { return present }
        // Entries in memory are the same as on disk, or newer.
        let entries =
            present
            + rows.filter { row in
                !present.contains { $0.record.id == row.record.id || row.record.isReplaced(by: $0.record) }
            }
        memory.withLock { $0.index.install(entries, of: address, ifUnchangedSince: snapshot) }
        return entries
    }

    private func decide(_ request: RequestFacts, _ entries: [CacheEntry], _ now: CacheTime) -> Lookup {
        var latest: CacheEntry?
        if entries.count == 1 {
            latest = entries[0].record.answers(request) ? entries[0] : nil
        } else if !entries.isEmpty {
            let record = entries.lazy.map(\.record).latest(answering: request)
            latest = entries.first { $0.record === record }
        }
        return Lookup(
            entry: latest, decision: CacheDecision(request, latest?.record, now: now, boot: clock.boot), now: now)
    }

    private func needsBody(_ request: RequestFacts, _ lookup: Lookup, _ now: CacheTime) -> Bool {
        guard let record = lookup.entry?.record else { return false }
        switch lookup.decision {
        case .serve(.whole, _, _), .serve(.part, _, _), .validate: return true
        case .serve(.head, _, _), .serve(.notModified, _, _), .unavailable: return false
        case .miss: return CacheDecision.mayStandIn(record, for: request, now: now, boot: clock.boot)
        }
    }

    // MARK: Storing

    /// The number of invalidations so far, which identifies responses requested before a later invalidation.
    var generation: UInt64 { invalidations.load(ordering: .acquiring) }

    /// The largest body that is stored, in bytes.
    var bodyLimit: Int { disk?.bodyLimit ?? memoryCapacity / 4 }

    /// Stores a response whose body is in memory.
    ///
    /// - Parameter generation: The `generation` at the time of the request.
    /// - Returns: Whether the response was stored; false if a newer one exists, or if the address was invalidated
    ///   since the request.
    @discardableResult
    func store(_ record: CacheRecord, _ bytes: [UInt8], generation: UInt64) -> Bool {
        let keepsBody = disk == nil || bytes.count <= memoryCapacity / 8
        return insert(CacheEntry(record: record, body: keepsBody ? .memory(bytes) : .row), .put(record, bytes), generation)
    }

    /// Stores a response whose body is in a file. Called on the disk's queue.
    @discardableResult
    func store(_ record: CacheRecord, checksums: [UInt64], generation: UInt64, _ disk: DiskStore) -> Bool {
        guard insert(CacheEntry(record: record, body: .file), .putFile(record, checksums: checksums), generation) else {
            disk.directory.remove([record.id])
            return false
        }
        disk.write()
        return true
    }

    private func insert(_ entry: CacheEntry, _ operation: DiskOperation, _ generation: UInt64) -> Bool {
        let (isStored, isTaken) = memory.withLock { memory in
            guard memory.allInvalidated <= generation, memory.invalidated[entry.record.address] ?? 0 <= generation,
                memory.index.store(entry)
            else { return (false, true) }
            // Queue the change under the same lock, so that a later removal also comes later on the disk.
            return (true, disk?.add(operation) ?? true)
        }
        guard isTaken else {
            // The disk cannot keep up. Remove the entry, and with it the one that it replaces on disk, which would
            // otherwise reappear.
            invalidate([entry.record.address])
            return false
        }
        if isStored { counts.stores.add(1, ordering: .relaxed) }
        return isStored
    }

    /// Replaces a response by its confirmed version.
    func update(_ record: CacheRecord) {
        memory.withLock { memory in
            memory.index.update(record)
            _ = disk?.add(.update(record))
        }
    }

    /// Records that a response is being served.
    func noteUse(of record: CacheRecord, at now: CacheTime) {
        guard let disk, record.isUseDue(at: now) else { return }
        disk.noteUse(of: record.id, at: now.wall)
    }

    // MARK: Removing

    func discard(_ record: CacheRecord) {
        memory.withLock { memory in
            memory.index.remove(record.id, record.address)
            _ = disk?.add(.remove(id: record.id, address: record.address))
        }
    }

    /// Removes all responses of addresses. Responses that have already been requested are not stored.
    func invalidate(_ addresses: [String]) {
        let generation = invalidations.add(1, ordering: .acquiringAndReleasing).newValue
        memory.withLock { memory in
            // The record is needed only for requests in progress. If it has too many addresses, invalidate all
            // addresses instead.
            if memory.invalidated.count + addresses.count > 4096 {
                memory.invalidated = [:]
                memory.allInvalidated = generation
            }
            for address in addresses {
                memory.invalidated[address] = generation
                memory.index.removeAll(of: address)
                _ = disk?.add(.removeAddress(address))
            }
        }
    }

    func removeAll() {
        let generation = invalidations.add(1, ordering: .acquiringAndReleasing).newValue
        memory.withLock { memory in
            memory.invalidated = [:]
            memory.allInvalidated = generation
            memory.index.removeAll()
            _ = disk?.add(.removeAll)
        }
    }

    /// - Parameter time: The time, in milliseconds since 1970.
    func removeStored(since time: Int64) {
        let generation = invalidations.add(1, ordering: .acquiringAndReleasing).newValue
        memory.withLock { memory in
            if time <= clock.now().wall { memory.allInvalidated = generation }
            memory.index.removeAll { $0.received.wall >= time }
            _ = disk?.add(.removeSince(time))
        }
    }

    var memoryUsage: Int { memory.withLock { $0.index.usage } }
    var memoryEntryCount: Int { memory.withLock { $0.index.entryCount } }
}

/// The numbers of stored responses.
///
/// They grow with time, so that rows are appended to the index; random numbers would change a different page for each
/// response. A random part separates processes that store in the same microsecond. If two still collide, the second is
/// not stored.
enum EntryNumber {
    private static let last = Atomic<Int64>(0)

    /// Returns a number that this process has not used before.
    static func next() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        // The time is counted from 2020; the bits suffice for 35 years.
        let microseconds = (Int64(clamping: time.tv_sec) - 1_577_836_800) * 1_000_000 + Int64(time.tv_nsec) / 1000
        let candidate = (max(0, microseconds) % (1 << 50)) << 12 | Int64.random(in: 0..<4096)
        var previous = last.load(ordering: .relaxed)
        while true {
            let number = max(candidate, previous + 1)
            let (isExchanged, current) = last.compareExchange(expected: previous, desired: number, ordering: .relaxed)
            if isExchanged { return number }
            previous = current
        }
    }
}
