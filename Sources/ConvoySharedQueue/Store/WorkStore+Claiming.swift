import ConvoyDownloads
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
    package var kind: WorkItem.Kind
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

extension ClaimedWork {
    /// The properties that handlers receive.
    var entry: SharedQueueWorker.ClaimedEntry {
        SharedQueueWorker.ClaimedEntry(id: id, tag: tag.isEmpty ? nil : tag, attempt: attempts)
    }
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
}

extension WorkStore {
    /// The maximum number of lanes that a claim searches. The next claim continues after them.
    private static let laneLimit = 500

    /// Leases ready entries, those of the lowest rank first, within the limits of their hosts.
    ///
    /// - Parameters:
    ///   - worker: The worker that leases the entries. It must be registered.
    ///   - tags: The tags of the entries to lease; nil for all.
    package func claim(worker: UUID, limit: Int, tags: [String]?) throws(SharedQueueError) -> WorkClaim {
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
            let count = lanes.count == 1 ? limit : max(1, 2 * limit / lanes.count)
            var allowed = shares.mapValues(\.allowance)
            for index in lanes.indices { lanes[index].count = min(count, limit, allowed[lanes[index].host] ?? .max) }
            var picked: [LockedEntry] = []
            for row in try database.pick(lanes, limit: limit) {
                guard let entry = LockedEntry(row) else { continue }
                if let left = allowed[entry.host] {
                    guard left > 0 else { continue }
                    allowed[entry.host] = left - 1
                }
                picked.append(entry)
            }
            guard !picked.isEmpty else { return claim }
            for index in picked.indices { picked[index].standing.apply(.claim(worker: worker), now: now) }
            try write(picked, now)
            picked.removeAll { $0.standing.state != .leased }
            var changed: [String: HostShare] = [:]
            for (host, state) in shares {
                var share = state.share
                share.take(picked.count { $0.host == host }, now: now)
                if share != state.share || share.limits.requestsPerSecond != nil { changed[host] = share }
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
        let shares = hasHosts ? try allowances(of: Set(lanes.map(\.host)), now, locks: locks) : [:]
        var claim = WorkClaim()
        if let first = shares.values.compactMap({ $0.share.nextTime(after: now) }).min() { claim.wait = first - now }
        claim.isHeldBack = shares.contains { $0.value.allowance == 0 && $0.value.share.nextTime(after: now) == nil }
        return (claim, lanes.filter { shares[$0.host]?.allowance != 0 }, shares, now)
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
        let ready = "e.state = \(WorkState.ready.code)"
        return try database.query(
            """
            WITH RECURSIVE lane (name, number) AS (
                SELECT (SELECT e.lane FROM entry AS e WHERE \(ready) AND e.lane > $1 AND e.lane < $2
                    ORDER BY e.lane LIMIT 1), 1
                UNION ALL
                SELECT (SELECT e.lane FROM entry AS e WHERE \(ready) AND e.lane > lane.name AND e.lane < $2
                    ORDER BY e.lane LIMIT 1), lane.number + 1
                FROM lane WHERE lane.name IS NOT NULL AND lane.number < \(Self.laneLimit))
            SELECT name FROM lane WHERE name IS NOT NULL
            """, [.text(first), .text(end)]
        ).compactMap { $0.text(0).map { WorkLane(name: $0) } }
    }

    /// Returns the remaining allowances of hosts with limits or a gate. Optionally locks the rows of hosts with limits.
    private func allowances(
        of hosts: Set<String>, _ now: Int64, locks: Bool
    ) throws(SharedQueueError) -> [String: (share: HostShare, allowance: Int)] {
        let shares = try shares(of: hosts, now, locks: locks)
        guard !shares.isEmpty else { return [:] }
        var leased: [String: Int] = [:]
        let counted = shares.filter { $0.value.limits.maximumConcurrentRequests != nil }
        if !counted.isEmpty {
            var rows = WorkRowsText()
            for host in counted.keys { rows.append([.text(host)]) }
            for row in try database.query(
                """
                SELECT e.host, count(*) FROM entry AS e
                WHERE e.state = \(WorkState.leased.code)
                    AND e.host IN (SELECT host FROM \(dialect.rows("$1", [("host", .text)])) AS r) GROUP BY e.host
                """, [rows.value])
            {
                if let host = row.text(0) { leased[host] = row.int(1) }
            }
        }
        return shares.mapValuesWithKeys { host, share in
            var share = share
            let allowance = share.allowance(leased: leased[host] ?? 0, now: now)
            return (share, allowance)
        }
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
                tag: row.text(2) ?? "", kind: row.integer(1).flatMap { WorkItem.Kind(rawValue: $0) } ?? .plain,
                method: row.text(3) ?? "GET", url: row.text(4) ?? "", payload: row.text(5) ?? "", body: row.bytes(6),
                trace: row.text(7), mark: row.text(8),
                timeLeft: standing.deadline.map { $0.subtractingReportingOverflow(now).partialValue })
        }
    }
}

extension Dictionary {
    fileprivate func mapValuesWithKeys<New>(_ body: (Key, Value) -> New) -> [Key: New] {
        var new: [Key: New] = [:]
        for (key, value) in self { new[key] = body(key, value) }
        return new
    }
}
