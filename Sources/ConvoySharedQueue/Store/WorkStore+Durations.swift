import Foundation

/// Durations of requests, and the ages of entries that are ready.
extension WorkStore {
    /// The time after which the durations of an unused host are removed, in microseconds: 30 days.
    private static let retention: Int64 = 30 * 86_400_000_000

    /// Adds the durations of requests to those that are stored. At most about a hundred hosts have their own; the others
    /// are counted together.
    package func record(_ durations: HostDurations) throws(SharedQueueError) {
        guard !durations.hosts.isEmpty else { return }
        try transaction { () throws(SharedQueueError) in
            var known = Set(try database.query("SELECT DISTINCT d.host FROM duration AS d", []).compactMap { $0.text(0) })
            var stored = HostDurations()
            for (host, durations) in durations.hosts.sorted(by: { $0.key < $1.key }) {
                let isStored = known.contains(host) || known.count < HostDurations.mostStored
                let name = isStored ? host : HostDurations.otherHosts
                known.insert(name)
                var part = HostDurations()
                part.hosts[name] = durations
                stored.merge(part)
            }
            let now = try now()
            var rows = WorkRowsText()
            // All workers lock the rows in the same order.
            for (host, durations) in stored.hosts.sorted(by: { $0.key < $1.key }) {
                for (range, count) in durations.counts.enumerated() where count > 0 || range == 0 {
                    // The sum belongs to the host, so one row has it.
                    let total = range == 0 ? durations.total : 0
                    rows.append([
                        .text(host), .integer(Int64(range)), .integer(Int64(count)), .real(total), .integer(now),
                    ])
                }
            }
            let table = dialect.rows(
                "$1",
                [("host", .text), ("bucket", .integer), ("number", .integer), ("total", .real), ("seen", .integer)])
            _ = try database.query(
                """
                INSERT INTO duration (host, bucket, number, total, seen)
                SELECT host, bucket, number, total, seen FROM \(table) AS r WHERE TRUE
                ON CONFLICT (host, bucket) DO UPDATE SET number = duration.number + excluded.number,
                    total = duration.total + excluded.total, seen = excluded.seen
                """, [rows.value])
            _ = try database.query(
                """
                DELETE FROM duration WHERE host IN
                    (SELECT d.host FROM duration AS d GROUP BY d.host HAVING max(d.seen) < $1)
                """, [.integer(now - Self.retention)])
        }
    }

    /// Returns the durations of requests by host.
    package func durations() throws(SharedQueueError) -> HostDurations {
        var durations = HostDurations()
        for row in try database.query("SELECT d.host, d.bucket, d.number, d.total FROM duration AS d", []) {
            guard let host = row.text(0), let range = row.int(1) else { continue }
            var found = durations.hosts[host] ?? .init()
            guard found.counts.indices.contains(range) else { continue }
            found.counts[range] = max(0, row.int(2) ?? 0)
            found.total += max(0, row.real(3) ?? 0)
            durations.hosts[host] = found
        }
        return durations
    }

    /// Returns the times since which the first ready entries have been able to start, by host, of the first few hundred
    /// tags and hosts. Reads only the first entry of each.
    package func oldestReady() throws(SharedQueueError) -> [String: Int64] {
        let since = "CASE WHEN e.due > e.enqueued THEN e.due ELSE e.enqueued END"
        let ready = "e.state = \(WorkState.ready.code)"
        let rows = try database.query(
            """
            \(Self.laneNames) SELECT e.host, \(since) FROM (SELECT
                (SELECT f.id FROM entry AS f WHERE f.state = \(WorkState.ready.code) AND f.lane = lane.name
                    ORDER BY f.place, f.sequence LIMIT 1) AS id
                FROM lane WHERE lane.name IS NOT NULL) AS l JOIN entry AS e ON e.id = l.id
            """, [.text(""), .text("\u{10FFFF}")])
        // A low priority may let the oldest entry come later in its lane.
        let first = try database.query(
            "SELECT e.host, \(since) FROM entry AS e WHERE \(ready) ORDER BY e.sequence LIMIT 1", [])
        return (rows + first).reduce(into: [:]) { oldest, row in
            guard let host = row.text(0), let time = row.integer(1) else { return }
            oldest[host] = min(oldest[host] ?? time, time)
        }
    }
}
