import Foundation

/// An entry to enqueue.
package struct WorkItem: Sendable {
    package var id: UUID
    package var dependencies: Set<UUID> = []
    package var kind = WorkKind.plain
    package var method = "GET"
    package var url = ""
    /// The host and port to which limits apply.
    package var host = ""
    /// The rest of the request, as JSON.
    package var payload = "{}"
    /// The body; nil for none.
    package var body: [UInt8]?
    package var tag = ""
    package var batch: String?
    package var uniqueKey: String?
    /// The age, in microseconds, from which an entry with the same key is not a duplicate; nil for no limit.
    package var uniquePeriod: Int64?
    /// The priority, from -8 to 8.
    package var priority = 0
    /// The `traceparent` of the caller that enqueued the entry.
    package var trace: String?
    /// The number of microseconds until the entry may start.
    package var delay: Int64 = 0
    /// The number of microseconds after which the entry fails unless it has begun; nil for no limit.
    package var timeLimit: Int64?
    package var standing = WorkStanding()
    /// The time at which the entry was enqueued, in microseconds since 1970; nil for now.
    package var enqueued: Int64?

    package init(id: UUID) { self.id = id }
}

extension WorkStore {
    /// Adds all of the entries, in the given order, or none of them. If all of them were added before, perhaps by a call
    /// whose response was lost, changes nothing.
    ///
    /// - Returns: The identifiers of the entries; for an item with the unique key of an existing entry, that entry's
    ///   identifier.
    @discardableResult
    package func enqueue(_ items: [WorkItem]) throws(SharedQueueError) -> [UUID] {
        var seen: Set<UUID> = []
        for item in items where !seen.insert(item.id).inserted { throw .duplicate(item.id) }
        return items.isEmpty ? [] : try transaction { () throws(SharedQueueError) in try add(items) }
    }

    /// Adds entries within a transaction.
    @discardableResult
    func add(_ items: [WorkItem]) throws(SharedQueueError) -> [UUID] {
        guard !items.isEmpty else { return [] }
        let now = try now()
        var names = try namesByKey(items, now)
        var new: [WorkItem] = []
        for item in items where names[item.id] == nil {
            names[item.id] = item.id
            new.append(item)
        }
        guard !new.isEmpty else { return items.map { names[$0.id] ?? $0.id } }
        for index in new.indices {
            new[index].dependencies = Set(new[index].dependencies.map { names[$0] ?? $0 })
        }
        let known = try database.query(
            "SELECT e.id FROM entry AS e WHERE e.id IN (SELECT id FROM \(dialect.ids("$1")) AS r)",
            [WorkRowsText(ids: new.map(\.id)).value])
        if known.count == new.count { return items.map { names[$0.id] ?? $0.id } }
        if let id = known.first?.id(0) { throw .duplicate(id) }
        try place(&new, now)
        try insert(new, now)
        return items.map { names[$0.id] ?? $0.id }
    }

    /// Returns the existing entries with the unique keys of items, by the items' identifiers. If several items have the
    /// same key, the first one is used. Removes the keys from existing entries that are too old.
    private func namesByKey(_ items: [WorkItem], _ now: Int64) throws(SharedQueueError) -> [UUID: UUID] {
        let keyed = items.filter { $0.uniqueKey != nil }
        guard !keyed.isEmpty else { return [:] }
        var rows = WorkRowsText()
        for item in keyed { rows.append([.text(item.uniqueKey)]) }
        let found = try database.query(
            """
            SELECT e.unique_key, e.id, e.enqueued FROM entry AS e
            WHERE e.unique_key IN (SELECT key FROM \(dialect.rows("$1", [("key", .text)])) AS r)
                AND e.unique_key IS NOT NULL AND e.state NOT IN (\(WorkState.failed.code), \(WorkState.cancelled.code))
            """, [rows.value])
        var known: [String: (id: UUID, age: Int64)] = [:], names: [UUID: UUID] = [:], old: [UUID] = []
        for row in found {
            guard let key = row.text(0), let id = row.id(1) else { continue }
            known[key] = (id, max(0, now.subtractingReportingOverflow(row.integer(2) ?? now).partialValue))
        }
        let own = Set(keyed.map(\.id))
        for item in keyed {
            guard let key = item.uniqueKey else { continue }
            if let other = known[key], other.age < item.uniquePeriod ?? .max || own.contains(other.id) {
                names[item.id] = other.id
            } else {
                if let other = known[key] { old.append(other.id) }
                known[key] = (item.id, 0)
            }
        }
        if !old.isEmpty {
            _ = try database.query(
                "UPDATE entry SET unique_key = NULL WHERE id IN (SELECT id FROM \(dialect.ids("$1")) AS r)",
                [WorkRowsText(ids: old).value])
        }
        return names
    }

    /// Counts the dependencies of new entries, and determines their initial states.
    private func place(_ items: inout [WorkItem], _ now: Int64) throws(SharedQueueError) {
        let own = Set(items.map(\.id))
        let others = items.reduce(into: Set<UUID>()) { $0.formUnion($1.dependencies.subtracting(own)) }
        var outcomes: [UUID: WorkStanding.Outcome?] = [:]
        if !others.isEmpty {
            // The dependencies must not end between this query and the commit.
            let rows = try database.query(
                """
                SELECT e.id, e.state FROM entry AS e WHERE e.id IN (SELECT id FROM \(dialect.ids("$1")) AS r)
                ORDER BY e.id\(dialect.forShare)
                """, [WorkRowsText(ids: others).value])
            for row in rows {
                guard let id = row.id(0), let state = row.integer(1).flatMap({ WorkState(code: $0) }) else { continue }
                var standing = WorkStanding()
                standing.state = state
                outcomes[id] = .some(standing.outcome)
            }
        }
        // If a dependency has failed, a new entry may fail immediately, which affects its own dependents.
        for index in try Self.order(items.map { ($0.id, $0.dependencies) }) {
            var item = items[index], standing = item.standing
            for needed in item.dependencies {
                guard let outcome = outcomes[needed] else { throw .unknownDependency(needed, of: item.id) }
                switch outcome {
                case nil: standing.openDependencies += 1
                case .failed: standing.failedDependencies += 1
                case .succeeded: break
                }
            }
            standing.rank = now - Int64(max(-8, min(8, item.priority))) * WorkStanding.priorityStep
            standing.due = now.addingReportingOverflow(max(0, item.delay)).partialValue
            standing.deadline = item.timeLimit.map { now.addingReportingOverflow(max(0, $0)).partialValue }
            standing.apply(.enqueue, now: now)
            item.standing = standing
            outcomes[item.id] = .some(standing.outcome)
            items[index] = item
        }
    }

    /// Returns the indices of items in an order in which each follows its dependencies.
    static func order(_ items: [(id: UUID, dependencies: Set<UUID>)]) throws(SharedQueueError) -> [Int] {
        let indexes = Dictionary(items.enumerated().map { ($1.id, $0) }, uniquingKeysWith: { $1 })
        var open = items.map { item in item.dependencies.count { indexes[$0] != nil } }
        var dependents: [Int: [Int]] = [:]
        for (index, item) in items.enumerated() {
            for needed in item.dependencies {
                if let other = indexes[needed] { dependents[other, default: []].append(index) }
            }
        }
        var order = items.indices.filter { open[$0] == 0 }, next = 0
        while next < order.count {
            for dependent in dependents[order[next]] ?? [] {
                open[dependent] -= 1
                if open[dependent] == 0 { order.append(dependent) }
            }
            next += 1
        }
        if let member = items.indices.first(where: { open[$0] > 0 }), order.count < items.count {
            throw .dependencyCycle(items[member].id)
        }
        return order
    }

    /// Inserts entries with their standings.
    func insert(_ items: [WorkItem], _ now: Int64) throws(SharedQueueError) {
        var entries = WorkRowsText(), edges = WorkRowsText()
        for item in items {
            let standing = item.standing
            entries.append([
                .id(item.id), .integer(item.kind.code), .text(item.host), .text(item.tag),
                .text(WorkLane(tag: item.tag, host: item.host).name), .text(item.batch), .text(item.uniqueKey),
                .integer(Int64(item.priority)), .integer(standing.rank), .integer(item.enqueued ?? now),
                .integer(standing.state.code), .integer(Int64(standing.openDependencies)),
                .integer(Int64(standing.failedDependencies)), .integer(Int64(standing.policy.rawValue)),
                .integer(standing.due), .integer(standing.deadline), .integer(Int64(standing.maximumAttempts)),
                .integer(standing.sendsAgain ? 1 : 0), .text(standing.error), .integer(standing.kept),
                .integer(standing.expires),
            ])
            for needed in item.dependencies { edges.append([.id(item.id), .id(needed)]) }
        }
        do throws(SharedQueueError) {
            let rows = dialect.rows(
                "$1",
                [
                    ("id", .id), ("kind", .integer), ("host", .text), ("tag", .text), ("lane", .text), ("batch", .text),
                    ("key", .text), ("priority", .integer), ("place", .integer), ("enqueued", .integer), ("state", .integer),
                    ("open", .integer), ("failed", .integer), ("policy", .integer), ("due", .integer),
                    ("deadline", .integer), ("attempts", .integer), ("again", .integer), ("error", .text),
                    ("kept", .integer), ("expires", .integer),
                ])
            _ = try database.query(
                """
                INSERT INTO entry (id, kind, host, tag, lane, batch, unique_key, priority, place, enqueued, state, open, failed,
                    policy, forgiven, due, deadline, attempts, attempt_limit, sends_again, lease, error, kept, expires,
                    changed, begun)
                SELECT id, kind, host, tag, lane, batch, key, priority, place, enqueued, state, open, failed, policy, 0, due,
                    deadline, 0, attempts, again, 0, error, kept, expires, enqueued, 0
                FROM \(rows) AS r
                """, [entries.value])
        } catch {
            guard case .duplicateKey(let text) = error else { throw error }
            // Another transaction has just added an entry with the same key, which a retry finds.
            throw .conflict(text)
        }
        let rows = dialect.rows(
            "$1",
            [
                ("id", .id), ("method", .text), ("url", .text), ("payload", .text), ("body", .bytes), ("trace", .text),
            ])
        try query(
            """
            INSERT INTO request (id, method, url, payload, body, trace)
            SELECT id, method, url, payload, body, trace FROM \(rows) AS r
            """, rowsOf: items
        ) { item in
            [
                .id(item.id), .text(item.method), .text(item.url), .text(item.payload), .bytes(item.body), .text(item.trace),
            ]
        }
        if !edges.isEmpty {
            _ = try database.query(
                """
                INSERT INTO dependency (entry, needed)
                SELECT entry, needed FROM \(dialect.rows("$1", [("entry", .id), ("needed", .id)])) AS r
                """, [edges.value])
        }
        if items.contains(where: { $0.standing.state == .ready }) { try database.announce(.work) }
    }
}
