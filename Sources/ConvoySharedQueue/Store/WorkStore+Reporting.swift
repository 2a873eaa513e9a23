import Foundation

/// Reports of workers, and taking back the entries of workers that do not report.
extension WorkStore {
    /// Stores the results of attempts. Returns the states of their entries, without those whose reports came too late,
    /// after their leases were lost. A report that has already been stored has the same result again.
    package func report(_ reports: [WorkReport]) throws(SharedQueueError) -> [UUID: WorkState] {
        guard !reports.isEmpty else { return [:] }
        return try transaction { () throws(SharedQueueError) in
            var byID: [UUID: WorkReport] = [:]
            for report in reports { byID[report.id] = report }
            var entries = try lock(byID.keys)
            let (now, _, hasHosts) = try circumstances()
            // Lock hosts after entries, in the same order as claims.
            var shares = try shares(of: entries, byID, now, hasHosts)
            var states: [UUID: WorkState] = [:]
            for index in entries.indices {
                guard var report = byID[entries[index].id] else { continue }
                let host = entries[index].host
                if case .failedForNow(let delay) = report.end, var share = shares[host] {
                    let isFirst = entries[index].standing.attempts <= 1
                    let more = share.account(isFirst: isFirst, retries: true)
                    report.end = .failedForNow(delay: delay.addingReportingOverflow(more).partialValue)
                    shares[host] = share
                } else if var share = shares[host], entries[index].standing.attempts <= 1 {
                    _ = share.account(isFirst: true, retries: false)
                    shares[host] = share
                }
                let claimed = entries[index].standing.changed
                let isAccepted = entries[index].standing.apply(.report(report), now: now)
                let standing = entries[index].standing
                // The number of the lease identifies the attempt.
                let isKnown = isAccepted || [.done, .failed, .retrying].contains(standing.state)
                if isKnown, standing.lease == report.lease { states[report.id] = standing.state }
                guard isAccepted else {
                    byID[report.id] = nil
                    continue
                }
                if let gate = report.gate {
                    shares[host]?.close(until: now.addingReportingOverflow(gate).partialValue)
                } else if report.isOverloaded {
                    shares[host]?.recordOverload(claimed: claimed, now: now)
                } else if report.statusCode != nil {
                    shares[host]?.recordSuccess(now: now)
                }
            }
            try write(entries, now)
            try write(shares)
            // Other workers may be waiting for a place among the concurrent requests of a host or a tag.
            let tags = hasHosts ? try self.shares(ofTags: Set(entries.map(\.tag)), locks: false) : [:]
            let limited = Array(shares.values) + tags.values
            if limited.contains(where: { $0.limits.maximumConcurrentRequests != nil }) {
                try database.announce(.work)
            }
            try write(Array(byID.values))
            return states
        }
    }

    /// Returns the shares of the hosts affected by the reports.
    private func shares(
        of entries: [LockedEntry], _ reports: [UUID: WorkReport], _ now: Int64, _ hasHosts: Bool
    ) throws(SharedQueueError) -> [String: HostShare] {
        func isGated(_ report: WorkReport?) -> Bool { report.map { $0.gate != nil || $0.isOverloaded } ?? false }
        guard hasHosts || reports.values.contains(where: isGated) else { return [:] }
        let gated = Set(entries.filter { isGated(reports[$0.id]) }.map(\.host))
        let known = try shares(of: Set(entries.map(\.host)), now, locks: false)
        let changed = gated.union(
            known.filter { _, share in
                share.limits.retryShare != nil || share.limits.maximumConcurrentRequests != nil || share.failures > 0
            }.keys)
        guard !changed.isEmpty else { return [:] }
        var shares = try shares(of: changed, now, locks: true)
        for host in gated where shares[host] == nil { shares[host] = HostShare(limits: HostLimits(), now: now) }
        return shares
    }

    private func write(_ reports: [WorkReport]) throws(SharedQueueError) {
        let table = dialect.rows(
            "$1", [("id", .id), ("head", .text), ("digest", .text), ("body", .bytes), ("place", .text)])
        try query(
            """
            INSERT INTO result (id, head, digest, body, place) SELECT id, head, digest, body, place FROM \(table) AS r
            WHERE TRUE ON CONFLICT (id) DO UPDATE SET head = excluded.head, digest = excluded.digest,
                body = excluded.body, place = excluded.place
            """, rowsOf: reports
        ) { report in
            report.result.map { result in
                [.id(report.id), .text(result.head), .text(result.digest), .bytes(result.body), .text(result.place)]
            }
        }
    }

    /// Records that the request of an entry is about to be sent. Returns false if the lease was lost.
    package func begin(_ id: UUID, lease: Int64) throws(SharedQueueError) -> Bool {
        try transaction { () throws(SharedQueueError) in
            try apply(.begin(lease: lease), to: try lock([id]), try now()) == 1
        }
    }

    /// Stores a mark for the next attempt of an entry. Returns false if the lease was lost.
    @discardableResult
    package func mark(_ id: UUID, lease: Int64, _ text: String) throws(SharedQueueError) -> Bool {
        try transaction { () throws(SharedQueueError) in
            guard let entry = try lock([id]).first, entry.old.state == .leased, entry.old.lease == lease else {
                return false
            }
            _ = try database.query("UPDATE request SET mark = $2 WHERE id = $1", [.id(id), .text(text)])
            return true
        }
    }

    /// Releases leases whose attempts have not begun, or have ended cleanly without a result.
    package func release(_ leases: [UUID: Int64], worker: UUID) throws(SharedQueueError) {
        guard !leases.isEmpty else { return }
        try transaction { () throws(SharedQueueError) in
            var entries = try lock(leases.keys)
            let now = try now()
            for index in entries.indices {
                guard let lease = leases[entries[index].id] else { continue }
                entries[index].standing.apply(.release(worker: worker, lease: lease), now: now)
            }
            try write(entries, now)
        }
    }

    // MARK: Workers

    /// Adds a worker whose leases last for the given number of microseconds from now. A worker that was added by a call
    /// whose response was lost is only renewed.
    package func register(_ worker: UUID, name: String, jobs: Int, lasting: Int64) throws(SharedQueueError) {
        try transaction { () throws(SharedQueueError) in
            let now = try now()
            _ = try database.query(
                """
                INSERT INTO worker (id, name, jobs, since, seen, until) VALUES ($1, $2, $3, $4, $5, $6)
                ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, until = excluded.until
                """,
                [
                    .id(worker), .text(name), .integer(Int64(jobs)), .integer(now), .integer(now), .integer(now + lasting),
                ])
        }
    }

    /// Renews all leases of a worker in one statement, and returns them; nil if the worker is considered dead, and thus
    /// without leases.
    package func renew(_ worker: UUID, lasting: Int64) throws(SharedQueueError) -> [UUID: Int64]? {
        try transaction { () throws(SharedQueueError) in
            let known = try database.query("SELECT e.id FROM worker AS e WHERE e.id = $1\(dialect.forUpdate)", [.id(worker)])
            guard !known.isEmpty else { return nil }
            let now = try now()
            _ = try database.query(
                "UPDATE worker SET seen = $2, until = $3 WHERE id = $1",
                [.id(worker), .integer(now), .integer(now + lasting)])
            return try leases(of: worker)
        }
    }

    /// Returns the leases of a worker; nil if it is considered dead.
    package func leases(of worker: UUID) throws(SharedQueueError) -> [UUID: Int64]? {
        guard try !database.query("SELECT e.id FROM worker AS e WHERE e.id = $1", [.id(worker)]).isEmpty else { return nil }
        var leases: [UUID: Int64] = [:]
        for row in try database.query(
            "SELECT e.id, e.lease FROM entry AS e WHERE e.state = \(WorkState.leased.code) AND e.worker = $1", [.id(worker)])
        {
            if let id = row.id(0) { leases[id] = row.integer(1) }
        }
        return leases
    }

    /// Removes a worker. Entries that it still has, because the response to a claim was lost, are taken back.
    package func unregister(_ worker: UUID) throws(SharedQueueError) {
        try transaction { () throws(SharedQueueError) in try remove(worker, try now()) }
    }

    private func remove(_ worker: UUID, _ now: Int64) throws(SharedQueueError) {
        let entries = try database.query(
            """
            SELECT \(Self.standingColumns) FROM entry AS e
            WHERE e.state = \(WorkState.leased.code) AND e.worker = $1 ORDER BY e.id\(dialect.forUpdate)
            """, [.id(worker)]
        ).compactMap(LockedEntry.init)
        try apply(.expire, to: entries, now)
        _ = try database.query("DELETE FROM worker WHERE id = $1", [.id(worker)])
    }

    // MARK: Maintenance

    /// Makes due entries ready, takes back the entries of dead workers, removes the entries that have been kept long
    /// enough, and enqueues the occurrences of schedules. Processes at most a few thousand entries of each kind.
    ///
    /// - Returns: The number of microseconds until the next call is useful; nil if unknown.
    @discardableResult
    package func maintain() throws(SharedQueueError) -> Int64? {
        let limit = 2000, now = try now()
        let states = WorkState.self
        try takeBack()
        try apply(
            .becomeDue, where: "e.state IN (\(states.waiting.code), \(states.retrying.code)) AND e.due <= $1",
            order: "e.due", limit, now)
        try apply(
            .passDeadline,
            where: "e.deadline <= $1 AND e.state IN (\(WorkState.sources(of: .passDeadline).codes))", order: "e.deadline",
            limit, now)
        try remove(where: "e.expires <= $1", [.integer(now)], limit)
        try removeHosts(now)
        let row = try database.query(
            """
            SELECT min(e.due) - \(dialect.now), (SELECT min(s.next) - \(dialect.wall) FROM schedule AS s)
            FROM entry AS e\(dialect.using("entry_due"))
            WHERE e.state IN (\(states.waiting.code), \(states.retrying.code))
            """, []
        ).first
        let scheduled = row?.integer(1), next = scheduled.map { $0 <= 0 } == true ? try enqueueScheduled() : scheduled
        return [row?.integer(0).map { max(0, $0) }, next].compactMap(\.self).min()
    }

    /// - Parameter condition: A condition on the table `e`, with the time as `$1`.
    private func apply(
        _ change: WorkStanding.Change, where condition: String, order: String, _ limit: Int, _ now: Int64
    ) throws(SharedQueueError) {
        // Usually no entry matches, which can be detected without a transaction.
        let isAny = try !database.query("SELECT 1 FROM entry AS e WHERE \(condition) LIMIT 1", [.integer(now)]).isEmpty
        guard isAny else { return }
        try transaction { () throws(SharedQueueError) in
            let entries = try database.query(
                """
                SELECT \(Self.standingColumns) FROM entry AS e WHERE \(condition) ORDER BY \(order) LIMIT \(limit)\
                \(dialect.forUpdateSkippingLocked)
                """, [.integer(now)]
            ).compactMap(LockedEntry.init)
            try apply(change, to: entries, now)
        }
    }

    private func takeBack() throws(SharedQueueError) {
        let dead = "SELECT e.id FROM worker AS e WHERE e.until <= \(dialect.now)"
        guard try !database.query("\(dead) LIMIT 1", []).isEmpty else { return }
        try transaction { () throws(SharedQueueError) in
            let now = try now()
            for row in try database.query("\(dead)\(dialect.forUpdateSkippingLocked)", []) {
                if let worker = row.id(0) { try remove(worker, now) }
            }
        }
    }
}

extension Set<WorkState> {
    /// The codes of the states, as an SQL list.
    var codes: String { map { String($0.code) }.sorted().joined(separator: ", ") }
}
