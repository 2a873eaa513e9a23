import ConvoySupport
import Foundation

/// The entries of a shared queue in a database. Each method is one transaction, in which ``WorkStanding`` determines
/// the changes to the entries. Not thread-safe. All methods block.
package final class WorkStore {
    package let database: any WorkDatabase
    var dialect: WorkDialect { database.dialect }
    /// The lanes at which the last claims stopped searching, by tags.
    var cursors: [String: WorkLane] = [:]
    /// The shares that tags have received, for claims that are fair to all tags.
    var fairness = TagFairness()

    /// The length, in bytes, from which no more rows are added to a statement. PostgreSQL rejects more than 256 MiB.
    var longRows = 32 << 20

    /// The maximum number of entries that one search reads.
    var searchLimit = 20_000

    package init(_ database: any WorkDatabase) { self.database = database }

    /// Returns the time on the clock of the database, in microseconds since 1970.
    package func now() throws(SharedQueueError) -> Int64 {
        try database.query("SELECT \(dialect.now)", []).first?.integer(0) ?? 0
    }

    /// Returns the time, whether the queue is paused, and whether any host has limits or a gate, in one query.
    func circumstances() throws(SharedQueueError) -> (now: Int64, isPaused: Bool, hasHosts: Bool) {
        let row = try database.query(
            "SELECT \(dialect.now), (SELECT paused FROM queue), (SELECT count(*) FROM (SELECT 1 FROM host LIMIT 1) AS h)", []
        ).first
        return (row?.integer(0) ?? 0, row?.integer(1) == 1, row?.integer(2) != 0)
    }

    // MARK: Reading and writing standings

    /// An entry whose row is locked, with its standing before and after the change.
    struct LockedEntry {
        var id: UUID
        var host: String
        var tag: String
        var old: WorkStanding
        var standing: WorkStanding

        init?(_ row: WorkRow) {
            guard let id = row.id(0), let state = row.integer(1).flatMap({ WorkState(code: $0) }) else { return nil }
            self.id = id
            host = row.text(18) ?? ""
            tag = row.text(22) ?? ""
            var standing = WorkStanding()
            standing.state = state
            standing.openDependencies = row.count(2)
            standing.failedDependencies = row.count(3)
            standing.policy = row.int(4).flatMap { FailedDependencyPolicy(rawValue: $0) } ?? .hold
            standing.ignoresFailures = row.integer(5) == 1
            standing.due = row.integer(6) ?? 0
            standing.deadline = row.integer(7)
            standing.attempts = row.count(8)
            standing.maximumAttempts = row.int(9) ?? 1
            standing.sendsAgain = row.integer(10) == 1
            standing.lease = row.integer(11) ?? 0
            standing.worker = row.id(12)
            standing.statusCode = row.int(13)
            standing.size = row.integer(14)
            standing.error = row.text(15)
            standing.kept = row.integer(16)
            standing.expires = row.integer(17)
            standing.changed = row.integer(19) ?? 0
            standing.hasBegun = row.integer(20) == 1
            standing.rank = row.integer(WorkStore.rankColumn) ?? 0
            self.old = standing
            self.standing = standing
        }

        /// Creates an entry of a store that has no other user, with the standing to write.
        init(_ id: UUID, _ standing: WorkStanding) {
            self.id = id
            host = ""
            tag = ""
            old = standing
            self.standing = standing
        }
    }

    /// The columns read by ``LockedEntry``, of the table `e`.
    package static let standingColumns = """
        e.id, e.state, e.open, e.failed, e.policy, e.forgiven, e.due, e.deadline, e.attempts, e.attempt_limit, \
        e.sends_again, e.lease, e.worker, e.status, e.size, e.error, e.kept, e.expires, e.host, e.changed, e.begun, e.place, \
        e.tag
        """
    /// The index of the rank in ``standingColumns``.
    static let rankColumn = 21
    /// The number of columns in ``standingColumns``, after which queries add others.
    package static let standingColumnCount = 23

    /// Reads entries, and locks them in the order of their identifiers until the transaction ends.
    func lock(_ ids: some Collection<UUID>) throws(SharedQueueError) -> [LockedEntry] {
        guard !ids.isEmpty else { return [] }
        return try database.query(
            """
            SELECT \(Self.standingColumns) FROM entry AS e WHERE e.id IN (SELECT id FROM \(dialect.ids("$1")) AS r)
            ORDER BY e.id\(dialect.forUpdate)
            """, [WorkRowsText(ids: ids).value]
        ).compactMap(LockedEntry.init)
    }

    /// Writes changed entries, and the effects on their dependents.
    func write(_ entries: [LockedEntry], _ now: Int64) throws(SharedQueueError) {
        var changed = entries.filter { $0.old != $0.standing }
        while !changed.isEmpty {
            try writeRows(changed)
            changed = try writeDependents(of: changed, now)
        }
    }

    /// Writes the standings of entries, without effects on their dependents.
    func writeRows(_ entries: [LockedEntry]) throws(SharedQueueError) {
        var rows = WorkRowsText()
        var becomesReady = false, isTaken = false
        for entry in entries {
            let (old, new) = (entry.old, entry.standing)
            becomesReady = becomesReady || new.state == .ready
            isTaken = isTaken || (old.state == .leased && (new.state == .cancelled || new.state == .paused))
            rows.append([
                .id(entry.id), .integer(new.state.code), .integer(Int64(new.openDependencies)),
                .integer(Int64(new.failedDependencies)), .integer(new.ignoresFailures ? 1 : 0), .integer(new.due),
                .integer(new.deadline), .integer(Int64(new.attempts)), .integer(new.lease), .id(new.worker),
                .integer(new.statusCode.map(Int64.init)), .integer(new.size), .text(new.error), .integer(new.expires),
                .integer(new.changed), .integer(new.hasBegun ? 1 : 0), .integer(new.rank),
            ])
        }
        let table = dialect.rows(
            "$1",
            [
                ("id", .id), ("state", .integer), ("open", .integer), ("failed", .integer), ("forgiven", .integer),
                ("due", .integer), ("deadline", .integer), ("attempts", .integer), ("lease", .integer), ("worker", .id),
                ("status", .integer), ("size", .integer), ("error", .text), ("expires", .integer), ("changed", .integer),
                ("begun", .integer), ("place", .integer),
            ])
        _ = try database.query(
            """
            UPDATE entry AS e SET state = r.state, open = r.open, failed = r.failed, forgiven = r.forgiven, due = r.due,
                deadline = r.deadline, attempts = r.attempts, lease = r.lease, worker = r.worker, status = r.status,
                size = r.size, error = r.error, expires = r.expires, changed = r.changed, begun = r.begun,
                place = r.place
            FROM \(table) AS r WHERE e.id = r.id
            """, [rows.value])
        // An entry that was taken away no longer counts in the limits of its host.
        if becomesReady || isTaken { try database.announce(.work) }
        if isTaken { try database.announce(.control) }
    }

    /// Updates the counts of the dependents of entries, and returns the dependents.
    private func writeDependents(of entries: [LockedEntry], _ now: Int64) throws(SharedQueueError) -> [LockedEntry] {
        var changes: [UUID: (open: Int, failed: Int)] = [:]
        for entry in entries {
            let counts = WorkStanding.counts(from: entry.old.outcome, to: entry.standing.outcome)
            if counts != (0, 0) { changes[entry.id] = counts }
        }
        guard !changes.isEmpty else { return [] }
        let edges = try database.query(
            "SELECT d.entry, d.needed FROM dependency AS d WHERE d.needed IN (SELECT id FROM \(dialect.ids("$1")) AS r)",
            [WorkRowsText(ids: changes.keys).value])
        guard !edges.isEmpty else { return [] }
        var sums: [UUID: (open: Int, failed: Int)] = [:]
        for edge in edges {
            guard let entry = edge.id(0), let change = edge.id(1).flatMap({ changes[$0] }) else { continue }
            let sum = sums[entry] ?? (0, 0)
            sums[entry] = (sum.open + change.open, sum.failed + change.failed)
        }
        var dependents = try lock(sums.keys)
        for index in dependents.indices {
            guard let sum = sums[dependents[index].id] else { continue }
            dependents[index].standing.apply(.dependencies(open: sum.open, failed: sum.failed), now: now)
        }
        return dependents
    }

    /// Applies a change to entries. Returns the number of changed entries.
    @discardableResult
    func apply(_ change: WorkStanding.Change, to entries: [LockedEntry], _ now: Int64) throws(SharedQueueError) -> Int {
        var entries = entries, count = 0
        for index in entries.indices where entries[index].standing.apply(change, now: now) { count += 1 }
        try write(entries, now)
        return count
    }

    /// Runs a statement with the rows of elements as `$1`, several times if they are longer than ``longRows``. Call
    /// within a transaction.
    ///
    /// - Parameter row: A closure that returns the row of an element; nil for none.
    func query<Element>(
        _ sql: String, rowsOf elements: some Sequence<Element>, _ row: (Element) -> [WorkValue]?
    ) throws(SharedQueueError) {
        var rows = WorkRowsText()
        for element in elements {
            guard let row = row(element) else { continue }
            rows.append(row)
            guard rows.length >= longRows else { continue }
            _ = try database.query(sql, [rows.value])
            rows = WorkRowsText()
        }
        if !rows.isEmpty { _ = try database.query(sql, [rows.value]) }
    }

    /// The time for which a transaction is repeated, in nanoseconds. A conflict with a stuck writer is reported after a
    /// wait of the database, which must not be repeated as well.
    private static let patience: UInt64 = 20_000_000_000

    /// Runs a transaction, and repeats it if it conflicts with another one.
    func transaction<Result>(_ body: () throws(SharedQueueError) -> Result) throws(SharedQueueError) -> Result {
        let end = MonotonicClock.now + Self.patience
        var attempt = 0
        while true {
            do throws(SharedQueueError) {
                return try database.transaction(body)
            } catch {
                attempt += 1
                guard case .conflict = error, attempt < 10, MonotonicClock.now < end else { throw error }
            }
        }
    }
}
