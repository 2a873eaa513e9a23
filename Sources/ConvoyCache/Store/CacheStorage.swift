import ConvoySupport
import Foundation
import Synchronization

/// The stored responses, in memory and on the disk, and the rules applied to them.
///
/// Memory answers at once. What it does not have is looked up on the disk's queue; so is everything once a second, to
/// see what other processes have changed.
final class CacheStorage: SaltSource {
    struct Counts: ~Copyable {
        let hits = Atomic<Int>(0)
        let misses = Atomic<Int>(0)
        let validations = Atomic<Int>(0)
        let stores = Atomic<Int>(0)
    }

    private struct Memory {
        var index: MemoryIndex
        /// When addresses were made invalid, by the number of invalidations: a response that was requested before must
        /// not be stored after.
        var invalidated: [String: UInt64] = [:]
        /// The same for all addresses.
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
    /// When changes by other processes were looked for, in milliseconds of `up`.
    private let lastCheck = Atomic<Int64>(0)
    private static let checkInterval: Int64 = 1000

    init(memoryCapacity: Int, disk: DiskStore?, clock: CacheClock = .system) {
        self.memoryCapacity = memoryCapacity
        self.disk = disk
        self.clock = clock
        memory = Locked(Memory(index: MemoryIndex(capacity: memoryCapacity, hasDisk: disk != nil)))
    }

    // MARK: Finding

    struct Finding {
        var entry: CacheEntry?
        var decision: CacheDecision
        /// When it was decided.
        var now: CacheTime
    }

    /// Finds what is stored for a request, and what to do with it. The body is ready if it is needed.
    ///
    /// - Returns: nil if the disk must be asked.
    func find(_ request: RequestFacts) -> Finding? {
        let now = clock.now()
        // Also for one that ignores what is stored: its response says something about that.
        guard request.mayBeAnswered, !request.directives.noStore else {
            return Finding(decision: CacheDecision(request, nil, now: now, boot: clock.boot), now: now)
        }
        return findInMemory(request, now) ?? (disk == nil ? Finding(decision: .miss, now: now) : nil)
    }

    /// The same with the disk, after `find(_:)` has said that it must be asked.
    ///
    /// - Parameter then: is called once, on the disk's queue.
    func findOnDisk(_ request: RequestFacts, _ then: @escaping @Sendable (Finding) -> Void) {
        guard let disk else { return then(Finding(decision: .miss, now: clock.now())) }
        disk.queue.async { then(self.findOnDisk(request, disk)) }
    }

    /// - Returns: nil if the disk must be asked.
    private func findInMemory(_ request: RequestFacts, _ now: CacheTime) -> Finding? {
        if disk != nil {
            let elapsed = now.up - lastCheck.load(ordering: .relaxed)
            guard elapsed >= 0, elapsed < Self.checkInterval else { return nil }
        }
        guard let found = memory.withLock({ $0.index.find(request.address) }) else { return nil }
        let finding = decide(request, found.entries, now)
        guard !needsBody(request, finding, now) || finding.entry?.body.isReady == true else { return nil }
        if found.isComplete { return finding }
        guard case .serve = finding.decision else { return nil }
        return finding
    }

    private func findOnDisk(_ request: RequestFacts, _ disk: DiskStore) -> Finding {
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
            var finding = decide(request, entries, now)
            guard let entry = finding.entry, needsBody(request, finding, now), !entry.body.isReady else { return finding }
            switch disk.body(of: entry.record) {
            case .found(let body):
                finding.entry?.body = body
                if let bytes = body.bytes, bytes.count <= memoryCapacity / 8 {
                    memory.withLock { $0.index.setBody(body, of: entry.record) }
                }
                return finding
            case .gone: discard(entry.record)
            case .unavailable: break
            }
            entries.removeAll { $0.record.id == entry.record.id }
        }
    }

    /// All stored responses of an address, from memory or the disk. On the disk's queue.
    private func load(_ address: String, _ disk: DiskStore) -> [CacheEntry] {
        let (found, mark) = memory.withLock { ($0.index.find(address), $0.index.mark(address)) }
        let present = found?.entries ?? []
        if found?.isComplete == true { return present }
        guard let rows = disk.entries(of: address) else { return present }
        // What is in memory is the same, or newer than what could be written.
        let entries =
            present
            + rows.filter { row in
                !present.contains { $0.record.id == row.record.id || row.record.isReplaced(by: $0.record) }
            }
        memory.withLock { $0.index.install(entries, of: address, ifUnchangedSince: mark) }
        return entries
    }

    private func decide(_ request: RequestFacts, _ entries: [CacheEntry], _ now: CacheTime) -> Finding {
        var latest: CacheEntry?
        if entries.count == 1 {
            latest = entries[0].record.answers(request) ? entries[0] : nil
        } else if !entries.isEmpty {
            let record = entries.lazy.map(\.record).latest(answering: request)
            latest = entries.first { $0.record === record }
        }
        return Finding(
            entry: latest, decision: CacheDecision(request, latest?.record, now: now, boot: clock.boot), now: now)
    }

    private func needsBody(_ request: RequestFacts, _ finding: Finding, _ now: CacheTime) -> Bool {
        guard let record = finding.entry?.record else { return false }
        switch finding.decision {
        case .serve(.whole, _, _), .serve(.part, _, _), .validate: return true
        case .serve(.head, _, _), .serve(.notModified, _, _), .unavailable: return false
        case .miss: return CacheDecision.mayStandIn(record, for: request, now: now, boot: clock.boot)
        }
    }

    // MARK: Storing

    /// A number by which a response that was requested before an invalidation is known later.
    var generation: UInt64 { invalidations.load(ordering: .acquiring) }

    /// The largest body that is stored.
    var bodyLimit: Int { disk?.bodyLimit ?? memoryCapacity / 4 }

    /// Stores a response whose body is in memory.
    ///
    /// - Parameter generation: when it was requested.
    /// - Returns: whether it was stored: it was not if a younger one is there, or if it was removed meanwhile.
    @discardableResult
    func store(_ record: CacheRecord, _ bytes: [UInt8], generation: UInt64) -> Bool {
        let keepsBody = disk == nil || bytes.count <= memoryCapacity / 8
        return insert(CacheEntry(record: record, body: keepsBody ? .memory(bytes) : .row), .put(record, bytes), generation)
    }

    /// Stores a response whose body is in a file. On the disk's queue.
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
            // Under the same lock: a removal that comes after it here must come after it on the disk.
            return (true, disk?.add(operation) ?? true)
        }
        guard isTaken else {
            // The disk cannot keep up. The entry goes, and with it what it replaces there, which would come back.
            invalidate([entry.record.address])
            return false
        }
        if isStored { counts.stores.add(1, ordering: .relaxed) }
        return isStored
    }

    /// Puts a confirmed response in the place of what it was.
    func update(_ record: CacheRecord) {
        memory.withLock { memory in
            memory.index.update(record)
            _ = disk?.add(.update(record))
        }
    }

    /// Notes that a response is being served.
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

    /// Removes all responses of addresses, and keeps those from being stored that have been requested already.
    func invalidate(_ addresses: [String]) {
        let generation = invalidations.add(1, ordering: .acquiringAndReleasing).newValue
        memory.withLock { memory in
            // Only requests under way need it. Instead of each address all are remembered once there are many.
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

    /// - Parameter time: in milliseconds since 1970.
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
