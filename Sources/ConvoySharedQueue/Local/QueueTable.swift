import Foundation

/// The entries of a queue, their dependencies and their standings, as a value without locks, files or operations.
struct QueueTable: Sendable {
    private var records: [UUID: QueueRecord] = [:]
    /// The dependents of each entry, including removed entries.
    private var dependents: [UUID: Set<UUID>] = [:]
    /// The number of pending entries.
    private(set) var pendingCount = 0
    private var nextSequence: Int64 = 1
    /// The entries that have changed since the last call of `takeChanges()`, with their previous states; nil for a new
    /// entry.
    private var changed: [UUID: DownloadQueue.State?] = [:]
    /// The entries whose next step must be determined again.
    private var touched: Set<UUID> = []
    /// The entries with changes that must be written.
    private var unstored: Set<UUID> = []

    subscript(id: UUID) -> QueueRecord? { records[id] }

    /// The entries in order.
    var ordered: [QueueRecord] { records.values.sorted { $0.sequence < $1.sequence } }

    /// The current time, in microseconds since 1970.
    static var now: Int64 { Int64(Date().timeIntervalSince1970 * 1e6) }

    // MARK: Changing

    /// Adds entries, at the end unless they have a sequence number. A dependency that does not exist and is not among
    /// them counts as failed.
    mutating func insert(_ new: [QueueRecord]) {
        for var record in new {
            if record.sequence == 0 { record.sequence = nextSequence }
            nextSequence = max(nextSequence, record.sequence + 1)
            records[record.id] = record
            if record.isPending { pendingCount += 1 }
            // Dependents may remain from an earlier entry with the same identifier that was removed.
            move(dependents[record.id] ?? [], from: .failed, to: record.standing.outcome)
        }
        for record in new {
            for dependency in record.dependencies { dependents[dependency, default: []].insert(record.id) }
        }
        for record in new {
            let outcomes = record.dependencies.map { outcome(of: $0) }
            change(record.id) { record in
                record.standing.openDependencies = outcomes.count { $0 == nil }
                record.standing.failedDependencies = outcomes.count { $0 == .failed }
                record.place()
            }
        }
    }

    private func outcome(of id: UUID) -> WorkStanding.Outcome? {
        guard let record = records[id] else { return .failed }
        return record.standing.outcome
    }

    /// Changes an entry, and updates its dependents.
    mutating func change(_ id: UUID, _ body: (inout QueueRecord) -> Void) {
        guard let (old, new) = changeAlone(id, body) else { return }
        move(dependents[id] ?? [], from: old, to: new)
    }

    /// Changes an entry. Returns its outcome before and after the change.
    private mutating func changeAlone(
        _ id: UUID, _ body: (inout QueueRecord) -> Void
    ) -> (old: WorkStanding.Outcome?, new: WorkStanding.Outcome?)? {
        guard var record = records[id] else { return nil }
        let old = record
        body(&record)
        records[id] = record
        if record.isPending != old.isPending { pendingCount += record.isPending ? 1 : -1 }
        if old.isNew { changed[id] = .some(nil) } else if changed[id] == nil { changed[id] = old.state }
        if record.standing != old.standing || record.progress != old.progress { unstored.insert(id) }
        touched.insert(id)
        return (old.standing.outcome, record.standing.outcome)
    }

    /// Updates the dependents of an entry whose outcome has changed, and those of dependents that fail.
    private mutating func move(
        _ dependents: Set<UUID>, from old: WorkStanding.Outcome?, to new: WorkStanding.Outcome?
    ) {
        var left = [(dependents, WorkStanding.counts(from: old, to: new))]
        while let (ids, counts) = left.popLast() {
            guard counts != (0, 0) else { continue }
            for id in ids {
                let change = changeAlone(id) { record in
                    record.standing.apply(.dependencies(open: counts.open, failed: counts.failed), now: Self.now)
                }
                guard let change else { continue }
                left.append((self.dependents[id] ?? [], WorkStanding.counts(from: change.old, to: change.new)))
            }
        }
    }

    /// Removes an entry. Unless it has succeeded, it counts as a failed dependency from now on.
    mutating func remove(_ id: UUID) {
        if records[id]?.standing.state == .done {
            for dependent in dependents.removeValue(forKey: id) ?? [] { records[dependent]?.dependencies.remove(id) }
        } else {
            change(id) { $0.standing.apply(.cancel, now: Self.now) }
        }
        guard let record = records.removeValue(forKey: id) else { return }
        for dependency in record.dependencies { unregister(id, from: dependency) }
        changed[id] = nil
        unstored.remove(id)
    }

    private mutating func unregister(_ id: UUID, from dependency: UUID) {
        dependents[dependency]?.remove(id)
        if dependents[dependency]?.isEmpty == true { dependents[dependency] = nil }
    }

    /// Removes an entry's dependencies that have failed or no longer exist, and returns them.
    mutating func forgetFailedDependencies(of id: UUID) -> [UUID] {
        let forgotten = (records[id]?.dependencies ?? []).filter { outcome(of: $0) == .failed }
        for dependency in forgotten { unregister(id, from: dependency) }
        change(id) { record in
            record.dependencies.subtract(forgotten)
            let count = record.standing.failedDependencies
            record.standing.apply(.dependencies(open: 0, failed: -count), now: Self.now)
        }
        return Array(forgotten)
    }

    // MARK: Queries

    /// Returns the entries that have been touched by changes since the last call, and whose next step must be determined.
    mutating func takeTouched() -> Set<UUID> {
        defer { touched = [] }
        return touched
    }

    /// Returns the changes to write since the last call.
    mutating func takeUnstored() -> [QueueChange] {
        guard !unstored.isEmpty else { return [] }
        defer { unstored = [] }
        return unstored.compactMap { id in
            records[id].map { .update(id, $0.standing, $0.progress) }
        }
    }

    /// Returns new entries as they must be stored, so that no change is left to write.
    mutating func takeNew(_ ids: [UUID]) -> [QueueRecord] {
        unstored.subtract(ids)
        return ids.compactMap { records[$0] }
    }

    /// Returns the entries whose state has changed, in order, and resets the changes.
    mutating func takeChanges() -> [QueueRecord] {
        guard !changed.isEmpty else { return [] }
        defer { changed = [:] }
        return changed.compactMap { id, old in
            guard let record = records[id], !record.isNew, record.state != old else { return nil }
            return record
        }.sorted { $0.sequence < $1.sequence }
    }
}
