import ConvoyDatabase
import Foundation

/// The entries in the tables of earlier versions, which are moved to those of shared queues when a queue is opened.
struct EarlierQueue {
    private(set) var records: [QueueRecord] = []
    /// The identifiers of entries that cannot be read, because a later version wrote them or the disk was damaged.
    private(set) var unreadable: [UUID?] = []
    private(set) var isPaused = false
    /// The sequence numbers of the entries that were read.
    private(set) var sequences: [Int64] = []

    /// The steps of the schema of earlier versions.
    static let steps = [
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
    ]

    /// The step that makes room for the tables of a shared queue.
    static let renaming = """
        ALTER TABLE entry RENAME TO earlier_entry;
        ALTER TABLE dependency RENAME TO earlier_dependency;
        ALTER TABLE state RENAME TO earlier_state;
        DROP INDEX dependency_needed
        """

    static let tables = ["earlier_entry", "earlier_dependency", "earlier_state"]

    /// Reads the entries; nil if the database has no tables of an earlier version.
    init?(in database: Database) throws(DatabaseError) {
        guard try database.integer("SELECT 1 FROM sqlite_schema WHERE name = 'earlier_entry'") == 1 else { return nil }
        isPaused = try database.integer("SELECT paused FROM earlier_state") == 1
        var needed: [UUID: Set<UUID>] = [:]
        try database.forEachRow("SELECT entry, needed FROM earlier_dependency") { row in
            guard let id = Self.id(row.blob(0)), let other = Self.id(row.blob(1)) else { return }
            needed[id, default: []].insert(other)
        }
        try database.forEachRow(
            """
            SELECT sequence, id, method, url, header, timeout, place, is_directory, options, body, body_length, sends_again,
                policy, tag, enqueued, phase, paused, sent, priority, attempts, received, expected, error, status, file,
                file_number, file_length, changed, withheld, next, retries, upload
            FROM earlier_entry ORDER BY sequence
            """
        ) { row in
            if let record = Self.record(row, needed) {
                records.append(record)
                sequences.append(row.integer(0))
            } else {
                unreadable.append(Self.id(row.blob(1)))
            }
        }
    }

    private static func record(_ row: Statement, _ needed: [UUID: Set<UUID>]) -> QueueRecord? {
        guard let id = id(row.blob(1)), let url = URL(string: row.text(3)), let work = work(row), let phase = phase(row)
        else {
            return nil
        }
        let request = StoredRequest(
            method: row.text(2), url: url, header: StoredRequest.header(of: row.text(4)),
            timeout: StoredRequest.timeout(row.real(5)), work: work,
            withheld: row.text(28).split(separator: "\n").map(String.init))
        guard request.isSound else { return nil }
        var record = QueueRecord(
            id: id, request: request, dependencies: needed[id] ?? [],
            policy: FailedDependencyPolicy(rawValue: Int(clamping: row.integer(12))) ?? .hold,
            tag: row.isNull(13) ? nil : row.text(13), priority: Int(clamping: row.integer(18)), enqueued: row.integer(14))
        record.standing.state = phase
        // The outcome of a request that must not be sent twice is unknown if it may have been sent.
        record.standing.hasBegun = phase == .failed ? row.integer(15) == 5 : row.integer(17) != 0
        record.standing.due = row.isNull(29) ? 0 : row.integer(29)
        record.standing.attempts = Int(UInt32(clamping: row.integer(19)))
        record.standing.error = row.isNull(22) ? nil : row.text(22)
        record.standing.statusCode = row.isNull(23) ? nil : Int(clamping: row.integer(23))
        record.standing.changed = row.integer(27)
        record.progress.retries = row.integer(30)
        record.progress.received = row.integer(20)
        record.progress.expected = row.isNull(21) ? nil : row.integer(21)
        if !row.isNull(24), let file = URL(string: row.text(24)), file.isFileURL {
            record.progress.file = FinishedFile(url: file, number: row.integer(25), length: row.integer(26))
        }
        return record
    }

    /// Returns the state that corresponds to a phase: waiting, running, finishing, finished, failed or unknown.
    private static func phase(_ row: Statement) -> WorkState? {
        let mayHaveArrived = row.integer(17) != 0 && row.isNull(6) && row.integer(11) == 0
        switch row.integer(15) {
        case 0...2:
            if mayHaveArrived { return .leased }
            if row.integer(16) != 0 { return .paused }
            return row.integer(15) == 0 ? .ready : .leased
        case 3: return .done
        case 4, 5: return .failed
        default: return nil
        }
    }

    private static func work(_ row: Statement) -> StoredRequest.Work? {
        guard !row.isNull(6) else {
            let body = row.isNull(9) ? nil : StoredBody(name: row.text(9), length: row.integer(10))
            return .send(StoredSending(body: body, sendsAgain: row.integer(11) != 0))
        }
        guard let place = URL(string: row.text(6)) else { return nil }
        if !row.isNull(31) { return .upload(StoredUpload(file: place, options: Data(row.blob(31)))) }
        var download = StoredDownload(place: place, isDirectory: row.integer(7) != 0)
        if !row.isNull(8) {
            guard let options = try? JSONDecoder().decode(StoredDownload.Options.self, from: Data(row.blob(8))) else {
                return nil
            }
            download.options = options
        }
        return .download(download)
    }

    private static func id(_ bytes: [UInt8]) -> UUID? {
        guard bytes.count == 16 else { return nil }
        return bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
    }
}
