import ConvoyDatabase
import Foundation

/// The database of a store's cookies, which several processes may share. Used on the store's queue only.
///
/// Each cookie is a row, which only a later change replaces, whichever process writes first. A removed cookie leaves a
/// tombstone for a while, so that another process that writes an earlier change does not restore it. Each transaction
/// has a number, by which other processes find the rows that are new to them.
final class CookieFile {
    let path: String
    private var database: Database?
    /// The number of the last transaction whose rows this process has read.
    private var revision: Int64 = 0
    private var dataVersion: Int64?

    static let schema = DatabaseSchema(
        applicationID: 0x436F_6F6B,
        steps: [
            """
            CREATE TABLE cookie (
                domain TEXT NOT NULL, host_only INTEGER NOT NULL, path TEXT NOT NULL, name BLOB NOT NULL, value BLOB,
                flags INTEGER NOT NULL, same_site INTEGER NOT NULL, expires INTEGER, created INTEGER NOT NULL,
                accessed INTEGER NOT NULL, changed INTEGER NOT NULL, revision INTEGER NOT NULL,
                PRIMARY KEY (domain, host_only, path, name)) WITHOUT ROWID;
            CREATE INDEX cookie_revision ON cookie (revision);
            CREATE TABLE state (
                id INTEGER PRIMARY KEY CHECK (id = 0), revision INTEGER NOT NULL, cleared INTEGER NOT NULL);
            INSERT INTO state VALUES (0, 0, 0);
            """
        ])

    /// How long tombstones are kept, in microseconds.
    private static let tombstoneAge: Int64 = 30 * 86_400 * CookieTime.second
    private static let largestRevision: Int64 = 1 << 62

    init(path: String) { self.path = path }

    /// Opens the database if it is not open.
    func open() throws(DatabaseError) {
        guard database == nil else { return }
        let opened = try Database(path: path, schema: Self.schema)
        // SQLite overwrites removed values in the file.
        try opened.execute("PRAGMA secure_delete=ON")
        database = opened
        (revision, dataVersion) = (0, nil)
    }

    /// Whether another process has replaced the file.
    var isReplaced: Bool { database.map { !$0.isCurrent } ?? false }

    func close() { database = nil }

    /// Renames a damaged file, so that the next `open()` makes a new one.
    ///
    /// - Returns: Whether this process has renamed it.
    func setAside(after error: DatabaseError) throws(DatabaseError) -> Bool {
        guard let file = error.damagedFile ?? database?.file else { throw error }
        database = nil
        return try Database.setAside(file, at: path)
    }

    // MARK: Reading

    /// A row: a cookie with its times, or a tombstone with the key of a removed one.
    struct Row {
        var key: CookieKey
        var entry: CookieJar.Entry?
        var changed: Int64
    }

    /// The changes that other processes have written.
    struct RemoteChanges {
        var rows: [Row] = []
        /// When all cookies were last removed.
        var cleared: Int64 = 0
        fileprivate var revision: Int64 = 0
    }

    /// The changes by other processes since the last call; nil if there are none.
    func readChanges() throws(DatabaseError) -> RemoteChanges? {
        guard let database else { return nil }
        let version = try database.dataVersion()
        guard version != dataVersion else { return nil }
        let changes = try read(database)
        dataVersion = version
        revision = changes.revision
        return changes
    }

    private func read(_ database: Database) throws(DatabaseError) -> RemoteChanges {
        var changes = RemoteChanges()
        // A smaller number means that another process has restarted the count.
        let isRestarted = (try database.integer("SELECT revision FROM state") ?? revision) < revision
        changes.revision = isRestarted ? 0 : revision
        let cleared = try database.integer("SELECT cleared FROM state") ?? 0
        changes.cleared = (0...CookieTime.latestChange).contains(cleared) ? cleared : 0
        try database.forEachRow(
            """
            SELECT domain, host_only, path, name, value, flags, same_site, expires, created, accessed, changed, revision
            FROM cookie WHERE revision > ?
            """, [.integer(changes.revision)]
        ) { row throws(DatabaseError) in
            let changed = row.integer(10)
            changes.revision = max(changes.revision, row.integer(11))
            // The row may come from another program, so its values are checked.
            guard (0...CookieTime.latestChange).contains(changed) else { return }
            let key = CookieKey(
                name: row.blob(3), domain: row.text(0), path: row.text(2), isHostOnly: row.integer(1) != 0)
            guard !row.isNull(4) else { return changes.rows.append(Row(key: key, entry: nil, changed: changed)) }
            let cookie = Cookie(
                nameBytes: key.name, valueBytes: row.blob(4), domain: key.domain, isHostOnly: key.isHostOnly,
                path: key.path, isSecure: row.integer(5) & 1 != 0, isHTTPOnly: row.integer(5) & 2 != 0,
                sameSite: Cookie.SameSite(rawValue: Int(clamping: row.integer(6))) ?? .strict,
                expiryTime: row.isNull(7) ? nil : row.integer(7), creationTime: row.integer(8),
                accessTime: row.integer(9))
            changes.rows.append(Row(key: key, entry: CookieJar.Entry(cookie: cookie, changed: changed), changed: changed))
        }
        return changes
    }

    // MARK: Writing

    /// A removal of many cookies at once, including those that this process has not read.
    enum Sweep {
        case all(at: Int64)
        case createdSince(Int64, at: Int64)
        case session(at: Int64)
    }

    /// The changes of the store to write.
    struct Batch {
        var sweeps: [Sweep] = []
        var rows: [Row] = []
        var isEmpty: Bool { sweeps.isEmpty && rows.isEmpty }
    }

    /// Writes a batch in one transaction, and returns the changes that other processes wrote before it.
    func write(_ batch: Batch, at now: Int64) throws(DatabaseError) -> RemoteChanges {
        guard let database else { throw DatabaseError.notOpen(path) }
        var last = revision
        let changes = try database.transaction { () throws(DatabaseError) in
            let changes = try read(database)
            var number = max(try database.integer("SELECT revision FROM state") ?? 0, changes.revision)
            if number >= Self.largestRevision {
                // No file has so many transactions: the number is damaged.
                try database.run("UPDATE cookie SET revision = 1")
                number = 1
            }
            number += 1
            for sweep in batch.sweeps { try apply(sweep, number, database) }
            for row in batch.rows where row.changed > changes.cleared { try write(row, number, database) }
            try database.run(
                "DELETE FROM cookie WHERE value IS NULL AND changed < ?", [.integer(now - Self.tombstoneAge)])
            try database.run("DELETE FROM cookie WHERE expires < ?", [.integer(now - 86_400 * CookieTime.second)])
            try database.run("UPDATE state SET revision = ?", [.integer(number)])
            last = number
            return changes
        }
        revision = last
        return changes
    }

    private func apply(_ sweep: Sweep, _ number: Int64, _ database: Database) throws(DatabaseError) {
        let change = "UPDATE cookie SET value = NULL, changed = ?1, revision = ?2 WHERE value IS NOT NULL AND changed <= ?1"
        switch sweep {
        case .all(let time):
            try database.run(change, [.integer(time), .integer(number)])
            try database.run("UPDATE state SET cleared = max(cleared, ?)", [.integer(time)])
        case .createdSince(let start, let time):
            try database.run(change + " AND created >= ?3", [.integer(time), .integer(number), .integer(start)])
        case .session(let time):
            try database.run(change + " AND expires IS NULL", [.integer(time), .integer(number)])
        }
    }

    private func write(_ row: Row, _ number: Int64, _ database: Database) throws(DatabaseError) {
        let cookie = row.entry?.cookie
        let flags = (cookie?.isSecure == true ? 1 : 0) | (cookie?.isHTTPOnly == true ? 2 : 0)
        try database.run(
            """
            INSERT INTO cookie VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT DO UPDATE SET
                value = excluded.value, flags = excluded.flags, same_site = excluded.same_site,
                expires = excluded.expires, created = excluded.created, accessed = excluded.accessed,
                changed = excluded.changed, revision = excluded.revision
            WHERE excluded.changed > cookie.changed OR cookie.changed > \(CookieTime.latestChange)
            """,
            [
                .text(row.key.domain), .integer(row.key.isHostOnly ? 1 : 0), .text(row.key.path), .blob(row.key.name),
                cookie.map { .blob($0.valueBytes) } ?? .null, .integer(Int64(flags)),
                .integer(Int64(cookie?.sameSite.rawValue ?? 0)), .integer(cookie?.expiryTime),
                .integer(cookie?.creationTime ?? 0), .integer(cookie?.accessTime ?? 0), .integer(row.changed),
                .integer(number),
            ])
    }
}
