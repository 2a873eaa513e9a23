import Foundation

/// A claimed entry.
package struct ClaimedWork: Sendable {
    package var id: UUID
    package var lease: Int64
    package var attempts: Int
    package var maximumAttempts: Int
    package var sendsAgain: Bool
    package var host: String
    package var tag: String
    package var kind: WorkKind
    package var method: String
    package var url: String
    package var payload: String
    package var body: [UInt8]?
    package var trace: String?
    /// The mark stored by an earlier attempt.
    package var mark: String?
    /// The number of microseconds after the claim until which the request may be sent; nil for no limit.
    package var timeLeft: Int64?
}

/// The result of a claim.
package struct WorkClaim: Sendable {
    package var entries: [ClaimedWork] = []
    /// The number of microseconds after which another claim may find entries that this claim could not return; nil if
    /// unknown.
    package var wait: Int64?
    package var isPaused = false
    /// Whether the worker is considered dead and must register again.
    package var isUnknown = false
    /// Whether entries were ready but exceeded the number of concurrent requests of their host, so that they may be
    /// claimed when other entries have ended, which is announced.
    package var isHeldBack = false
    /// Whether fewer entries than possible were claimed to be fair to all tags, so that another claim may find more.
    package var isPartial = false
}

extension WorkStore {
    /// The maximum number of lanes that a claim searches. The next claim continues after them.
    private static let laneLimit = 500

    /// Leases ready entries, those of the lowest rank first, within the limits of their hosts.
    ///
    /// - Parameters:
    ///   - worker: The worker that leases the entries. It must be registered.
    ///   - tags: The tags of the entries to lease; nil for all.
    ///   - weights: The weights by which the entries are distributed among tags, 1 by default; nil for the order of their
    ///     ranks only.
    package func claim(
        worker: UUID, limit: Int, tags: [String]?, weights: [String: Double]? = nil
    ) throws(SharedQueueError) -> WorkClaim {
        guard limit > 0 else { return WorkClaim() }
        // Usually nothing is ready, which can be detected without a transaction.
        let ready = try lanes(tags)
        guard !ready.isEmpty else { return WorkClaim() }
        let seen = try look(ready, locks: false)
        guard !seen.lanes.isEmpty else { return seen.claim }
        return try transaction { () throws(SharedQueueError) in
            // A worker considered dead must not get entries, because they would never be taken back.
            let known = try database.query(
                "SELECT e.id FROM worker AS e WHERE e.id = $1\(dialect.forShare)", [.id(worker)])
            guard !known.isEmpty else { return WorkClaim(isUnknown: true) }
            var (claim, lanes, shares, now) = try look(seen.lanes, locks: true)
            claim.wait = [claim.wait, seen.claim.wait].compactMap(\.self).min()
            claim.isHeldBack = claim.isHeldBack || seen.claim.isHeldBack
            guard !lanes.isEmpty else { return claim }
            var allowed = shares.mapValues(\.allowance)
            var quotas: [String: Int]?
            if let weights {
                let most = lanes.reduce(into: [String: Int]()) { most, lane in
                    most[lane.tag] = allowed[Self.limitName(ofTag: lane.tag)] ?? limit
                }
                quotas = fairness.quotas(of: Set(most.keys), limit, weights, most: most)
                lanes.removeAll { quotas?[$0.tag] == nil }
            }
            let count = lanes.count == 1 || weights != nil ? limit : max(1, 2 * limit / lanes.count)
            for index in lanes.indices {
                let most = lanes[index].limitNames.map { allowed[$0] ?? .max } + [quotas?[lanes[index].tag] ?? .max]
                lanes[index].count = most.reduce(min(count, limit), min)
            }
            var picked: [LockedEntry] = []
            let most = quotas == nil ? limit : lanes.reduce(0) { $0 + $1.count }
            for row in try database.pick(lanes, limit: most) {
                guard let entry = LockedEntry(row) else { continue }
                let names = entry.limitNames
                guard names.allSatisfy({ allowed[$0] ?? 1 > 0 }), quotas?[entry.tag] ?? 1 > 0 else { continue }
                for name in names { allowed[name]? -= 1 }
                quotas?[entry.tag]? -= 1
                picked.append(entry)
            }
            if let quotas {
                fairness.giveBack(quotas)
                claim.isPartial = picked.count < limit
            }
            guard !picked.isEmpty else { return claim }
            for index in picked.indices { picked[index].standing.apply(.claim(worker: worker), now: now) }
            try write(picked, now)
            picked.removeAll { $0.standing.state != .leased }
            var changed: [String: HostShare] = [:]
            for (name, state) in shares {
                var share = state.share
                share.take(picked.count { $0.limitNames.contains(name) }, now: now)
                if share != state.share || share.limits.requestsPerSecond != nil { changed[name] = share }
            }
            try write(changed)
            claim.entries = try requests(of: picked, now)
            return claim
        }
    }

    /// The result of a search: the lanes with entries that may be claimed, and the limits of their hosts.
    private typealias Found = (
        claim: WorkClaim, lanes: [WorkLane], shares: [String: (share: HostShare, allowance: Int)], now: Int64
    )

    private func look(_ lanes: [WorkLane], locks: Bool) throws(SharedQueueError) -> Found {
        let (now, isPaused, hasHosts) = try circumstances()
        guard !isPaused else { return (WorkClaim(isPaused: true), [], [:], now) }
        let shares = hasHosts ? try allowances(of: lanes, now, locks: locks) : [:]
        var claim = WorkClaim()
        if let first = shares.values.compactMap({ $0.share.nextTime(after: now) }).min() { claim.wait = first - now }
        claim.isHeldBack = shares.contains { $0.value.allowance == 0 && $0.value.share.nextTime(after: now) == nil }
        let open = lanes.filter { lane in lane.limitNames.allSatisfy { shares[$0]?.allowance != 0 } }
        return (claim, open, shares, now)
    }

    /// Returns lanes with ready entries, starting after those of the last call.
    private func lanes(_ tags: [String]?) throws(SharedQueueError) -> [WorkLane] {
        guard let tags else { return try lanes(from: "", to: "\u{10FFFF}") }
        var lanes: [WorkLane] = []
        for tag in Set(tags).sorted() {
            lanes += try self.lanes(from: "\(tag)\(WorkLane.separator)", to: "\(tag) ")
        }
        return lanes
    }

    private func lanes(from first: String, to end: String) throws(SharedQueueError) -> [WorkLane] {
        let cursor = cursors[first]
        var found = try lanes(behind: cursor?.name ?? first, before: end)
        if cursor != nil, found.count < Self.laneLimit {
            // Continue with the first lanes, once.
            let known = Set(found)
            found += try lanes(behind: first, before: end).filter { !known.contains($0) }
            found = Array(found.prefix(Self.laneLimit))
        }
        cursors[first] = found.count < Self.laneLimit ? nil : found.last
        return found
    }

    /// Returns the lanes between two names. Reads only the first entry of each lane, using the index.
    private func lanes(behind first: String, before end: String) throws(SharedQueueError) -> [WorkLane] {
        try database.query(
            "\(Self.laneNames) SELECT name FROM lane WHERE name IS NOT NULL", [.text(first), .text(end)]
        ).compactMap { $0.text(0).map { WorkLane(name: $0) } }
    }

    /// A table `lane` of the lanes with ready entries between `$1` and `$2`, at most ``laneLimit``.
    static let laneNames: String = {
        let ready = "e.state = \(WorkState.ready.code)"
        return """
            WITH RECURSIVE lane (name, number) AS (
                SELECT (SELECT e.lane FROM entry AS e WHERE \(ready) AND e.lane > $1 AND e.lane < $2
                    ORDER BY e.lane LIMIT 1), 1
                UNION ALL
                SELECT (SELECT e.lane FROM entry AS e WHERE \(ready) AND e.lane > lane.name AND e.lane < $2
                    ORDER BY e.lane LIMIT 1), lane.number + 1
                FROM lane WHERE lane.name IS NOT NULL AND lane.number < \(laneLimit))
            """
    }()

    /// Returns the remaining allowances of the hosts and tags of lanes with limits or a gate, by the names of their rows.
    /// Optionally locks the rows of those with limits.
    private func allowances(
        of lanes: [WorkLane], _ now: Int64, locks: Bool
    ) throws(SharedQueueError) -> [String: (share: HostShare, allowance: Int)] {
        let hosts = try shares(of: Set(lanes.map(\.host)), now, locks: locks)
        let tags = try shares(ofTags: Set(lanes.map(\.tag)), locks: locks)
        var leased = try leasedCounts("host", hosts)
        let tagNames = Dictionary(lanes.map { ($0.tag, Self.limitName(ofTag: $0.tag)) }) { $1 }
        let limitedTags = tagNames.compactMap { tag, name in tags[name].map { (tag, $0) } }
        for (tag, count) in try leasedCounts("tag", Dictionary(limitedTags) { $1 }) {
            leased[Self.limitName(ofTag: tag)] = count
        }
        var allowances: [String: (share: HostShare, allowance: Int)] = [:]
        for (name, share) in hosts.merging(tags, uniquingKeysWith: { $1 }) {
            var share = share
            let allowance = share.allowance(leased: leased[name] ?? 0, now: now)
            allowances[name] = (share, allowance)
        }
        return allowances
    }

    /// Returns the numbers of leased entries by host or tag, for those whose concurrent requests are limited.
    private func leasedCounts(
        _ column: String, _ shares: [String: HostShare]
    ) throws(SharedQueueError) -> [String: Int] {
        let counted = shares.filter { $0.value.limits.maximumConcurrentRequests != nil }
        guard !counted.isEmpty else { return [:] }
        var rows = WorkRowsText(), counts: [String: Int] = [:]
        for name in counted.keys { rows.append([.text(name)]) }
        for row in try database.query(
            """
            SELECT e.\(column), count(*) FROM entry AS e
            WHERE e.state = \(WorkState.leased.code)
                AND e.\(column) IN (SELECT name FROM \(dialect.rows("$1", [("name", .text)])) AS r) GROUP BY e.\(column)
            """, [rows.value])
        {
            if let name = row.text(0) { counts[name] = row.int(1) }
        }
        return counts
    }

    /// Returns the requests of claimed entries, in the same order.
    private func requests(of entries: [LockedEntry], _ now: Int64) throws(SharedQueueError) -> [ClaimedWork] {
        let rows = try database.query(
            """
            SELECT q.id, e.kind, e.tag, q.method, q.url, q.payload, q.body, q.trace, q.mark
            FROM request AS q JOIN entry AS e ON e.id = q.id
            WHERE q.id IN (SELECT id FROM \(dialect.ids("$1")) AS r)
            """, [WorkRowsText(ids: entries.map(\.id)).value])
        var byID: [UUID: WorkRow] = [:]
        for row in rows { if let id = row.id(0) { byID[id] = row } }
        return entries.map { entry in
            let row = byID[entry.id] ?? WorkRow([])
            let standing = entry.standing
            return ClaimedWork(
                id: entry.id, lease: standing.lease, attempts: standing.attempts,
                maximumAttempts: standing.maximumAttempts, sendsAgain: standing.sendsAgain, host: entry.host,
                tag: row.text(2) ?? "", kind: row.integer(1).flatMap { WorkKind(code: $0) } ?? .plain,
                method: row.text(3) ?? "GET", url: row.text(4) ?? "", payload: row.text(5) ?? "", body: row.bytes(6),
                trace: row.text(7), mark: row.text(8),
                timeLeft: standing.deadline.map { $0.subtractingReportingOverflow(now).partialValue })
        }
    }
}

extension WorkLane {
    /// The names of the rows whose limits apply to the entries.
    var limitNames: [String] { [host, WorkStore.limitName(ofTag: tag)] }
}

extension WorkStore.LockedEntry {
    /// The names of the rows whose limits apply to the entry.
    var limitNames: [String] { [host, WorkStore.limitName(ofTag: tag)] }
}
