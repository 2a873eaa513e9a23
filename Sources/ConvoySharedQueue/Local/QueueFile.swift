import ConvoyDatabase
import ConvoySupport
import Foundation

/// The database of a queue. It is used only by the queue's writer, never concurrently.
final class QueueFile {
    private let database: Database

    static let schema = DatabaseSchema(
        applicationID: 0x4376_5175,
        steps: [
            """
            CREATE TABLE entry (
                sequence INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, method TEXT NOT NULL, url TEXT NOT NULL,
                header TEXT NOT NULL, timeout REAL NOT NULL, place TEXT, is_directory INTEGER NOT NULL, options BLOB,
                body TEXT, body_length INTEGER, sends_again INTEGER NOT NULL, policy INTEGER NOT NULL, tag TEXT,
                enqueued INTEGER NOT NULL,
                phase INTEGER NOT NULL, paused INTEGER NOT NULL, sent INTEGER NOT NULL, priority INTEGER NOT NULL,
                attempts INTEGER NOT NULL, received INTEGER NOT NULL, expected INTEGER, error TEXT, status INTEGER,
                file TEXT, file_number INTEGER, file_length INTEGER, changed INTEGER NOT NULL);
            CREATE TABLE dependency (
                entry BLOB NOT NULL, needed BLOB NOT NULL, PRIMARY KEY (entry, needed)) WITHOUT ROWID;
            CREATE INDEX dependency_needed ON dependency (needed);
            CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 0), paused INTEGER NOT NULL);
            INSERT INTO state VALUES (0, 0);
            """,
            "ALTER TABLE entry ADD COLUMN withheld TEXT NOT NULL DEFAULT ''",
            """
            ALTER TABLE entry ADD COLUMN next INTEGER;
            ALTER TABLE entry ADD COLUMN retries INTEGER NOT NULL DEFAULT 0;
            """,
            "ALTER TABLE entry ADD COLUMN upload BLOB",
        ])

    init(path: String) throws(DatabaseError) {
        database = try Database(path: path, schema: Self.schema)
        // Enqueued entries must survive a power failure, and removed entries must leave no traces.
        try database.execute("PRAGMA synchronous=FULL; PRAGMA secure_delete=ON")
    }

    // MARK: Reading

    /// Returns whether the whole queue is paused.
    func isPaused() throws(DatabaseError) -> Bool { try database.integer("SELECT paused FROM state") == 1 }

    /// A row that this version cannot read.
    struct UnreadableRow {
        let sequence: Int64
        let id: UUID?
        /// The name of the entry's body.
        let body: String?
    }

    /// Returns all rows in order, and the unreadable ones.
    func rows() throws(DatabaseError) -> (readable: [QueueRow], unreadable: [UnreadableRow]) {
        var dependencies: [UUID: Set<UUID>] = [:]
        try database.forEachRow("SELECT entry, needed FROM dependency") { row throws(DatabaseError) in
            guard let id = Self.id(row.blob(0)), let needed = Self.id(row.blob(1)) else { return }
            dependencies[id, default: []].insert(needed)
        }
        var rows: (readable: [QueueRow], unreadable: [UnreadableRow]) = ([], [])
        try database.forEachRow(
            """
            SELECT sequence, id, method, url, header, timeout, place, is_directory, options, body, body_length,
                sends_again, policy, tag, enqueued, phase, paused, sent, priority, attempts, received, expected, error,
                status, file, file_number, file_length, changed, withheld,
                next, retries, upload
            FROM entry ORDER BY sequence
            """
        ) { statement throws(DatabaseError) in
            if let row = Self.row(statement, dependencies) {
                rows.readable.append(row)
            } else {
                rows.unreadable.append(
                    UnreadableRow(
                        sequence: statement.integer(0), id: Self.id(statement.blob(1)),
                        body: statement.isNull(9) ? nil : statement.text(9)))
            }
        }
        return rows
    }

    private static func row(_ row: Statement, _ dependencies: [UUID: Set<UUID>]) -> QueueRow? {
        // Leave room for the sequence numbers of later entries.
        guard let id = Self.id(row.blob(1)), let url = URL(string: row.text(3)), let work = work(row),
            let status = status(row), row.integer(0) <= largestNumber
        else { return nil }
        let request = StoredRequest(
            method: row.text(2), url: url, header: StoredRequest.header(of: row.text(4)), timeout: row.real(5), work: work,
            withheld: row.text(28).split(separator: "\n").map(String.init))
        return QueueRow(
            id: id, sequence: row.integer(0), request: request, dependencies: dependencies[id] ?? [],
            policy: FailedDependencyPolicy(rawValue: Int(clamping: row.integer(12))) ?? .hold,
            tag: row.isNull(13) ? nil : row.text(13), enqueued: row.integer(14), status: status)
    }

    private static func work(_ row: Statement) -> StoredRequest.Work? {
        guard !row.isNull(6) else {
            let body = row.isNull(9) ? nil : StoredBody(name: row.text(9), length: row.integer(10))
            // The file of a body is removed with its entry, so its name must not lead to a different folder.
            if let body, body.length < 0 || !BodyFolder.isName(body.name) { return nil }
            return .send(StoredSending(body: body, sendsAgain: row.integer(11) != 0))
        }
        guard let place = URL(string: row.text(6)), place.isFileURL else { return nil }
        if !row.isNull(31) { return .upload(StoredUpload(file: place, options: Data(row.blob(31)))) }
        var download = StoredDownload(place: place, isDirectory: row.integer(7) != 0)
        if !row.isNull(8) {
            guard let options = try? JSONDecoder().decode(StoredDownload.Options.self, from: Data(row.blob(8))),
                options.isSound
            else { return nil }
            download.options = options
        }
        return .download(download)
    }

    /// The limit for numbers in the database, which damage or another program may have changed. Adding to a number
    /// below it cannot overflow.
    static let largestNumber = Int64(1) << 62

    /// Returns the number in a column, clamped to the range from zero to the limit.
    private static func number(_ row: Statement, _ column: Int) -> Int64 {
        min(max(0, row.integer(column)), largestNumber)
    }

    private static func status(_ row: Statement) -> QueueStatus? {
        guard let phase = QueueStatus.Phase(rawValue: row.integer(15)) else { return nil }
        var status = QueueStatus(changed: row.integer(27))
        (status.phase, status.isPaused, status.mayHaveBeenSent) = (phase, row.integer(16) != 0, row.integer(17) != 0)
        (status.priority, status.attempts) = (row.integer(18), number(row, 19))
        (status.bytesReceived, status.bytesExpected) = (number(row, 20), row.isNull(21) ? nil : number(row, 21))
        (status.error, status.statusCode) = (row.isNull(22) ? nil : row.text(22), row.isNull(23) ? nil : row.integer(23))
        if !row.isNull(24), let url = URL(string: row.text(24)), url.isFileURL {
            status.file = FinishedFile(url: url, number: row.integer(25), length: row.integer(26))
        }
        (status.next, status.retries) = (row.isNull(29) ? nil : number(row, 29), number(row, 30))
        return status
    }

    // MARK: Writing

    /// Applies changes in one transaction.
    func write(_ changes: [QueueChange]) throws(DatabaseError) {
        try database.transaction { () throws(DatabaseError) in
            for change in changes { try apply(change) }
        }
    }

    private func apply(_ change: QueueChange) throws(DatabaseError) {
        switch change {
        case .insert(let row): try insert(row)
        case .update(let id, let status):
            try database.run(
                """
                UPDATE entry SET phase = ?, paused = ?, sent = ?, priority = ?, attempts = ?, received = ?, expected = ?,
                    error = ?, status = ?, file = ?, file_number = ?, file_length = ?, changed = ?, next = ?, retries = ?
                WHERE id = ?
                """, Self.values(status) + [Self.blob(id)])
        case .remove(let id): try remove(id)
        case .removeFinished(let id):
            try remove(id)
            try database.run("DELETE FROM dependency WHERE needed = ?", [Self.blob(id)])
        case .removeDependencies(let id, let dependencies):
            for needed in dependencies {
                try database.run(
                    "DELETE FROM dependency WHERE entry = ? AND needed = ?", [Self.blob(id), Self.blob(needed)])
            }
        case .setPaused(let isPaused): try database.run("UPDATE state SET paused = ?", [.integer(isPaused ? 1 : 0)])
        }
    }

    /// Removes an entry. Keeps the rows of the entries that depend on it, which show that a dependency was cancelled.
    private func remove(_ id: UUID) throws(DatabaseError) {
        try database.run("DELETE FROM entry WHERE id = ?", [Self.blob(id)])
        try database.run("DELETE FROM dependency WHERE entry = ?", [Self.blob(id)])
    }

    private func insert(_ row: QueueRow) throws(DatabaseError) {
        let request = row.request
        var place: String?, isDirectory = false, options: [UInt8]?
        var upload: [UInt8]?
        if case .upload(let stored) = request.work {
            (place, upload) = (stored.file.absoluteString, Array(stored.options))
        }
        if case .download(let download) = request.work {
            (place, isDirectory) = (download.place.absoluteString, download.isDirectory)
            if download.options != StoredDownload.Options() {
                options = (try? JSONEncoder().encode(download.options)).map(Array.init)
            }
        }
        let values: [DatabaseValue] = [
            .integer(row.sequence), Self.blob(row.id), .text(request.method), .text(request.url.absoluteString),
            .text(request.headerText), .real(request.timeout), .text(place), .integer(isDirectory ? 1 : 0), .blob(options),
            .text(request.body?.name), .integer(request.body?.length), .integer(request.sendsAgain ? 1 : 0),
            .integer(Int64(row.policy.rawValue)), .text(row.tag), .integer(row.enqueued),
            .text(request.withheld.joined(separator: "\n")), .blob(upload),
        ]
        try database.run(
            """
            INSERT INTO entry (sequence, id, method, url, header, timeout, place, is_directory, options, body, body_length,
                sends_again, policy, tag, enqueued, withheld, upload, phase, paused, sent, priority, attempts, received, expected,
                error, status, file, file_number, file_length, changed, next, retries)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """, values + Self.values(row.status))
        for needed in row.dependencies {
            try database.run("INSERT INTO dependency VALUES (?, ?)", [Self.blob(row.id), Self.blob(needed)])
        }
    }

    private static func values(_ status: QueueStatus) -> [DatabaseValue] {
        [
            .integer(status.phase.rawValue), .integer(status.isPaused ? 1 : 0), .integer(status.mayHaveBeenSent ? 1 : 0),
            .integer(status.priority), .integer(status.attempts), .integer(status.bytesReceived),
            .integer(status.bytesExpected), .text(status.error), .integer(status.statusCode),
            .text(status.file?.url.absoluteString), .integer(status.file?.number), .integer(status.file?.length),
            .integer(status.changed), .integer(status.next), .integer(status.retries),
        ]
    }

    private static func blob(_ id: UUID) -> DatabaseValue { .blob(withUnsafeBytes(of: id.uuid) { Array($0) }) }

    private static func id(_ bytes: [UInt8]) -> UUID? {
        guard bytes.count == 16 else { return nil }
        return bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
    }
}

extension DownloadQueueError {
    /// Creates the error for a file or directory that cannot be used.
    init(_ error: PrivateFile.Failure, _ path: String) {
        let text = "\(path): \(error.reason)"
        if case .unsafe = error { self = .unsafe(text) } else { self = .cannotOpen(text) }
    }

    /// Creates the error for users from a database error.
    init(_ error: DatabaseError, isOpening: Bool) {
        self =
            switch error.code {
            case .damaged: .damaged(error.description)
            case .foreign: .foreign(error.description)
            case .newer: .newerVersion(error.description)
            case .full: .diskFull(error.description)
            case .unsafe: .unsafe(error.description)
            default: isOpening ? .cannotOpen(error.description) : .cannotWrite(error.description)
            }
    }
}

/// A lock that allows only one queue to have a directory open: a locked file that contains the identifier of the
/// process. The system releases the lock when the process ends for any reason.
final class QueueLock: Sendable {
    private let descriptor: Locked<Int32>

    /// Acquires the lock of a directory.
    ///
    /// - Throws: ``DownloadQueueError/inUse(_:process:)``, or `cannotOpen` if the file system does not support locks.
    init(_ path: String, directory: URL) throws(DownloadQueueError) {
        let opened: Int32
        do throws(PrivateFile.Failure) {
            opened = try PrivateFile.openOrCreate(path)
        } catch {
            throw DownloadQueueError(error, path)
        }
        var result: Int32
        repeat { result = flock(opened, LOCK_EX | LOCK_NB) } while result != 0 && errno == EINTR
        guard result == 0 else {
            let error = SystemError()
            defer { close(opened) }
            guard error.code == EWOULDBLOCK else { throw .cannotOpen("Cannot lock \(path): \(error.text)") }
            throw .inUse(directory, process: Self.process(opened))
        }
        // The identifier is used only in an error thrown by another queue, so ignore a failure to write it.
        let text = Array("\(getpid())\n".utf8)
        if ftruncate(opened, 0) == 0 { _ = pwrite(opened, text, text.count, 0) }
        descriptor = Locked(opened)
    }

    deinit { release() }

    /// Releases the lock, so that others can open the directory.
    func release() {
        let closing = descriptor.withLock { descriptor in
            defer { descriptor = -1 }
            return descriptor
        }
        if closing >= 0 { close(closing) }
    }

    private static func process(_ descriptor: Int32) -> Int32? {
        var bytes = [UInt8](repeating: 0, count: 16)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        guard count > 0 else { return nil }
        let digits = bytes[..<count].prefix { ASCII.isDigit($0) }
        return Int32(String(decoding: digits, as: UTF8.self))
    }
}
