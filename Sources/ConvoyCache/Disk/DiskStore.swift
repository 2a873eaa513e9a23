import ConvoyDatabase
import ConvoySupport
import Foundation

/// The disk of a cache: makes its changes a moment later, in batches, on a queue of its own, and reads rows there.
///
/// What fails on the disk costs entries and nothing else: a damaged index is set aside and begun anew, a full disk stores
/// nothing. What has been removed stays away, even if the disk cannot be told for a while.
final class DiskStore: @unchecked Sendable {
    /// So many bytes of small responses may wait to be written. With more they stay in memory only.
    private static let backlogLimit = 16 << 20

    private struct Pending {
        var operations: [DiskOperation] = []
        /// The addresses of the operations that have one, and whether one has none.
        var addresses: Set<String> = []
        var concernsAll = false
        var size = 0
        /// When responses were last used, in milliseconds since 1970.
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
    /// Writes the files of bodies, apart from the index, so that nobody who asks waits for a large one.
    let bodies = DispatchQueue(label: "Convoy.Cache.writing", qos: .utility)
    private let capacity: Int64
    private let pending = Locked(Pending())

    // On the queue only.
    private var index: DiskIndex?
    private var version: Int64 = 0
    /// Whether it has been opened anew since somebody asked for changes.
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

    /// Why the disk does not do what it should; nil if it does.
    var failure: DatabaseError? { pending.withLock { $0.failure } }

    /// See ``DiskIndex/salt``. Another one after the index had to be begun anew.
    var salt: String { pending.withLock { $0.salt } }

    /// The largest body that is stored.
    var bodyLimit: Int { Int(clamping: capacity / 8) }

    // MARK: Changes

    /// Makes a change soon.
    ///
    /// - Returns: false if too many wait already. A removal is always taken.
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

    /// Notes that a response was used. Written some time later, since it only decides what is evicted first.
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
        // The store is retained until then, so that nothing is lost with the last reference to it.
        queue.asyncAfter(deadline: .now() + seconds) { self.write() }
    }

    /// Writes all that is pending. On the queue.
    func write() {
        let (operations, used) = pending.withLock { pending in
            defer {
                (pending.operations, pending.size, pending.used, pending.isScheduled) = ([], 0, [:], false)
                (pending.addresses, pending.concernsAll) = ([], false)
            }
            return (pending.operations, pending.used)
        }
        guard !operations.isEmpty || !used.isEmpty else { return }
        var start = 0
        while start < operations.count || (start == 0 && !used.isEmpty) {
            // Who asks waits for one batch at most, not for all.
            let batch = Array(operations[start...].prefix(256))
            guard let error = attempt(batch, start == 0 ? used : [:]) else {
                start += max(batch.count, 1)
                continue
            }
            putBack(Array(operations[start...]), after: error)
            return
        }
        retries = 0
        pending.withLock { $0.failure = nil }
    }

    private func attempt(_ operations: [DiskOperation], _ used: [Int64: Int64]) -> DatabaseError? {
        perform { index throws(DatabaseError) in
            try index.apply(operations, used: used)
        }.error
    }

    /// What could not be written is tried again while another process is busy. For other reasons additions are given
    /// up; removals never are, as long as the cache is there.
    private func putBack(_ operations: [DiskOperation], after error: DatabaseError) {
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
        guard isDue else { return }
        if retries < 300 { return schedule(after: isBusy ? 0.05 : 2) }
        // A disk that has been refusing for long does not keep alive a cache that nobody has any more.
        queue.asyncAfter(deadline: .now() + 2) { [weak self] in self?.write() }
    }

    /// Many removals that the disk does not take are replaced by that of everything, so that they stay few.
    private static func condensed(_ operations: [DiskOperation]) -> [DiskOperation] {
        operations.count > 10_000 ? [.removeAll] : operations
    }

    // MARK: Reading, on the queue

    /// Whether another process has changed or replaced the index since the last call.
    func hasChanged() -> Bool {
        if let index, !index.isCurrent { self.index = nil }
        let seen = version
        guard let now = perform({ index throws(DatabaseError) in try index.version() }).value else { return true }
        defer { (version, isReopened) = (now, false) }
        return isReopened || seen != now
    }

    /// Writes what is pending if it concerns an address, so that its rows can be read. The rest waits for its batch.
    private func settle(_ address: String) {
        if pending.withLock({ $0.concerns(address) }) { write() }
    }

    /// The stored responses of an address; nil if the disk does not tell.
    func entries(of address: String) -> [CacheEntry]? {
        settle(address)
        guard let (entries, damaged) = perform({ index throws(DatabaseError) in try index.entries(of: address) }).value
        else { return nil }
        // What could not be removed yet is gone all the same.
        let removals = pending.withLock { $0.concerns(address) ? $0.operations.filter(\.isRemoval) : [] }
        for id in damaged { add(.remove(id: id, address: address)) }
        guard !removals.isEmpty else { return entries }
        return entries.filter { entry in !removals.contains { $0.removes(entry.record) } }
    }

    /// What became of a body.
    enum BodyFinding {
        case found(StoredBody)
        /// It is not there any more, or is not what was stored.
        case gone
        /// It cannot be read now; it may be sound.
        case unavailable
    }

    func body(of record: CacheRecord) -> BodyFinding {
        settle(record.address)
        let result = perform { index throws(DatabaseError) -> BodyFinding in
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

    /// Removes files that nobody needs any more, and counts what there is. Blocks; on the queue of the bodies.
    ///
    /// - Parameter age: in seconds. A younger file may be one that another process is about to enter.
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
                    _ = try? Database.setAside(file, at: directory.index, timeout: 0.2)
                }
                index = nil
            }
        }
        if let last, last.code != .busy { pending.withLock { $0.failure = last } }
        return (nil, last)
    }

    private func current() throws(DatabaseError) -> DiskIndex {
        if let index { return index }
        // A directory that is gone for good is not tried with each request.
        if let openingError, MonotonicClock.now < nextOpening { throw openingError }
        do throws(DatabaseError) {
            do throws(PrivateFile.Failure) {
                try directory.create()
            } catch {
                // For other reasons the index says why it cannot be opened.
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
