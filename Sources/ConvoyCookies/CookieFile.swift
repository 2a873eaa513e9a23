import ConvoyDatabase
import ConvoySupport
import Foundation
import Synchronization

/// The database with the cookies of a store, which several processes can share. Used only on the store's queue.
///
/// Each cookie is a row, which only a later change replaces, regardless of which process writes first. A removed cookie
/// leaves a tombstone for some time, so that it is not restored by another process that writes an earlier change.
/// Transactions are numbered, so that other processes can find new rows.
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

    /// The time for which tombstones are kept, in microseconds.
    private static let tombstoneAge: Int64 = 30 * 86_400 * CookieTime.second
    private static let largestRevision: Int64 = 1 << 62

    init(path: String) { self.path = path }

    /// Opens the database if it is not open.
    func open() throws(DatabaseError) {
        guard database == nil else { return }
        let opened = try Database(path: path, schema: Self.schema)
        // Make SQLite overwrite removed values in the file.
        try opened.execute("PRAGMA secure_delete=ON")
        database = opened
        revision = 0
        dataVersion = nil
    }

    /// Whether another process has replaced the file.
    var isReplaced: Bool { database.map { !$0.isCurrent } ?? false }

    func close() { database = nil }

    /// Renames a damaged file, so that the next `open()` creates a new one.
    ///
    /// - Returns: Whether this process renamed the file.
    func quarantine(after error: DatabaseError) throws(DatabaseError) -> Bool {
        guard let file = error.damagedFile ?? database?.file else { throw error }
        database = nil
        return try Database.quarantine(file, at: path)
    }

    // MARK: Reading

    /// A row: a cookie with its times, or a tombstone with the key of a removed cookie.
    struct Row {
        var key: CookieKey
        var entry: CookieJar.Entry?
        var changed: Int64
    }

    /// The changes that other processes have written.
    struct RemoteChanges {
        var rows: [Row] = []
        /// The time at which all cookies were last removed.
        var cleared: Int64 = 0
        fileprivate var revision: Int64 = 0
    }

    /// Returns the changes by other processes since the last call, if any.
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
            // The row may have been written by another program, so its values are validated.
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

    /// A bulk removal, which includes cookies that this process has not read.
    enum Sweep {
        case all(at: Int64)
        case createdSince(Int64, at: Int64)
        case session(at: Int64)
    }

    /// The store's changes to write.
    struct Batch {
        var sweeps: [Sweep] = []
        var rows: [Row] = []
        var isEmpty: Bool { sweeps.isEmpty && rows.isEmpty }
    }

    /// Writes a batch in a single transaction. Returns the changes that other processes wrote before it.
    func write(_ batch: Batch, at now: Int64) throws(DatabaseError) -> RemoteChanges {
        guard let database else { throw DatabaseError.notOpen(path) }
        var last = revision
        let changes = try database.transaction { () throws(DatabaseError) in
            let changes = try read(database)
            var number = max(try database.integer("SELECT revision FROM state") ?? 0, changes.revision)
            if number >= Self.largestRevision {
                // No file reaches this number of transactions, so the stored number is damaged.
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

/// A writer that synchronizes a store with its file in both directions, on a dedicated queue.
final class CookieWriter: Sendable {
    private let queue = DispatchQueue(label: "Convoy.CookieStore", qos: .utility)
    /// The database file, used on the queue only.
    private struct File: @unchecked Sendable { let file: CookieFile }
    private let shared: File
    /// The time of the next check for changes by other processes.
    private let nextLook = Atomic<MonotonicTime>(0)

    private static let secondsUntilWriting = 0.1
    private static let timeBetweenLooks: MonotonicTime = 1_000_000_000
    /// The number of rows applied while the lock is held, so that lookups do not wait for long.
    private static let rowsAtOnce = 64

    init(path: String) {
        shared = File(file: CookieFile(path: path))
    }

    /// Opens the file and loads its cookies into the store. Blocks.
    func open(_ store: CookieStore) -> CookieStoreError? {
        nextLook.store(MonotonicClock.now + Self.timeBetweenLooks, ordering: .relaxed)
        return queue.sync { synchronize(store) }
    }

    func flush(_ store: CookieStore) -> CookieStoreError? { queue.sync { synchronize(store) } }

    /// Schedules a write, which retains the store, so that releasing the last reference does not lose changes.
    func writeLater(_ store: CookieStore) {
        queue.asyncAfter(deadline: .now() + Self.secondsUntilWriting) { _ = self.synchronize(store) }
    }

    /// Schedules a read of changes by other processes, at most about once per second. Does not wait for it.
    func checkForChanges(_ store: CookieStore) {
        let (now, due) = (MonotonicClock.now, nextLook.load(ordering: .relaxed))
        guard now >= due,
            nextLook.compareExchange(expected: due, desired: now + Self.timeBetweenLooks, ordering: .relaxed).exchanged
        else { return }
        queue.async { [weak store] in
            guard let store else { return }
            if self.shared.file.isReplaced {
                _ = self.synchronize(store)
            } else if let changes = try? self.shared.file.readChanges() {
                // If reading fails, the next write reports the error.
                self.take(changes, store)
            }
        }
    }

    // MARK: On the queue

    private func synchronize(_ store: CookieStore) -> CookieStoreError? {
        let file = shared.file
        // If the file was replaced or damaged, retry once with a new file.
        for attempt in 0..<2 {
            do throws(DatabaseError) {
                try exchange(file, store)
                store.state.withLock { $0.failure = nil }
                return nil
            } catch {
                let failure = recover(file, store, error)
                if failure == nil, attempt == 0 { continue }
                let reported = failure ?? CookieStoreError(error)
                store.state.withLock { $0.failure = reported }
                return reported
            }
        }
        return nil
    }

    private func exchange(_ file: CookieFile, _ store: CookieStore) throws(DatabaseError) {
        if file.isReplaced {
            file.close()
            store.state.withLock { $0.startAnew() }
        }
        let batch = store.state.withLock { $0.startWriting() }
        var isWritten = false
        // An empty batch must be finished as well, to reset the state.
        defer { store.state.withLock { $0.finishWriting(isWritten: isWritten) } }
        try file.open()
        if batch.isEmpty {
            if let changes = try file.readChanges() { take(changes, store) }
        } else {
            take(try file.write(batch, at: store.now()), store)
        }
        isWritten = true
    }

    /// Prepares a retry after an error.
    ///
    /// - Returns: The error if a retry would be useless; nil otherwise.
    private func recover(_ file: CookieFile, _ store: CookieStore, _ error: DatabaseError) -> CookieStoreError? {
        switch error.code {
        case .replaced:
            file.close()
        case .damaged:
            do throws(DatabaseError) {
                _ = try file.quarantine(after: error)
            } catch {
                return CookieStoreError(error)
            }
        default:
            return CookieStoreError(error)
        }
        store.state.withLock { $0.startAnew() }
        return nil
    }

    private func take(_ changes: CookieFile.RemoteChanges, _ store: CookieStore) {
        let now = store.now()
        store.change { $0.merge(cleared: changes.cleared) }
        var rest = changes.rows[...]
        while !rest.isEmpty {
            let rows = rest.prefix(Self.rowsAtOnce)
            rest = rest.dropFirst(rows.count)
            store.change { state in
                var isChanged = false
                for row in rows where state.merge(row, at: now) { isChanged = true }
                return isChanged
            }
        }
    }
}
