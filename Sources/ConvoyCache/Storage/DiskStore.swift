import ConvoyDatabase
import ConvoySupport
import Foundation

/// The disk storage of a cache. It reads rows on its own queue, where it also applies changes in batches, after a
/// delay.
///
/// A failure of the disk costs only entries: a damaged index is replaced by a new one, and a full disk stores nothing.
/// Removed entries stay removed, even while the disk cannot be written.
final class DiskStore: @unchecked Sendable {
    /// The maximum number of bytes of small responses that wait to be written. Beyond this limit, they are not stored.
    private static let backlogLimit = 16 << 20

    private struct Pending {
        var operations: [DiskOperation] = []
        /// The addresses of the operations; `concernsAll` if one of them has no single address.
        var addresses: Set<String> = []
        var concernsAll = false
        var size = 0
        /// The times at which responses were last used, in milliseconds since 1970.
        var used: [Int64: Int64] = [:]
        var isScheduled = false
        var failure: DatabaseError?
        var salt = ""

        mutating func note(_ operation: DiskOperation) {
            if let address = operation.address { addresses.insert(address) } else { concernsAll = true }
        }

        func concerns(_ address: String) -> Bool { concernsAll || addresses.contains(address) }
    }

    let directory: CacheDirectory
    let queue = DispatchQueue(label: "Convoy.Cache.index", qos: .userInitiated)
    /// The queue that writes the files of bodies, so that lookups do not wait for a large one.
    let bodies = DispatchQueue(label: "Convoy.Cache.writing", qos: .utility)
    private let capacity: Int64
    private let pending = Locked(Pending())

    // The following properties are used on the queue only.
    private var index: DiskIndex?
    private var version: Int64 = 0
    /// Whether the index has been reopened since the last call of `hasChanged()`.
    private var isReopened = false
    private var nextOpening: MonotonicTime = 0
    private var openingError: DatabaseError?
    private var retries = 0

    init(_ directory: CacheDirectory, capacity: Int64) throws(DatabaseError) {
        self.directory = directory
        self.capacity = capacity
        let index = try DiskIndex.open(directory, capacity: capacity, timeout: 10)
        self.index = index
        version = try index.version()
        pending.withLock { $0.salt = index.salt }
        bodies.async { self.tidy() }
    }

    /// The last failure of the disk; nil if the last access succeeded.
    var failure: DatabaseError? { pending.withLock { $0.failure } }

    /// See ``DiskIndex/salt``. It changes when a new index replaces a damaged one.
    var salt: String { pending.withLock { $0.salt } }

    /// The largest body that is stored, in bytes.
    var bodyLimit: Int { Int(clamping: capacity / 8) }

    // MARK: Changes

    /// Queues a change.
    ///
    /// - Returns: False if too many changes are pending. A removal is always accepted.
    @discardableResult
    func add(_ operation: DiskOperation) -> Bool {
        let (isTaken, isDue) = pending.withLock { pending -> (Bool, Bool) in
            let size = operation.size
            guard operation.isRemoval || pending.size + size <= Self.backlogLimit else { return (false, false) }
            pending.operations.append(operation)
            pending.note(operation)
            pending.size += size
            defer { pending.isScheduled = true }
            return (true, !pending.isScheduled)
        }
        if isDue { schedule(after: 0.02) }
        return isTaken
    }

    /// Records a use of a response. It is written later, because it only decides the order of eviction.
    func noteUse(of id: Int64, at time: Int64) {
        let isDue = pending.withLock { pending in
            pending.used[id] = time
            guard pending.used.count > 1000 else { return false }
            defer { pending.isScheduled = true }
            return !pending.isScheduled
        }
        if isDue { schedule(after: 0.5) }
    }

    private func schedule(after seconds: Double) {
        // The closure retains the store, so that releasing the last reference does not lose pending changes.
        queue.asyncAfter(deadline: .now() + seconds) { self.write() }
    }

    /// Writes all pending changes. Called on the queue.
    ///
    /// - Returns: False if the changes are still pending because another process is writing. After ten seconds this is
    ///   a failure.
    @discardableResult
    func write() -> Bool {
        let (operations, used) = pending.withLock { pending in
            defer {
                pending.operations = []
                pending.size = 0
                pending.used = [:]
                pending.isScheduled = false
                pending.addresses = []
                pending.concernsAll = false
            }
            return (pending.operations, pending.used)
        }
        guard !operations.isEmpty || !used.isEmpty else { return true }
        var start = 0
        while start < operations.count || (start == 0 && !used.isEmpty) {
            // A lookup waits for one batch at most.
            let batch = Array(operations[start...].prefix(256))
            guard let error = attempt(batch, start == 0 ? used : [:]) else {
                start += max(batch.count, 1)
                continue
            }
            return !putBack(Array(operations[start...]), after: error)
        }
        retries = 0
        pending.withLock { $0.failure = nil }
        return true
    }

    private func attempt(_ operations: [DiskOperation], _ used: [Int64: Int64]) -> DatabaseError? {
        perform { index throws(DatabaseError) in
            try index.apply(operations, used: used)
        }.error
    }

    /// Retries the changes if another process was busy. After other errors it drops additions, but never removals.
    /// Returns whether another process was busy.
    private func putBack(_ operations: [DiskOperation], after error: DatabaseError) -> Bool {
        retries += 1
        let isBusy = error.code == .busy && retries < 200
        let kept = isBusy ? operations : Self.condensed(operations.map(\.remainder))
        if !isBusy {
            for case .putFile(let record, _) in operations { directory.remove([record.id]) }
        }
        let isDue = pending.withLock { pending in
            pending.operations = kept + pending.operations
            for operation in kept { pending.note(operation) }
            pending.size += kept.reduce(0) { $0 + $1.size }
            pending.failure = isBusy ? pending.failure : error
            guard !kept.isEmpty else { return false }
            defer { pending.isScheduled = true }
            return !pending.isScheduled
        }
        guard isDue else { return isBusy }
        if retries < 300 {
            schedule(after: isBusy ? 0.05 : 2)
        } else {
            // A disk that keeps failing must not keep a released cache alive.
            queue.asyncAfter(deadline: .now() + 2) { [weak self] in self?.write() }
        }
        return isBusy
    }

    /// Replaces many pending removals by the removal of everything, to bound their number.
    private static func condensed(_ operations: [DiskOperation]) -> [DiskOperation] {
        operations.count > 10_000 ? [.removeAll] : operations
    }

    // MARK: Reading, on the queue

    /// Returns whether another process has changed or replaced the index since the last call of this method.
    func hasChanged() -> Bool {
        if let index, !index.isCurrent { self.index = nil }
        let seen = version
        guard let now = perform({ index throws(DatabaseError) in try index.version() }).value else { return true }
        defer {
            version = now
            isReopened = false
        }
        return isReopened || seen != now
    }

    /// Writes the pending changes if they concern an address, so that its rows are up to date.
    private func settle(_ address: String) {
        if pending.withLock({ $0.concerns(address) }) { write() }
    }

    /// Returns the stored responses of an address; nil if the disk cannot be read.
    func entries(of address: String) -> [CacheEntry]? {
        settle(address)
        guard let (entries, damaged) = perform({ index throws(DatabaseError) in try index.entries(of: address) }).value
        else { return nil }
        // Entries with a pending removal count as removed.
        let removals = pending.withLock { $0.concerns(address) ? $0.operations.filter(\.isRemoval) : [] }
        for id in damaged { add(.remove(id: id, address: address)) }
        guard !removals.isEmpty else { return entries }
        return entries.filter { entry in !removals.contains { $0.removes(entry.record) } }
    }

    /// The result of reading a body.
    enum BodyResult {
        case found(StoredBody)
        /// The entry is missing or damaged.
        case gone
        /// The entry cannot be read now, but may be intact.
        case unavailable
    }

    func body(of record: CacheRecord) -> BodyResult {
        settle(record.address)
        let result = perform { index throws(DatabaseError) -> BodyResult in
            do {
                return try index.body(of: record).map { .found($0) } ?? .gone
            } catch let error as DatabaseError {
                throw error
            } catch {
                return .unavailable
            }
        }
        guard let finding = result.value else { return .unavailable }
        if case .gone = finding, pending.withLock({ $0.concerns(record.address) }) { return .unavailable }
        return finding
    }

    var usage: Int64 { perform { index throws(DatabaseError) in try index.usage() }.value ?? 0 }
    var entryCount: Int64 { perform { index throws(DatabaseError) in try index.entryCount() }.value ?? 0 }

    /// Removes orphaned files and recomputes the totals. Blocks; called on the queue of the bodies.
    ///
    /// - Parameter age: The time since the last write after which a file can be an orphan, in seconds. Another process
    ///   may be about to add a younger file to the index.
    func tidy(olderThan age: Int = 3600) {
        directory.collectOrphans(olderThan: age) { ids in
            queue.sync { perform { index throws(DatabaseError) in try index.files(ids) }.value }
        }
        queue.sync { _ = perform { index throws(DatabaseError) in try index.recount() } }
    }

    // MARK: Repair

    private func perform<Value>(
        _ body: (DiskIndex) throws(DatabaseError) -> Value
    ) -> (value: Value?, error: DatabaseError?) {
        var last: DatabaseError?
        for _ in 0..<2 {
            do throws(DatabaseError) {
                return (try body(try current()), nil)
            } catch {
                last = error
                guard error.code == .damaged || error.code == .replaced else { break }
                if error.code == .damaged, let file = index?.file ?? error.damagedFile {
                    index = nil
                    _ = try? Database.quarantine(file, at: directory.index, timeout: 0.2)
                }
                index = nil
            }
        }
        if let last, last.code != .busy { pending.withLock { $0.failure = last } }
        return (nil, last)
    }

    private func current() throws(DatabaseError) -> DiskIndex {
        if let index { return index }
        // Back off: do not reopen a missing directory for every request.
        if let openingError, MonotonicClock.now < nextOpening { throw openingError }
        do throws(DatabaseError) {
            do throws(PrivateFile.Failure) {
                try directory.create()
            } catch {
                // For other failures, opening the index reports the reason.
                if case .unsafe(let flaw) = error { throw DatabaseError.unsafeDirectory(directory.path, flaw) }
            }
            let index = try DiskIndex.open(directory, capacity: capacity, timeout: 0.2)
            version = try index.version()
            isReopened = true
            self.index = index
            pending.withLock { $0.salt = index.salt }
            openingError = nil
            return index
        } catch {
            nextOpening = MonotonicClock.now + 2_000_000_000
            openingError = error
            throw error
        }
    }
}

/// A pending change to the index on disk.
enum DiskOperation: Sendable {
    /// Adds a response with a small body.
    case put(CacheRecord, [UInt8])
    /// Adds a response whose body is in a file.
    case putFile(CacheRecord, checksums: [UInt64])
    /// Replaces the head of a response that the origin has confirmed.
    case update(CacheRecord)
    case remove(id: Int64, address: String)
    case removeAddress(String)
    /// Removes the responses that arrived at or after a time, in milliseconds since 1970.
    case removeSince(Int64)
    case removeAll

    /// Whether the operation removes entries. A removal must not be lost, because removed entries must not reappear.
    var isRemoval: Bool {
        switch self {
        case .put, .putFile, .update: false
        case .remove, .removeAddress, .removeSince, .removeAll: true
        }
    }

    /// The address whose responses the operation changes; nil for more than one address.
    var address: String? {
        switch self {
        case .put(let record, _), .putFile(let record, _), .update(let record): record.address
        case .remove(_, let address), .removeAddress(let address): address
        case .removeSince, .removeAll: nil
        }
    }

    /// The operation that replaces this one after the disk has rejected it, so that the entry it would have replaced is
    /// not found again.
    var remainder: DiskOperation {
        switch self {
        case .put(let record, _), .putFile(let record, _): .removeAddress(record.address)
        case .update(let record): .remove(id: record.id, address: record.address)
        case .remove, .removeAddress, .removeSince, .removeAll: self
        }
    }

    /// The number of bytes that the operation holds in memory while it is pending.
    var size: Int {
        switch self {
        case .put(let record, let body): record.cost + body.count
        case .putFile(let record, _), .update(let record): record.cost
        case .remove, .removeAddress, .removeSince, .removeAll: 64
        }
    }

    /// Returns whether the operation removes a response.
    func removes(_ record: CacheRecord) -> Bool {
        switch self {
        case .put, .putFile, .update: false
        case .remove(let id, _): id == record.id
        case .removeAddress(let address): address == record.address
        case .removeSince(let time): record.received.wall >= time
        case .removeAll: true
        }
    }
}
