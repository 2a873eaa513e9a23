import ConvoyDatabase
import ConvoySupport
import Foundation

/// The database of a shared queue on one machine: a file shared by processes.
final class SQLiteWorkDatabase: WorkDatabase {
    let database: Database
    /// The translations of statements to SQLite.
    private(set) var translations: [String: String] = [:]
    var dialect: WorkDialect { Self.dialect }
    var isBroken: Bool { !database.isCurrent }

    convenience init(path: String, clock: QueueClock = .system) throws(SharedQueueError) {
        do throws(DatabaseError) {
            try self.init(path: path, schema: Self.schema)
            try clock.add(to: database)
        } catch {
            throw SharedQueueError(error)
        }
    }

    /// Opens a database without a clock, whose schema includes that of a shared queue.
    ///
    /// - Parameter busyTimeout: The maximum time to wait for other connections, in seconds.
    init(path: String, schema: DatabaseSchema, busyTimeout: TimeInterval = 30) throws(DatabaseError) {
        database = try Database(path: path, schema: schema, busyTimeout: busyTimeout)
        // Enqueued entries must survive a power failure, and removed ones must leave no traces.
        try database.execute("PRAGMA synchronous=FULL; PRAGMA secure_delete=ON")
        try database.addUnhexed()
    }

    static let schema = DatabaseSchema(
        applicationID: 0x4376_5368,
        steps: [
            """
            CREATE TABLE entry (
                sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, state INTEGER NOT NULL,
                kind INTEGER NOT NULL, host TEXT NOT NULL, tag TEXT NOT NULL, lane TEXT NOT NULL, place INTEGER NOT NULL,
                due INTEGER NOT NULL, deadline INTEGER, open INTEGER NOT NULL, failed INTEGER NOT NULL,
                policy INTEGER NOT NULL, forgiven INTEGER NOT NULL, priority INTEGER NOT NULL, attempts INTEGER NOT NULL,
                attempt_limit INTEGER NOT NULL, sends_again INTEGER NOT NULL, lease INTEGER NOT NULL, worker TEXT,
                status INTEGER, size INTEGER, error TEXT, kept INTEGER, expires INTEGER, changed INTEGER NOT NULL,
                enqueued INTEGER NOT NULL, batch TEXT, unique_key TEXT, begun INTEGER NOT NULL);
            CREATE INDEX entry_ready ON entry (lane, place, sequence) WHERE state = 2;
            CREATE INDEX entry_due ON entry (due) WHERE state IN (0, 4);
            CREATE INDEX entry_worker ON entry (worker) WHERE state = 3;
            CREATE INDEX entry_leased_host ON entry (host) WHERE state = 3;
            CREATE INDEX entry_deadline ON entry (deadline) WHERE deadline IS NOT NULL;
            CREATE INDEX entry_expires ON entry (expires) WHERE expires IS NOT NULL;
            CREATE INDEX entry_state ON entry (state, sequence);
            CREATE INDEX entry_batch ON entry (batch, sequence) WHERE batch IS NOT NULL;
            CREATE UNIQUE INDEX entry_key ON entry (unique_key)
                WHERE unique_key IS NOT NULL AND state NOT IN (6, 7);
            CREATE TABLE request (
                id TEXT PRIMARY KEY, method TEXT NOT NULL, url TEXT NOT NULL, payload TEXT NOT NULL, body BLOB,
                trace TEXT, mark TEXT) WITHOUT ROWID;
            CREATE TABLE result (id TEXT PRIMARY KEY, head TEXT, digest TEXT, body BLOB, place TEXT) WITHOUT ROWID;
            CREATE TABLE dependency (
                entry TEXT NOT NULL, needed TEXT NOT NULL, PRIMARY KEY (entry, needed)) WITHOUT ROWID;
            CREATE INDEX dependency_needed ON dependency (needed);
            CREATE TABLE worker (
                id TEXT PRIMARY KEY, name TEXT NOT NULL, jobs INTEGER NOT NULL, since INTEGER NOT NULL,
                seen INTEGER NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID;
            CREATE TABLE host (
                name TEXT PRIMARY KEY, is_own INTEGER NOT NULL, jobs INTEGER, rate REAL, retry_share REAL,
                tokens REAL NOT NULL, refilled INTEGER NOT NULL, gate INTEGER NOT NULL, retries REAL NOT NULL)
                WITHOUT ROWID;
            CREATE TABLE queue (id INTEGER PRIMARY KEY CHECK (id = 0), paused INTEGER NOT NULL);
            INSERT INTO queue VALUES (0, 0);
            -- What ANALYZE would find in a large queue, so that a young one is not searched by state.
            ANALYZE;
            DELETE FROM sqlite_stat1;
            INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
                ('entry', 'sqlite_autoindex_entry_1', '1000000 1'), ('entry', 'entry_state', '1000000 250000 1'),
                ('entry', 'entry_ready', '500000 5000 2 1'), ('entry', 'entry_due', '1000 2'),
                ('entry', 'entry_worker', '1000 10'), ('entry', 'entry_leased_host', '1000 10'),
                ('entry', 'entry_deadline', '1000 2'), ('entry', 'entry_expires', '1000000 2'),
                ('entry', 'entry_batch', '100000 100 1'), ('entry', 'entry_key', '100000 1'),
                ('dependency', 'dependency', '100000 2 1'), ('dependency', 'dependency_needed', '100000 2'),
                ('request', 'request', '1000000 1'), ('result', 'result', '1000000 1');
            ANALYZE sqlite_schema;
            """,
            """
            ALTER TABLE host ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
            CREATE TABLE clock (boot INTEGER NOT NULL, ahead INTEGER NOT NULL);
            """,
            """
            CREATE TABLE schedule (
                name TEXT PRIMARY KEY, cron TEXT, zone TEXT, period INTEGER, missed TEXT NOT NULL, next INTEGER NOT NULL,
                last INTEGER, template TEXT NOT NULL, body BLOB) WITHOUT ROWID;
            CREATE INDEX schedule_next ON schedule (next);
            """,
            "UPDATE entry SET expires = NULL WHERE state = 6",
            """
            CREATE TABLE duration (
                host TEXT NOT NULL, bucket INTEGER NOT NULL, number INTEGER NOT NULL, total REAL NOT NULL,
                seen INTEGER NOT NULL, PRIMARY KEY (host, bucket)) WITHOUT ROWID;
            """,
        ])

    static let dialect = WorkDialect(
        now: QueueClock.function, wall: "CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)", forUpdate: "",
        forUpdateSkippingLocked: "", forShare: "",
        using: { " INDEXED BY \($0)" },
        rows: { parameter, columns in
            let list = columns.enumerated().map { index, column in
                let value = "json_extract(value, '$[\(index)]')"
                return "\(column.kind == .bytes ? "unhexed(\(value))" : value) AS \(column.name)"
            }
            return "(SELECT \(list.joined(separator: ", ")) FROM json_each(\(parameter)))"
        })

    func query(_ sql: String, _ values: [WorkValue]) throws(SharedQueueError) -> [WorkRow] {
        var rows: [WorkRow] = []
        do throws(DatabaseError) {
            try forEachRow(sql, values) { rows.append($0) }
        } catch {
            throw SharedQueueError(error)
        }
        return rows
    }

    /// Passes the rows of a query to a closure, one at a time.
    func forEachRow(
        _ sql: String, _ values: [WorkValue] = [], _ body: (WorkRow) -> Void
    ) throws(DatabaseError) {
        try database.forEachRow(translated(sql), values.map(DatabaseValue.init)) { statement in
            body(WorkRow((0..<statement.columnCount).map { statement.value($0) }))
        }
    }

    /// Returns the statement with SQLite's numbered parameters.
    private func translated(_ sql: String) -> String {
        if let known = translations[sql] { return known }
        // Restore the dollar sign of JSON paths.
        let text = sql.replacingOccurrences(of: "$", with: "?").replacingOccurrences(of: "'?[", with: "'$[")
        translations[sql] = text
        return text
    }

    func transaction<Result>(_ body: () throws(SharedQueueError) -> Result) throws(SharedQueueError) -> Result {
        var failure: SharedQueueError?
        do throws(DatabaseError) {
            return try database.transaction { () throws(DatabaseError) in
                do throws(SharedQueueError) {
                    return try body()
                } catch {
                    failure = error
                    throw DatabaseError.rolledBack
                }
            }
        } catch {
            throw failure ?? SharedQueueError(error)
        }
    }

    func pick(_ lanes: [WorkLane], limit: Int) throws(SharedQueueError) -> [WorkRow] {
        var found: [(place: Int64, sequence: Int64, row: WorkRow)] = []
        for lane in lanes {
            for row in try query(
                """
                SELECT \(WorkStore.standingColumns), e.sequence FROM entry AS e WHERE e.state = 2 AND e.lane = $1
                ORDER BY e.place, e.sequence LIMIT $2
                """, [.text(lane.name), .integer(Int64(lane.count))])
            {
                let place = row.integer(WorkStore.rankColumn)
                found.append((place ?? 0, row.integer(WorkStore.standingColumnCount) ?? 0, row))
            }
        }
        return found.sorted { ($0.place, $0.sequence) < ($1.place, $1.sequence) }.prefix(limit).map(\.row)
    }

    /// Does nothing, because other connections observe changes through the version of the database.
    func announce(_ change: WorkAnnouncement) {}
}

/// A listener that polls the version of a database, which changes with each transaction of another connection.
final class SQLiteWorkListener: WorkListener, @unchecked Sendable {
    private let database: Database
    private var version: Int64
    private let interruption = Interruption()
    /// The polling interval, in milliseconds.
    private static let interval = 50

    init(path: String) throws(SharedQueueError) {
        do throws(DatabaseError) {
            database = try Database(path: path, schema: SQLiteWorkDatabase.schema)
            version = try database.dataVersion()
        } catch {
            throw SharedQueueError(error)
        }
    }

    func wait(milliseconds: Int) throws(SharedQueueError) -> Set<WorkAnnouncement> {
        let end = Nanoseconds.deadline(Double(milliseconds) / 1000, after: MonotonicClock.now)
        repeat {
            if interruption.wait(milliseconds: Self.interval) { return [] }
            do throws(DatabaseError) {
                let now = try database.dataVersion()
                if now != version {
                    version = now
                    return [.work, .control]
                }
            } catch {
                throw SharedQueueError(error)
            }
        } while MonotonicClock.now < end
        return []
    }

    func interrupt() { interruption.interrupt() }
}

extension DatabaseValue {
    fileprivate init(_ value: WorkValue) {
        switch value {
        case .null: self = .null
        case .integer(let number): self = .integer(number)
        case .real(let number): self = .real(number)
        case .text(let text): self = .text(text)
        case .bytes(let bytes): self = .blob(bytes)
        }
    }
}

extension Statement {
    fileprivate func value(_ column: Int) -> WorkValue {
        switch kind(column) {
        case .null: .null
        case .integer: .integer(integer(column))
        case .real: .real(real(column))
        case .text: .text(text(column))
        case .blob: .bytes(blob(column))
        }
    }
}

extension SharedQueueError {
    fileprivate init(_ error: DatabaseError) {
        let text = error.description
        self =
            switch error.code {
            case .busy: .conflict(text)
            case .full: .diskFull(text)
            case .damaged, .foreign: .foreign(text)
            case .newer: .newerVersion(text)
            case .unsafe, .readOnly: .denied(text)
            case .io, .replaced: .unavailable(text)
            case .cannotOpen: .failed(text)
            case .other: error.isUniqueViolation ? .duplicateKey(text) : .failed(text)
            }
    }
}
