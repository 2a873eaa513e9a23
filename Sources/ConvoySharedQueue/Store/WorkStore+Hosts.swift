import Foundation

/// Limits, gates and the pause of the whole queue.
extension WorkStore {
    /// The name under which the limits of all other hosts are stored.
    package static let everyHost = "*"

    /// The name under which the limits of a tag are stored. No host begins with this character.
    static func limitName(ofTag tag: String) -> String { "#\(tag)" }

    /// Returns the shares of tags that have limits, by the names of their rows. Optionally locks them until the transaction
    /// ends.
    func shares(ofTags tags: Set<String>, locks: Bool) throws(SharedQueueError) -> [String: HostShare] {
        var rows = WorkRowsText()
        for tag in tags { rows.append([.text(Self.limitName(ofTag: tag))]) }
        let names = dialect.rows("$1", [("name", .text)])
        return try shares("e.is_own = 1 AND e.name IN (SELECT name FROM \(names) AS r)", [rows.value], locks: locks)
    }

    /// Returns the shares of hosts that have limits or a gate, by host. Optionally creates the rows of those with
    /// limits, and locks them until the transaction ends.
    func shares(of hosts: Set<String>, _ now: Int64, locks: Bool) throws(SharedQueueError) -> [String: HostShare] {
        var rows = WorkRowsText()
        for host in hosts.union([Self.everyHost]) { rows.append([.text(host)]) }
        let condition = "e.name IN (SELECT name FROM \(dialect.rows("$1", [("name", .text)])) AS r)"
        var found = try shares(condition, [rows.value], locks: false)
        let standard = found.removeValue(forKey: Self.everyHost)?.limits
        if !locks {
            if let standard, standard.isLimited {
                for host in hosts where found[host] == nil { found[host] = HostShare(limits: standard, now: now) }
            }
            return found
        }
        if let standard, standard.isLimited {
            var missing = WorkRowsText(), isMissing = false
            for host in hosts where found[host] == nil {
                let share = HostShare(limits: standard, now: now)
                missing.append([.text(host), .real(share.tokens), .integer(now), .real(share.retries)])
                isMissing = true
            }
            if isMissing {
                let table = dialect.rows(
                    "$1", [("name", .text), ("tokens", .real), ("refilled", .integer), ("retries", .real)])
                _ = try database.query(
                    """
                    INSERT INTO host (name, is_own, tokens, refilled, gate, retries)
                    SELECT name, 0, tokens, refilled, 0, retries FROM \(table) AS r WHERE TRUE ON CONFLICT DO NOTHING
                    """, [missing.value])
            }
        }
        guard !found.isEmpty || standard?.isLimited == true else { return found }
        found = try shares(condition, [rows.value], locks: true)
        found[Self.everyHost] = nil
        return found
    }

    /// Reads shares. A host without individual limits has the limits for all hosts.
    private func shares(
        _ condition: String, _ values: [WorkValue], locks: Bool
    ) throws(SharedQueueError) -> [String: HostShare] {
        let rows = try database.query(
            """
            SELECT e.name, e.is_own, e.jobs, e.rate, e.retry_share, e.tokens, e.refilled, e.gate, e.retries, e.failures
            FROM host AS e
            WHERE \(condition) ORDER BY e.name\(locks ? dialect.forUpdate : "")
            """, values)
        func limits(_ row: WorkRow) -> HostLimits {
            HostLimits(
                maximumConcurrentRequests: row.int(2), requestsPerSecond: row.real(3), retryShare: row.real(4))
        }
        let standard = rows.first { $0.text(0) == Self.everyHost }.map(limits) ?? HostLimits()
        var shares: [String: HostShare] = [:]
        for row in rows {
            guard let name = row.text(0) else { continue }
            let isOwn = row.integer(1) == 1
            shares[name] = HostShare(
                limits: isOwn ? limits(row) : standard, tokens: row.real(5) ?? 0, refilled: row.integer(6) ?? 0,
                gate: row.integer(7) ?? 0, retries: row.real(8) ?? 0, failures: row.count(9))
        }
        return shares
    }

    /// Stores the remaining shares of hosts.
    func write(_ shares: [String: HostShare]) throws(SharedQueueError) {
        guard !shares.isEmpty else { return }
        var rows = WorkRowsText()
        for (name, share) in shares.sorted(by: { $0.key < $1.key }) {
            rows.append([
                .text(name), .real(share.tokens), .integer(share.refilled), .integer(share.gate), .real(share.retries),
                .integer(Int64(share.failures)),
            ])
        }
        let table = dialect.rows(
            "$1",
            [
                ("name", .text), ("tokens", .real), ("refilled", .integer), ("gate", .integer), ("retries", .real),
                ("failures", .integer),
            ])
        _ = try database.query(
            """
            INSERT INTO host (name, is_own, tokens, refilled, gate, retries, failures)
            SELECT name, 0, tokens, refilled, gate, retries, failures FROM \(table) AS r WHERE TRUE
            ON CONFLICT (name) DO UPDATE SET tokens = excluded.tokens, refilled = excluded.refilled,
                gate = excluded.gate, retries = excluded.retries, failures = excluded.failures
            """, [rows.value])
    }

    /// Sets the limits of a host; nil applies those of all hosts.
    package func setLimits(_ limits: HostLimits?, host: String) throws(SharedQueueError) {
        try transaction { () throws(SharedQueueError) in try write(limits, host: host) }
    }

    /// Changes the limits of a host, and returns them.
    package func changeLimits(
        host: String, _ change: (inout HostLimits) -> Void
    ) throws(SharedQueueError) -> HostLimits {
        try transaction { () throws(SharedQueueError) in
            // The row must exist to be locked.
            _ = try database.query(
                """
                INSERT INTO host (name, is_own, tokens, refilled, gate, retries) VALUES ($1, 0, 0, $2, 0, 0)
                ON CONFLICT DO NOTHING
                """, [.text(host), .integer(try now())])
            var limits = try shares("e.name = $1", [.text(host)], locks: true)[host]?.limits ?? HostLimits()
            change(&limits)
            try write(limits.isLimited ? limits : nil, host: host)
            return limits
        }
    }

    /// Changes the limits of a tag, and returns them.
    package func changeLimits(
        tag: String, _ change: (inout HostLimits) -> Void
    ) throws(SharedQueueError) -> HostLimits {
        try changeLimits(host: Self.limitName(ofTag: tag), change)
    }

    private func write(_ limits: HostLimits?, host: String) throws(SharedQueueError) {
        let share = HostShare(limits: limits ?? HostLimits(), now: try now())
        _ = try database.query(
            """
            INSERT INTO host (name, is_own, jobs, rate, retry_share, tokens, refilled, gate, retries)
            VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8)
            ON CONFLICT (name) DO UPDATE SET is_own = excluded.is_own, jobs = excluded.jobs, rate = excluded.rate,
                retry_share = excluded.retry_share, tokens = excluded.tokens
            """,
            [
                .text(host), .integer(limits == nil ? 0 : 1),
                .integer(limits?.maximumConcurrentRequests.map(Int64.init)), .real(limits?.requestsPerSecond),
                .real(limits?.retryShare), .real(share.tokens), .integer(share.refilled), .real(share.retries),
            ])
        try database.announce(.work)
    }

    /// Sets the limits of a tag; nil removes them.
    package func setLimits(_ limits: HostLimits?, tag: String) throws(SharedQueueError) {
        let name = Self.limitName(ofTag: tag)
        if let limits { return try setLimits(limits, host: name) }
        try transaction { () throws(SharedQueueError) in
            _ = try database.query("DELETE FROM host WHERE name = $1", [.text(name)])
            try database.announce(.work)
        }
    }

    /// Returns the limits of tags.
    func tagLimits() throws(SharedQueueError) -> [String: HostLimits] {
        let rows = try database.query(
            """
            SELECT e.name, e.jobs, e.rate FROM host AS e WHERE e.is_own = 1 AND e.name LIKE '#%' ORDER BY e.name LIMIT 1000
            """, [])
        return rows.reduce(into: [:]) { limits, row in
            guard let name = row.text(0) else { return }
            limits[String(name.dropFirst())] = HostLimits(
                maximumConcurrentRequests: row.int(1), requestsPerSecond: row.real(2))
        }
    }

    /// Removes the rows of hosts without individual limits that have not been used for an hour, so that nothing is left
    /// to remember about them.
    func removeHosts(_ now: Int64) throws(SharedQueueError) {
        let isUnused = "is_own = 0 AND name <> '\(Self.everyHost)' AND gate <= $1 AND refilled <= $1"
        let past: [WorkValue] = [.integer(now - 3_600_000_000)]
        guard try !database.query("SELECT 1 FROM host WHERE \(isUnused) LIMIT 1", past).isEmpty else { return }
        _ = try database.query("DELETE FROM host WHERE \(isUnused)", past)
    }

    /// Lets all workers send requests to a host again.
    package func openGate(host: String) throws(SharedQueueError) {
        _ = try database.query("UPDATE host SET gate = 0, failures = 0 WHERE name = $1", [.text(host)])
        try database.announce(.work)
    }

    // MARK: The whole queue

    /// Returns whether the whole queue is paused.
    package func isPaused() throws(SharedQueueError) -> Bool {
        try database.query("SELECT paused FROM queue", []).first?.integer(0) == 1
    }

    /// Pauses or resumes the whole queue. Running entries continue.
    package func setPaused(_ isPaused: Bool) throws(SharedQueueError) {
        try transaction { () throws(SharedQueueError) in
            _ = try database.query("UPDATE queue SET paused = $1", [.integer(isPaused ? 1 : 0)])
            try database.announce(isPaused ? .control : .work)
        }
    }
}
