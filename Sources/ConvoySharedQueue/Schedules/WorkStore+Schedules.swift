import Foundation

/// A stored schedule.
struct WorkSchedule: Sendable {
    let name: String
    let recurrence: SharedQueue.Recurrence
    let missed: SharedQueue.MissedOccurrences
    /// The next occurrence, and the last one that was enqueued, in microseconds since 1970 on the wall clock.
    let next: Int64
    let last: Int64?
    let template: WorkTemplate
    let body: [UInt8]?

    /// The columns of a schedule, of the table `e`.
    static let columns = "e.name, e.cron, e.zone, e.period, e.missed, e.next, e.last, e.template, e.body"

    /// Reads a row. Nil if another version has written something that this one does not support.
    init?(_ row: WorkRow) {
        guard let name = row.text(0), let next = row.integer(5),
            let missed = row.text(4).flatMap({ SharedQueue.MissedOccurrences(rawValue: $0) }),
            let text = row.text(7), let template = try? JSONDecoder().decode(WorkTemplate.self, from: Data(text.utf8))
        else { return nil }
        if let period = row.integer(3) {
            recurrence = .every(Double(period) / 1e6)
        } else if let expression = row.text(1).flatMap({ try? CronExpression($0) }),
            let zone = row.text(2).flatMap({ TimeZone(identifier: $0) })
        {
            recurrence = .cron(expression, in: zone)
        } else {
            return nil
        }
        self.name = name
        self.missed = missed
        self.next = next
        self.last = row.integer(6)
        self.template = template
        body = row.bytes(8)
    }
}

/// The properties of the entries of a schedule, stored as JSON.
struct WorkTemplate: Sendable, Codable {
    var kind: Int64
    var method: String
    var url: String
    var host: String
    var payload: String
    var tag: String
    var batch: String?
    var uniqueKey: String?
    var uniquePeriod: Int64?
    var priority: Int
    var trace: String?
    var timeLimit: Int64?
    var policy: Int
    var maximumAttempts: Int
    var sendsAgain: Bool
    var kept: Int64?

    init(_ item: WorkItem) {
        kind = item.kind.code
        method = item.method
        url = item.url
        host = item.host
        payload = item.payload
        tag = item.tag
        batch = item.batch
        uniqueKey = item.uniqueKey
        priority = item.priority
        uniquePeriod = item.uniquePeriod
        trace = item.trace
        timeLimit = item.timeLimit
        policy = item.standing.policy.rawValue
        maximumAttempts = item.standing.maximumAttempts
        sendsAgain = item.standing.sendsAgain
        kept = item.standing.kept
    }

    /// Creates the entry of an occurrence.
    ///
    /// - Parameter late: The time since the occurrence, in microseconds.
    func item(_ body: [UInt8]?, late: Int64) -> WorkItem {
        var item = WorkItem(id: UUID())
        item.kind = WorkKind(code: kind) ?? .plain
        item.method = method
        item.url = url
        item.host = host
        item.payload = payload
        item.tag = tag
        item.batch = batch
        item.uniqueKey = uniqueKey
        item.priority = priority
        item.uniquePeriod = uniquePeriod
        item.trace = trace
        item.body = body
        item.timeLimit = timeLimit.map { $0.subtractingReportingOverflow(late).partialValue }
        item.standing.policy = FailedDependencyPolicy(rawValue: policy) ?? .hold
        item.standing.maximumAttempts = maximumAttempts
        item.standing.sendsAgain = sendsAgain
        item.standing.kept = kept
        // Another occurrence is another request, not a repetition of the same one.
        let isKey = { (line: HeaderLine) in line.name.lowercased() == OutboxRequest.keyField.lowercased() }
        if var changed = try? WorkPayload(payload), item.kind == .outbox || changed.request.header.contains(where: isKey) {
            changed.request.header.removeAll(where: isKey)
            changed.request.header.append(
                HeaderLine(name: OutboxRequest.keyField, value: "\"\(item.id.uuidString.lowercased())\""))
            item.payload = (try? changed.text()) ?? payload
        }
        return item
    }
}

extension WorkStore {
    /// Adds or replaces a schedule. If its times do not change, its next occurrence does not change either.
    func schedule(
        _ name: String, _ recurrence: SharedQueue.Recurrence, _ missed: SharedQueue.MissedOccurrences, _ item: WorkItem
    ) throws(SharedQueueError) {
        let template: String
        do {
            template = String(decoding: try JSONEncoder().encode(WorkTemplate(item)), as: UTF8.self)
        } catch {
            throw .unsuitableRequest("\(error)")
        }
        var columns: (cron: String?, zone: String?, period: Int64?)
        switch recurrence {
        case .cron(let expression, let zone): columns = (expression.text, zone.identifier, nil)
        case .every(let seconds): columns = (nil, nil, SharedQueue.Recurrence.microseconds(seconds))
        }
        try transaction { () throws(SharedQueueError) in
            let known = try database.query(
                "SELECT e.cron, e.zone, e.period, e.next, e.last FROM schedule AS e WHERE e.name = $1\(dialect.forUpdate)",
                [.text(name)]
            ).first
            let isSame = known.map { ($0.text(0), $0.text(1), $0.integer(2)) == columns } ?? false
            let now = try wall(), start = now.addingReportingOverflow(columns.period ?? 0).partialValue
            let next = isSame ? known?.integer(3) : recurrence.next(after: now, known: start)
            _ = try database.query(
                """
                INSERT INTO schedule (name, cron, zone, period, missed, next, last, template, body)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
                ON CONFLICT (name) DO UPDATE SET cron = excluded.cron, zone = excluded.zone, period = excluded.period,
                    missed = excluded.missed, next = excluded.next, last = excluded.last, template = excluded.template,
                    body = excluded.body
                """,
                [
                    .text(name), .text(columns.cron), .text(columns.zone), .integer(columns.period), .text(missed.rawValue),
                    .integer(next ?? .max), .integer(known?.integer(4)), .text(template), .bytes(item.body),
                ])
        }
    }

    func schedules() throws(SharedQueueError) -> [WorkSchedule] {
        try database.query("SELECT \(WorkSchedule.columns) FROM schedule AS e ORDER BY e.name LIMIT 10000", [])
            .compactMap(WorkSchedule.init)
    }

    /// Removes a schedule. Returns whether it existed.
    func unschedule(_ name: String) throws(SharedQueueError) -> Bool {
        try transaction { () throws(SharedQueueError) in
            let known = try database.query(
                "SELECT e.name FROM schedule AS e WHERE e.name = $1\(dialect.forUpdate)", [.text(name)])
            _ = try database.query("DELETE FROM schedule WHERE name = $1", [.text(name)])
            return !known.isEmpty
        }
    }

    /// Returns the wall-clock time of the database, in microseconds since 1970.
    private func wall() throws(SharedQueueError) -> Int64 {
        try database.query("SELECT \(dialect.wall)", []).first?.integer(0) ?? 0
    }

    /// Enqueues the due occurrences of schedules. The rows are locked and changed in the same transaction, so that each
    /// occurrence is enqueued once.
    ///
    /// - Returns: The number of microseconds until the next occurrence; nil if there is no schedule.
    func enqueueScheduled() throws(SharedQueueError) -> Int64? {
        try transaction { () throws(SharedQueueError) in
            let now = try wall()
            let due = try database.query(
                """
                SELECT \(WorkSchedule.columns) FROM schedule AS e WHERE e.next <= $1 ORDER BY e.next LIMIT 100\
                \(dialect.forUpdateSkippingLocked)
                """, [.integer(now)]
            ).compactMap(WorkSchedule.init)
            var items: [WorkItem] = []
            for schedule in due {
                let (occurrences, next) = schedule.recurrence.due(from: schedule.next, now: now, missed: schedule.missed)
                for occurrence in occurrences {
                    let (late, _) = now.subtractingReportingOverflow(occurrence)
                    items.append(schedule.template.item(schedule.body, late: late))
                }
                _ = try database.query(
                    "UPDATE schedule SET next = $2, last = $3 WHERE name = $1",
                    [.text(schedule.name), .integer(next), .integer(occurrences.last ?? schedule.last)])
            }
            try add(items)
            let wait = try database.query("SELECT min(e.next) - \(dialect.wall) FROM schedule AS e", []).first?.integer(0)
            // Do not search permanently for schedules that this version does not support.
            return wait.map { $0 > 0 ? $0 : 1_000_000 }
        }
    }
}
