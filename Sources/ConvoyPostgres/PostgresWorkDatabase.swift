#if Postgres
import ConvoySharedQueue
import ConvoySupport
import Foundation

extension SharedQueueStore {
    /// Returns a store in a PostgreSQL database (13 or later), which several machines can share.
    ///
    /// ```swift
    /// let queue = SharedQueue(store: .postgres("postgresql://queue@db.example.com/jobs?sslmode=verify-full"))
    /// ```
    ///
    /// The tables are created in a separate schema by the first process that has the required privileges. After that, a
    /// role needs `USAGE` on the schema, and `SELECT`, `INSERT`, `UPDATE` and `DELETE` on its tables; see the article
    /// "Sharing work".
    ///
    /// - Parameters:
    ///   - address: A URL or a list of settings in libpq's format, including TLS (`sslmode`, `sslrootcert`, `sslcert`)
    ///     and multiple hosts. libpq takes missing settings from `PGHOST`, `PGPASSWORD` and so on, and from `.pgpass`.
    ///   - schema: The schema for the tables: letters, digits and underscores.
    public static func postgres(_ address: String, schema: String = "convoy") -> SharedQueueStore {
        SharedQueueStore(
            name: name(of: address),
            open: { () throws(SharedQueueError) in try PostgresWorkDatabase(address, schema) },
            listen: { () throws(SharedQueueError) in try PostgresWorkListener(address, schema) })
    }

    /// Returns the address without its password.
    private static func name(of address: String) -> String {
        guard let settings = try? PostgresConnection.settings(of: address) else { return "postgresql" }
        var name = "postgresql://"
        if let user = settings["user"] { name += "\(user)@" }
        name += settings["host"] ?? settings["hostaddr"] ?? ""
        if let port = settings["port"] { name += ":\(port)" }
        return name + "/\(settings["dbname"] ?? "")"
    }
}

/// The database of a queue that several machines share.
final class PostgresWorkDatabase: WorkDatabase {
    private let connection: PostgresConnection
    private let channel: String
    var dialect: WorkDialect { Self.dialect }
    var isBroken: Bool { connection.isBroken }

    init(_ address: String, _ schema: String) throws(SharedQueueError) {
        connection = try PostgresConnection(address)
        channel = schema
        try PostgresSchema.prepare(connection, schema)
    }

    private static let clock = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

    static let dialect = WorkDialect(
        now: clock, wall: clock, forUpdate: " FOR UPDATE OF e",
        forUpdateSkippingLocked: " FOR UPDATE OF e SKIP LOCKED", forShare: " FOR SHARE OF e",
        using: { _ in "" },
        rows: { parameter, columns in
            let list = columns.enumerated().map { index, column in
                let text = "value->>\(index)"
                return switch column.kind {
                case .id: "(\(text))::uuid AS \(column.name)"
                case .integer: "(\(text))::bigint AS \(column.name)"
                case .real: "(\(text))::float8 AS \(column.name)"
                case .bytes: "decode(\(text), 'hex') AS \(column.name)"
                case .text: "\(text) AS \(column.name)"
                }
            }
            return "(SELECT \(list.joined(separator: ", ")) FROM jsonb_array_elements(\(parameter)::jsonb) AS a (value))"
        })

    func query(_ sql: String, _ values: [WorkValue]) throws(SharedQueueError) -> [WorkRow] {
        try connection.query(sql, values)
    }

    func transaction<Result>(_ body: () throws(SharedQueueError) -> Result) throws(SharedQueueError) -> Result {
        try connection.transaction(body)
    }

    func pick(_ lanes: [WorkLane], limit: Int) throws(SharedQueueError) -> [WorkRow] {
        var rows = WorkRowsText()
        for lane in lanes { rows.append([.text(lane.name), .integer(Int64(lane.count))]) }
        let table = dialect.rows("$1", [("name", .text), ("count", .integer)])
        return try connection.query(
            """
            SELECT x.* FROM \(table) AS l CROSS JOIN LATERAL (
                SELECT \(WorkStore.standingColumns), e.sequence FROM entry AS e WHERE e.state = 2 AND e.lane = l.name
                ORDER BY e.place, e.sequence LIMIT l.count FOR UPDATE OF e SKIP LOCKED) AS x
            ORDER BY x.place, x.sequence LIMIT $2
            """, [rows.value, .integer(Int64(limit))])
    }

    func announce(_ change: WorkAnnouncement) throws(SharedQueueError) {
        _ = try connection.query("SELECT pg_notify($1, $2)", [.text("convoy_\(channel)"), .text(change.rawValue)])
    }
}

/// A listener for notifications. Behind a pooler, where none would arrive, it has no connection, and lets its worker look for
/// entries once a second.
final class PostgresWorkListener: WorkListener, @unchecked Sendable {
    private let connection: PostgresConnection?
    private let interruption: Pipe
    private var isNew = true

    init(_ address: String, _ schema: String) throws(SharedQueueError) {
        let connection = try PostgresConnection(address)
        interruption = Pipe()
        try connection.detectPooler()
        if !connection.isPooled { try connection.execute("LISTEN \(PostgresSchema.quoted("convoy_\(schema)"))") }
        self.connection = connection.isPooled ? nil : connection
    }

    func wait(milliseconds: Int) throws(SharedQueueError) -> Set<WorkAnnouncement> {
        // Announcements made before the listener started are lost.
        if isNew {
            isNew = false
            return [.work, .control]
        }
        let descriptor = interruption.fileHandleForReading.fileDescriptor
        guard let connection else {
            var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            return poll(&event, 1, Int32(clamping: min(milliseconds, 1000))) == 0 ? [.work, .control] : []
        }
        let payloads = try connection.notifications(milliseconds: milliseconds, beside: descriptor)
        return Set(payloads.compactMap { WorkAnnouncement(rawValue: $0) })
    }

    func interrupt() { try? interruption.fileHandleForWriting.write(contentsOf: [0]) }
}
#endif
