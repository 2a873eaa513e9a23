import ConvoyDatabase
import ConvoySecurity
import ConvoySupport
import Foundation

/// A record of the requests that have succeeded, with digests of their inputs, and with their results. The record
/// contains no secrets.
///
/// The journal is an SQLite database, so that a run that is killed at any moment leaves it consistent.
final class Journal: Sendable {
    /// A request and its item.
    struct Key: Sendable {
        var id: String
        var item: String
    }

    /// The results of a request.
    struct Entry: Sendable {
        /// The captures, as a JSON object.
        var captures: String
        var status: Int?
        var file: StoredFile?
    }

    /// The path, length and modification time of an output file.
    struct StoredFile: Sendable, Equatable {
        let path: String
        let length: Int64
        /// The time of the last change, in nanoseconds.
        let time: Int64

        init(path: String, length: Int64, time: Int64) {
            self.path = path
            self.length = length
            self.time = time
        }

        /// Reads the properties of the file at a path, or returns nil if the file does not exist.
        init?(path: String) {
            var information = stat()
            guard stat(path, &information) == 0 else { return nil }
            let time = Int64(information.st_mtim.tv_sec) * 1_000_000_000 + Int64(information.st_mtim.tv_nsec)
            self.init(path: path, length: Int64(information.st_size), time: time)
        }
    }

    static let schema = DatabaseSchema(
        applicationID: 0x434F_4E57,
        steps: [
            """
            CREATE TABLE done (
              id TEXT NOT NULL, item TEXT NOT NULL, digest TEXT NOT NULL, captures TEXT NOT NULL, status INTEGER,
              file TEXT, length INTEGER, time INTEGER, PRIMARY KEY (id, item)) WITHOUT ROWID
            """
        ])

    private let lock: JournalLock
    /// The database, or nil after it has been closed.
    private let database: Locked<Database?>
    /// The queue for all calls, which block on the disk.
    private let queue = DispatchQueue(label: "convoy.workflow.journal")

    /// Opens or creates a journal.
    ///
    /// - Parameter keepsOld: Whether to keep the existing entries.
    /// - Throws: `JournalInUseError`, or `DatabaseError`.
    init(file: URL, keepsOld: Bool) throws {
        lock = try JournalLock(for: file)
        let database = try Database(path: file.path, schema: Self.schema, keepsLog: false)
        if !keepsOld { try database.execute("DELETE FROM done") }
        self.database = Locked(database)
    }

    static func digest(of text: String) -> String {
        MessageDigest.sha256(Data(text.utf8))?.hexadecimalString ?? ""
    }

    /// Returns the results of a request, if it has succeeded with the same inputs.
    func entry(for key: Key, digest: String) async -> Entry? {
        await withCheckedContinuation { continuation in
            queue.async { [self] in
                continuation.resume(
                    returning: database.withLock { $0.flatMap { Self.entry(for: key, digest, in: $0) } })
            }
        }
    }

    /// Adds a successful request. If the entry cannot be written, the next run sends the request again.
    func add(_ entry: Entry, for key: Key, digest: String) async {
        await withCheckedContinuation { continuation in
            queue.async { [self] in
                database.withLock { database in
                    _ = try? database?.run(
                        "INSERT OR REPLACE INTO done VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                        [
                            .text(key.id), .text(key.item), .text(digest), .text(entry.captures),
                            entry.status.map { .integer(Int64($0)) } ?? .null, entry.file.map { .text($0.path) } ?? .null,
                            entry.file.map { .integer($0.length) } ?? .null, entry.file.map { .integer($0.time) } ?? .null,
                        ])
                }
                continuation.resume()
            }
        }
    }

    /// Closes the file and removes the files that SQLite creates beside it. Called at the end of a run.
    func close() async {
        await withCheckedContinuation { continuation in
            queue.async { [self] in
                database.withLock { $0 = nil }
                lock.release()
                continuation.resume()
            }
        }
    }

    static func entry(for key: Key, _ digest: String, in database: Database) -> Entry? {
        var entry: Entry?
        try? database.forEachRow(
            "SELECT captures, status, file, length, time FROM done WHERE id = ? AND item = ? AND digest = ?",
            [.text(key.id), .text(key.item), .text(digest)]
        ) { row in
            entry = Entry(captures: row.text(0), status: row.isNull(1) ? nil : Int(row.integer(1)))
            if !row.isNull(2) { entry?.file = StoredFile(path: row.text(2), length: row.integer(3), time: row.integer(4)) }
        }
        return entry
    }
}
