import ConvoyDatabase
import ConvoySupport
import Foundation

/// The index of the stored responses, with their small bodies, in SQLite. Several processes may share it, so only the
/// rows are authoritative.
///
/// Not thread-safe: used on the store's queue. Triggers maintain the totals, so that they are correct for all
/// processes.
final class DiskIndex {
    /// The largest body that is stored in the row of its entry, in bytes.
    static let inlineLimit = 32 << 10

    let directory: CacheDirectory
    private let database: Database
    private let capacity: Int64

    static let schema = DatabaseSchema(
        applicationID: 0x436E_7643,
        steps: [
            """
            CREATE TABLE entries(
                id INTEGER PRIMARY KEY, hash INTEGER NOT NULL, used INTEGER NOT NULL, received INTEGER NOT NULL,
                size INTEGER NOT NULL, isFile INTEGER NOT NULL, address TEXT NOT NULL, partition TEXT NOT NULL,
                meta BLOB NOT NULL, metaSum INTEGER NOT NULL, bodySum INTEGER NOT NULL, body BLOB NOT NULL);
            CREATE INDEX entriesByHash ON entries(hash);
            CREATE INDEX entriesByUse ON entries(used, size);
            CREATE TABLE totals(bytes INTEGER NOT NULL, entries INTEGER NOT NULL);
            INSERT INTO totals VALUES(0, 0);
            CREATE TRIGGER entryAdded AFTER INSERT ON entries BEGIN
                UPDATE totals SET bytes = bytes + new.size, entries = entries + 1;
            END;
            CREATE TRIGGER entryRemoved AFTER DELETE ON entries BEGIN
                UPDATE totals SET bytes = bytes - old.size, entries = entries - 1;
            END;
            CREATE TABLE salt(value BLOB NOT NULL);
            """,
            // Entries of that version contain queries and varying fields in plain text.
            "DELETE FROM entries;",
        ])

    /// Opens the index. Replaces an index that is damaged, or that another user could have written.
    ///
    /// - Parameters:
    ///   - capacity: The maximum size of heads and bodies together, in bytes.
    ///   - timeout: The maximum time to wait for another process that is opening the index, in seconds.
    static func open(
        _ directory: CacheDirectory, capacity: Int64, timeout: TimeInterval
    ) throws(DatabaseError) -> DiskIndex {
        var damaged: DatabaseFile?
        do throws(DatabaseError) {
            let database = try Database(path: directory.index, schema: schema, busyTimeout: timeout)
            damaged = database.file
            return try DiskIndex(directory, capacity, database)
        } catch {
            guard error.code == .damaged || error.code == .unsafe, let file = error.damagedFile ?? damaged
            else { throw error }
            try Database.quarantine(file, at: directory.index, timeout: timeout)
            let database = try Database(path: directory.index, schema: schema, busyTimeout: timeout)
            return try DiskIndex(directory, capacity, database)
        }
    }

    private init(_ directory: CacheDirectory, _ capacity: Int64, _ database: Database) throws(DatabaseError) {
        self.directory = directory
        self.capacity = max(0, capacity)
        self.database = database
        // Turn off synchronous writes: a cache may lose its last changes in a power failure, and the checksums detect
        // damage. A longer write-ahead log copies often changed pages into the database less often.
        try database.execute("PRAGMA synchronous=OFF; PRAGMA cache_size=-8192; PRAGMA wal_autocheckpoint=4000")
        salt = try Self.salt(database)
        // Requests wait for this queue, so a change is retried later rather than blocking on another process.
        try database.execute("PRAGMA busy_timeout=50")
    }

    /// A random string, created with the database. See ``ResponseCache/salt``.
    let salt: String

    private static func salt(_ database: Database) throws(DatabaseError) -> String {
        func stored() throws(DatabaseError) -> [UInt8]? {
            try database.withStatement("SELECT value FROM salt") { row throws(DatabaseError) in
                try row.step() ? row.blob(0) : nil
            }
        }
        var salt = try stored() ?? []
        if salt.count != 16 {
            salt = try database.transaction { () throws(DatabaseError) in
                if let salt = try stored(), salt.count == 16 { return salt }
                let salt = (0..<16).map { _ in UInt8.random(in: .min ... .max) }
                try database.run("DELETE FROM salt")
                try database.run("INSERT INTO salt VALUES(?)", [.blob(salt)])
                return salt
            }
        }
        return salt.reduce(into: "") { $0 += String($1 >> 4, radix: 16) + String($1 & 15, radix: 16) }
    }

    /// Returns the stored form of an address.
    private func sealed(_ address: String) -> String { SealedText.address(address, salt: salt) }

    var file: DatabaseFile? { database.file }
    var isCurrent: Bool { database.isCurrent }

    func version() throws(DatabaseError) -> Int64 { try database.dataVersion() }

    func usage() throws(DatabaseError) -> Int64 { try database.integer("SELECT bytes FROM totals") ?? 0 }

    func entryCount() throws(DatabaseError) -> Int64 { try database.integer("SELECT entries FROM totals") ?? 0 }

    // MARK: Reading

    /// Returns the stored responses of an address, and the numbers of damaged rows.
    func entries(of address: String) throws(DatabaseError) -> (entries: [CacheEntry], damaged: [Int64]) {
        var entries: [CacheEntry] = []
        var damaged: [Int64] = []
        let stored = sealed(address)
        // A small body is on the same page as its head, and reading both together takes half the time.
        try database.forEachRow(
            """
            SELECT id, partition, meta, metaSum, isFile, used, bodySum,
                CASE WHEN isFile = 0 AND size < \(Self.smallSize) THEN body END
            FROM entries WHERE hash = ? AND address = ?
            """,
            [.integer(Self.hash(stored)), .text(stored)]
        ) { row in
            let id = row.integer(0)
            let partition = row.text(1)
            let record = row.withBlob(2) { meta -> CacheRecord? in
                let sum = RecordCoding.checksum(meta, id: id, address: stored, partition: partition)
                guard sum == row.integer(3) else { return nil }
                return RecordCoding.decode(meta, id: id, address: address, partition: partition, used: row.integer(5))
            }
            guard let record else {
                damaged.append(id)
                return
            }
            var body = row.integer(4) == 0 ? StoredBody.row : .file
            if !row.isNull(7) {
                let bytes = row.blob(7)
                guard bytes.count == record.length, XXHash64.hash(bytes) == UInt64(bitPattern: row.integer(6)) else {
                    damaged.append(id)
                    return
                }
                body = .memory(bytes)
            }
            entries.append(CacheEntry(record: record, body: body))
        }
        return (entries, damaged)
    }

    /// The largest sum of head and body for which a lookup reads the body along with the head, in bytes.
    private static let smallSize = 6000

    /// Returns the body of a stored response, from its row or as an open file; nil if it is missing or damaged.
    ///
    /// - Throws: `SystemError` if the file cannot be opened now; `DatabaseError`.
    func body(of record: CacheRecord) throws -> StoredBody? {
        // The address is compared as well, because two processes may, very rarely, choose the same number.
        let sql = "SELECT isFile, bodySum, body FROM entries WHERE id = ? AND hash = ?"
        let row = try database.withStatement(sql, [.integer(record.id), .integer(Self.hash(sealed(record.address)))]) {
            row throws(DatabaseError) -> (isFile: Bool, bytes: [UInt8])? in
            guard try row.step() else { return nil }
            let bytes = row.blob(2)
            guard XXHash64.hash(bytes) == UInt64(bitPattern: row.integer(1)) else { return nil }
            return (row.integer(0) != 0, bytes)
        }
        guard let row else { return nil }
        if !row.isFile { return row.bytes.count == record.length ? .memory(row.bytes) : nil }
        let checksums = row.bytes.withUnsafeBytes { bytes in
            stride(from: 0, to: bytes.count - 7, by: 8).map {
                UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: $0, as: UInt64.self))
            }
        }
        return try BodyFile(path: directory.path(record.id), length: record.length, checksums: checksums)
            .map { .open($0) }
    }

    /// Returns those of the given numbers whose responses have their body in a file.
    func files(_ ids: [Int64]) throws(DatabaseError) -> Set<Int64> {
        var files: Set<Int64> = []
        for id in ids {
            let found = try database.integer("SELECT 1 FROM entries WHERE id = ? AND isFile = 1", [.integer(id)])
            if found != nil { files.insert(id) }
        }
        return files
    }

    /// Recomputes the totals maintained by the triggers, which may be wrong after damage, and removes entries with
    /// impossible sizes, which would evict all others or none.
    func recount() throws(DatabaseError) {
        let sum = "(SELECT cast(total(size) AS INTEGER) FROM entries)"
        let impossible = "size NOT BETWEEN 0 AND \(Self.largestSize)"
        let wrong = """
            (SELECT count(*) FROM totals WHERE bytes = \(sum) AND entries = (SELECT count(*) FROM entries)) <> 1
            OR EXISTS (SELECT 1 FROM entries WHERE \(impossible))
            """
        guard try database.integer("SELECT \(wrong)") == 1 else { return }
        var files: [Int64] = []
        try database.transaction { () throws(DatabaseError) in
            try delete(impossible, [], &files)
            try database.run("DELETE FROM totals")
            try database.run("INSERT INTO totals VALUES(\(sum), (SELECT count(*) FROM entries))")
        }
        directory.remove(files)
    }

    /// The upper bound of an entry's size, in bytes.
    private static let largestSize = Int64(1) << 50

    // MARK: Changes

    /// Applies changes in one transaction, evicts entries over the capacity, and removes the files of removed entries.
    ///
    /// - Parameters:
    ///   - operations: The changes, in order.
    ///   - used: The last use of responses by their number, in milliseconds since 1970.
    func apply(_ operations: [DiskOperation], used: [Int64: Int64]) throws(DatabaseError) {
        var files: [Int64] = []
        try database.transaction { () throws(DatabaseError) in
            for operation in operations { try apply(operation, &files) }
            for (id, time) in used {
                try database.run(
                    "UPDATE entries SET used = max(used, ?) WHERE id = ?", [.integer(time), .integer(id)])
            }
            try evict(&files)
        }
        directory.remove(files)
    }

    private func apply(_ operation: DiskOperation, _ files: inout [Int64]) throws(DatabaseError) {
        switch operation {
        case .put(let record, let body):
            try insert(record, body, sum: XXHash64.hash(body), isFile: false, &files)
        case .putFile(let record, let checksums):
            var bytes: [UInt8] = []
            for checksum in checksums { withUnsafeBytes(of: checksum.littleEndian) { bytes += $0 } }
            try insert(record, bytes, sum: XXHash64.hash(bytes), isFile: true, &files)
        case .update(let record):
            let meta = RecordCoding.encode(record)
            let size = Self.size(record, meta)
            try database.run(
                "UPDATE totals SET bytes = bytes + coalesce((SELECT ? - size FROM entries WHERE id = ?), 0)",
                [.integer(size), .integer(record.id)])
            try database.run(
                "UPDATE entries SET meta = ?, metaSum = ?, received = ?, used = ?, size = ? WHERE id = ?",
                [
                    .blob(meta), .integer(checksum(meta, record)), .integer(record.received.wall),
                    .integer(record.received.wall), .integer(size), .integer(record.id),
                ])
        case .remove(let id, _): try delete("id = ?", [.integer(id)], &files)
        case .removeAddress(let address):
            let stored = sealed(address)
            try delete("hash = ? AND address = ?", [.integer(Self.hash(stored)), .text(stored)], &files)
        case .removeSince(let time): try delete("received >= ?", [.integer(time)], &files)
        case .removeAll: try delete("1", [], &files)
        }
    }

    private func insert(
        _ record: CacheRecord, _ body: [UInt8], sum: UInt64, isFile: Bool, _ files: inout [Int64]
    ) throws(DatabaseError) {
        let present = try entries(of: record.address)
        var removed = present.damaged
        for other in present.entries where other.record.isReplaced(by: record) && other.record.id != record.id {
            if other.record.isNewer(than: record) {
                if isFile { files.append(record.id) }
                return
            }
            removed.append(other.record.id)
        }
        let kept = present.entries.filter { !removed.contains($0.record.id) }
        if kept.count >= MemoryIndex.variantLimit,
            let oldest = kept.min(by: { $0.record.received.wall < $1.record.received.wall })
        {
            removed.append(oldest.record.id)
        }
        for id in removed { try delete("id = ?", [.integer(id)], &files) }
        let meta = RecordCoding.encode(record), stored = sealed(record.address)
        try database.run(
            """
            INSERT OR IGNORE INTO entries(id, hash, used, received, size, isFile, address, partition, meta, metaSum, bodySum, body)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                .integer(record.id), .integer(Self.hash(stored)), .integer(record.received.wall),
                .integer(record.received.wall), .integer(Self.size(record, meta)),
                .integer(isFile ? 1 : 0), .text(stored), .text(record.partition), .blob(meta),
                .integer(checksum(meta, record)), .integer(Int64(bitPattern: sum)), .blob(body),
            ])
    }

    private func delete(
        _ condition: String, _ values: [DatabaseValue], _ files: inout [Int64]
    ) throws(DatabaseError) {
        var ids: [Int64] = []
        try database.forEachRow("SELECT id FROM entries WHERE isFile = 1 AND (\(condition))", values) {
            ids.append($0.integer(0))
        }
        try database.run("DELETE FROM entries WHERE \(condition)", values)
        files += ids
    }

    /// Removes the least recently used entries until a twentieth of the capacity is free.
    private func evict(_ files: inout [Int64]) throws(DatabaseError) {
        var usage = try usage()
        guard usage > capacity else { return }
        let goal = capacity - capacity / 20
        while usage > goal {
            var batch: [(id: Int64, size: Int64)] = []
            try database.forEachRow("SELECT id, size FROM entries ORDER BY used LIMIT 64") {
                batch.append(($0.integer(0), $0.integer(1)))
            }
            guard !batch.isEmpty else { return }
            for (id, size) in batch where usage > goal {
                try delete("id = ?", [.integer(id)], &files)
                usage -= min(max(0, size), usage)
            }
        }
    }

    /// Returns the size of an entry with its body that counts towards the capacity, in bytes.
    private static func size(_ record: CacheRecord, _ meta: [UInt8]) -> Int64 {
        Int64(record.length + meta.count + record.address.utf8.count + 128)
    }

    private static func hash(_ address: String) -> Int64 {
        var address = address
        return Int64(bitPattern: address.withUTF8 { XXHash64.hash(UnsafeRawBufferPointer($0)) })
    }

    private func checksum(_ meta: [UInt8], _ record: CacheRecord) -> Int64 {
        meta.withUnsafeBytes {
            RecordCoding.checksum($0, id: record.id, address: sealed(record.address), partition: record.partition)
        }
    }
}
