import Foundation

/// A filter that selects entries.
package struct WorkFilter: Sendable {
    package var ids: [UUID]?
    package var states: Set<WorkState>?
    package var tag: String?
    package var batch: String?
    package var host: String?
    /// Another spelling of the host, which also matches.
    package var otherHost: String?

    package init() {}
}

/// A listed entry.
package struct WorkRecord: Sendable {
    package var sequence: Int64
    package var id: UUID
    package var kind: WorkKind
    package var method: String
    package var url: String
    package var host: String
    package var tag: String
    package var batch: String?
    package var uniqueKey: String?
    package var priority: Int
    package var enqueued: Int64
    package var standing: WorkStanding
}

/// A listed worker.
package struct WorkerRecord: Sendable {
    package var id: UUID
    package var name: String
    package var jobs: Int
    package var since: Int64
    package var seen: Int64
    package var leased: Int
}

extension WorkStore {
    /// Returns entries in the order in which they were enqueued, or reversed.
    ///
    /// - Parameter place: The sequence number after which to continue; nil for the first entries.
    package func list(
        _ filter: WorkFilter, behind place: Int64? = nil, newestFirst: Bool = false, limit: Int
    ) throws(SharedQueueError) -> [WorkRecord] {
        var (condition, values) = sql(filter)
        if let place {
            values.append(.integer(place))
            condition += " AND e.sequence \(newestFirst ? "<" : ">") $\(values.count)"
        }
        values.append(.integer(Int64(limit)))
        return try database.query(
            """
            SELECT \(Self.recordColumns)
            FROM entry AS e JOIN request AS q ON q.id = e.id WHERE \(condition)
            ORDER BY e.sequence\(newestFirst ? " DESC" : "") LIMIT $\(values.count)
            """, values
        ).compactMap(Self.record)
    }

    /// The columns read by ``record(_:)``, of the tables `e` and `q`.
    static let recordColumns = """
        \(standingColumns), e.sequence, e.kind, e.tag, e.batch, e.unique_key, e.priority, e.enqueued, q.method, q.url
        """

    static func record(_ row: WorkRow) -> WorkRecord? {
        guard let entry = LockedEntry(row) else { return nil }
        let first = standingColumnCount
        return WorkRecord(
            sequence: row.integer(first) ?? 0, id: entry.id,
            kind: row.integer(first + 1).flatMap { WorkKind(code: $0) } ?? .plain,
            method: row.text(first + 7) ?? "", url: row.text(first + 8) ?? "", host: entry.host,
            tag: row.text(first + 2) ?? "", batch: row.text(first + 3), uniqueKey: row.text(first + 4),
            priority: row.int(first + 5) ?? 0, enqueued: row.integer(first + 6) ?? 0, standing: entry.standing)
    }

    func sql(_ filter: WorkFilter) -> (condition: String, values: [WorkValue]) {
        var conditions = ["TRUE"], values: [WorkValue] = []
        func add(_ value: WorkValue, _ condition: (String) -> String) {
            values.append(value)
            conditions.append(condition("$\(values.count)"))
        }
        if let ids = filter.ids { add(WorkRowsText(ids: ids).value) { "e.id IN (SELECT id FROM \(dialect.ids($0)) AS r)" } }
        if let states = filter.states {
            conditions.append(states.isEmpty ? "FALSE" : "e.state IN (\(states.codes))")
        }
        if let tag = filter.tag { add(.text(tag)) { "e.tag = \($0)" } }
        if let batch = filter.batch { add(.text(batch)) { "e.batch = \($0)" } }
        if let host = filter.host {
            let other = filter.otherHost ?? host
            add(.text(host)) { "e.host = \($0)" }
            if other != host {
                values.append(.text(other))
                conditions[conditions.count - 1] = "e.host IN ($\(values.count - 1), $\(values.count))"
            }
        }
        return (conditions.joined(separator: " AND "), values)
    }

    /// Returns the number of entries in each state.
    package func counts(_ filter: WorkFilter = WorkFilter()) throws(SharedQueueError) -> [WorkState: Int] {
        let (condition, values) = sql(filter)
        var counts: [WorkState: Int] = [:]
        for row in try database.query(
            "SELECT e.state, count(*) FROM entry AS e WHERE \(condition) GROUP BY e.state", values)
        {
            if let state = row.integer(0).flatMap({ WorkState(code: $0) }) { counts[state] = row.int(1) }
        }
        return counts
    }

    /// Returns the number of entries that are neither done nor cancelled, by host and state, largest numbers first.
    package func countsByHost(limit: Int) throws(SharedQueueError) -> [(host: String, state: WorkState, count: Int)] {
        let over = WorkState.allCases.filter(\.isOver)
        let open = Set(WorkState.allCases).subtracting(over).union([.failed])
        return try database.query(
            """
            SELECT e.host, e.state, count(*) FROM entry AS e WHERE e.state IN (\(open.codes))
            GROUP BY e.host, e.state ORDER BY count(*) DESC, e.host LIMIT $1
            """, [.integer(Int64(limit))]
        ).compactMap { row in
            guard let host = row.text(0), let state = row.integer(1).flatMap({ WorkState(code: $0) }) else { return nil }
            return (host, state, row.int(2) ?? 0)
        }
    }

    /// Returns the workers that are considered alive.
    package func workers() throws(SharedQueueError) -> [WorkerRecord] {
        try database.query(
            """
            SELECT e.id, e.name, e.jobs, e.since, e.seen,
                (SELECT count(*) FROM entry AS l WHERE l.state = \(WorkState.leased.code) AND l.worker = e.id)
            FROM worker AS e WHERE e.until > \(dialect.now) ORDER BY e.name, e.since
            """, []
        ).compactMap { row in
            guard let id = row.id(0) else { return nil }
            return WorkerRecord(
                id: id, name: row.text(1) ?? "", jobs: row.int(2) ?? 0, since: row.integer(3) ?? 0,
                seen: row.integer(4) ?? 0, leased: row.int(5) ?? 0)
        }
    }

    /// Returns the hosts with limits or closed gates.
    package func hosts() throws(SharedQueueError) -> [(host: String, limits: HostLimits, gate: Int64?)] {
        try database.query(
            """
            SELECT e.name, e.jobs, e.rate, e.retry_share, e.gate, \(dialect.now) FROM host AS e
            WHERE (e.is_own = 1 OR e.gate > \(dialect.now)) AND e.name NOT LIKE '#%' ORDER BY e.name LIMIT 1000
            """, []
        ).compactMap { row in
            guard let host = row.text(0), let gate = row.integer(4), let now = row.integer(5) else { return nil }
            let limits = HostLimits(
                maximumConcurrentRequests: row.int(1), requestsPerSecond: row.real(2), retryShare: row.real(3))
            return (host, limits, gate > now ? gate : nil)
        }
    }

    /// Returns the stored part of an entry's response.
    package func result(of id: UUID) throws(SharedQueueError) -> WorkResult? {
        guard
            let row = try database.query(
                "SELECT e.head, e.digest, e.body, e.place FROM result AS e WHERE e.id = $1", [.id(id)]
            ).first
        else { return nil }
        var result = WorkResult()
        result.head = row.text(0)
        result.digest = row.text(1)
        result.body = row.bytes(2)
        result.place = row.text(3)
        return result
    }

    /// Returns a limited number of dependencies and dependents of an entry.
    package func edges(of id: UUID, limit: Int) throws(SharedQueueError) -> (needed: [UUID], dependents: [UUID]) {
        let values: [WorkValue] = [.id(id), .integer(Int64(limit))]
        let needed = try database.query("SELECT d.needed FROM dependency AS d WHERE d.entry = $1 LIMIT $2", values)
        let dependents = try database.query("SELECT d.entry FROM dependency AS d WHERE d.needed = $1 LIMIT $2", values)
        return (needed.compactMap { $0.id(0) }, dependents.compactMap { $0.id(0) })
    }

    // MARK: Changing entries

    /// Applies a change to entries, a few hundred per transaction. Returns the number of changed entries. An entry whose
    /// unique key belongs to another entry by now is left unchanged; if it is the only one, this is an error.
    package func apply(_ change: WorkStanding.Change, to filter: WorkFilter) throws(SharedQueueError) -> Int {
        let sources: Set<WorkState> =
            switch change {
            case .cancel: WorkState.sources(of: .cancel)
            case .retry: WorkState.sources(of: .retry)
            case .pause: WorkState.sources(of: .pause)
            case .resume: WorkState.sources(of: .resume)
            case .reschedule: WorkState.sources(of: .reschedule)
            default: []
            }
        var filter = filter, place: Int64 = 0, count = 0
        filter.states = filter.states.map { $0.intersection(sources) } ?? sources
        while true {
            let page = try list(filter, behind: place, limit: 500)
            guard let last = page.last else { return count }
            place = last.sequence
            do throws(SharedQueueError) {
                count += try apply(change, to: page.map(\.id), in: filter.states)
            } catch {
                guard case .duplicateKey = error else { throw error }
                for record in page {
                    do throws(SharedQueueError) {
                        count += try apply(change, to: [record.id], in: filter.states)
                    } catch {
                        // Another entry with the same unique key was enqueued after this one had failed.
                        guard case .duplicateKey = error else { throw error }
                        if filter.ids?.count == 1, let key = record.uniqueKey { throw .duplicateKey(key) }
                    }
                }
            }
        }
    }

    private func apply(
        _ change: WorkStanding.Change, to ids: [UUID], in states: Set<WorkState>?
    ) throws(SharedQueueError) -> Int {
        try transaction { () throws(SharedQueueError) in
            let entries = try lock(ids).filter { states?.contains($0.old.state) ?? true }
            return try apply(change, to: entries, try now())
        }
    }

    /// Removes entries that have ended. Returns their number. Entries that wait for the retry of a removed one fail.
    package func purge(_ filter: WorkFilter, olderThan age: Int64) throws(SharedQueueError) -> Int {
        var filter = filter
        let over = Set(WorkState.allCases.filter(\.isOver))
        filter.states = filter.states?.intersection(over) ?? over
        var (condition, values) = sql(filter)
        values.append(.integer(age))
        condition += " AND e.changed <= \(dialect.now) - $\(values.count)"
        var count = 0
        while true {
            let removed = try remove(where: condition, values, 1000)
            count += removed
            if removed < 1000 { return count }
        }
    }

    /// - Parameter condition: A condition on the table `e`.
    @discardableResult
    func remove(where condition: String, _ values: [WorkValue], _ limit: Int) throws(SharedQueueError) -> Int {
        guard try !database.query("SELECT 1 FROM entry AS e WHERE \(condition) LIMIT 1", values).isEmpty else { return 0 }
        return try transaction { () throws(SharedQueueError) in
            let ids = try database.query(
                "SELECT e.id FROM entry AS e WHERE \(condition) LIMIT \(limit)\(dialect.forUpdateSkippingLocked)", values
            ).compactMap { $0.id(0) }
            guard !ids.isEmpty else { return 0 }
            let list = WorkRowsText(ids: ids).value
            let unsuccessful = [WorkState.failed, .cancelled]
            let dependents = try database.query(
                """
                SELECT DISTINCT d.entry FROM dependency AS d JOIN entry AS e ON e.id = d.needed
                WHERE d.needed IN (SELECT id FROM \(dialect.ids("$1")) AS r) AND e.state IN (\(Set(unsuccessful).codes))
                """, [list]
            ).compactMap { $0.id(0) }
            try apply(.dependencyRemoval, to: try lock(dependents), try now())
            try delete(ids)
            return ids.count
        }
    }

    /// Removes the rows of entries, without effects on their dependents. Call within a transaction.
    ///
    /// - Parameter keepsDependencies: Whether to keep the rows of the entries' dependents, which show that a dependency
    ///   no longer exists.
    func delete(_ ids: [UUID], keepsDependencies: Bool = false) throws(SharedQueueError) {
        let columns = [
            ("dependency", "entry"), ("dependency", "needed"), ("result", "id"), ("request", "id"), ("entry", "id"),
        ]
        for (name, column) in columns where !(keepsDependencies && column == "needed") {
            _ = try database.query(
                "DELETE FROM \(name) WHERE \(column) IN (SELECT id FROM \(dialect.ids("$1")) AS r)",
                [WorkRowsText(ids: ids).value])
        }
    }
}
