import ConvoyDatabase
import Foundation

/// The database of a store's cookies, which several processes share. Used on the store's queue only.
///
/// Each cookie is a row that is replaced by later changes only, whichever process comes first. A removed one leaves a row
/// without a value for a while, so that a process that has yet to write an earlier change does not bring it back. Each
/// transaction has a number, by which other processes find the rows that are new to them.
final class CookieFile {
    let path: String
    private var database: Database?
    /// The number of the last transaction whose rows are known here.
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

    /// How long rows of removed cookies are kept, in microseconds.
    private static let tombstoneAge: Int64 = 30 * 86_400 * CookieTime.second
    private static let largestRevision: Int64 = 1 << 62

    init(path: String) { self.path = path }

    /// Opens the database if it is not open.
    func open() throws(DatabaseError) {
        guard database == nil else { return }
        let opened = try Database(path: path, schema: Self.schema)
        // A removed value is overwritten in the file.
        try opened.execute("PRAGMA secure_delete=ON")
        database = opened
        (revision, dataVersion) = (0, nil)
    }

    /// Whether another process has set the file aside.
    var isReplaced: Bool { database.map { !$0.isCurrent } ?? false }

    func close() { database = nil }

    /// Sets the file aside after it was found damaged, so that the next `open()` makes a new one.
    ///
    /// - Returns: whether this process has set it aside.
    func setAside(after error: DatabaseError) throws(DatabaseError) -> Bool {
        guard let file = error.damagedFile ?? database?.file else { throw error }
        database = nil
        return try Database.setAside(file, at: path)
    }

    // MARK: Reading

    /// A row: a cookie with its times, or a key without one if it was removed.
    struct Row {
        var key: CookieKey
        var entry: CookieJar.Entry?
        var changed: Int64
    }

    /// What others have changed.
    struct News {
        var rows: [Row] = []
        /// When all cookies were last removed.
        var cleared: Int64 = 0
        fileprivate var revision: Int64 = 0
    }

    /// The rows that others have changed since the last call; nil if nobody has changed anything.
    func news() throws(DatabaseError) -> News? {
        guard let database else { return nil }
        let version = try database.dataVersion()
        guard version != dataVersion else { return nil }
        let news = try read(database)
        dataVersion = version
        revision = news.revision
        return news
    }

    private func read(_ database: Database) throws(DatabaseError) -> News {
        var news = News()
        // A smaller number says that somebody has begun to count anew.
        let isRestarted = (try database.integer("SELECT revision FROM state") ?? revision) < revision
        news.revision = isRestarted ? 0 : revision
        let cleared = try database.integer("SELECT cleared FROM state") ?? 0
        news.cleared = (0...CookieTime.latestChange).contains(cleared) ? cleared : 0
        try database.forEachRow(
            """
            SELECT domain, host_only, path, name, value, flags, same_site, expires, created, accessed, changed, revision
            FROM cookie WHERE revision > ?
            """, [.integer(news.revision)]
        ) { row throws(DatabaseError) in
            let changed = row.integer(10)
            news.revision = max(news.revision, row.integer(11))
            // What another program may have written must not do harm here.
            guard (0...CookieTime.latestChange).contains(changed) else { return }
            let key = CookieKey(
                name: row.blob(3), domain: row.text(0), path: row.text(2), isHostOnly: row.integer(1) != 0)
            guard !row.isNull(4) else { return news.rows.append(Row(key: key, entry: nil, changed: changed)) }
            let cookie = Cookie(
                nameBytes: key.name, valueBytes: row.blob(4), domain: key.domain, isHostOnly: key.isHostOnly,
                path: key.path, isSecure: row.integer(5) & 1 != 0, isHTTPOnly: row.integer(5) & 2 != 0,
                sameSite: Cookie.SameSite(rawValue: Int(clamping: row.integer(6))) ?? .strict,
                expiryTime: row.isNull(7) ? nil : row.integer(7), creationTime: row.integer(8),
                accessTime: row.integer(9))
            news.rows.append(Row(key: key, entry: CookieJar.Entry(cookie: cookie, changed: changed), changed: changed))
        }
        return news
    }

    // MARK: Writing

    /// Removals of many cookies at once, those too of which this process knows nothing.
    enum Sweep {
        case all(at: Int64)
        case createdSince(Int64, at: Int64)
        case session(at: Int64)
    }

    /// What the store has changed.
    struct Batch {
        var sweeps: [Sweep] = []
        var rows: [Row] = []
        var isEmpty: Bool { sweeps.isEmpty && rows.isEmpty }
    }

    /// Writes a batch in one transaction, and returns what others have changed before it.
    func write(_ batch: Batch, at now: Int64) throws(DatabaseError) -> News {
        guard let database else { throw DatabaseError.notOpen(path) }
        var last = revision
        let news = try database.transaction { () throws(DatabaseError) in
            let news = try read(database)
            var number = max(try database.integer("SELECT revision FROM state") ?? 0, news.revision)
            if number >= Self.largestRevision {
                // No transactions were that many: it is damage.
                try database.run("UPDATE cookie SET revision = 1")
                number = 1
            }
            number += 1
            for sweep in batch.sweeps { try apply(sweep, number, database) }
            for row in batch.rows where row.changed > news.cleared { try write(row, number, database) }
            try database.run(
                "DELETE FROM cookie WHERE value IS NULL AND changed < ?", [.integer(now - Self.tombstoneAge)])
            try database.run("DELETE FROM cookie WHERE expires < ?", [.integer(now - 86_400 * CookieTime.second)])
            try database.run("UPDATE state SET revision = ?", [.integer(number)])
            last = number
            return news
        }
        revision = last
        return news
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
