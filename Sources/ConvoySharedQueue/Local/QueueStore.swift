import ConvoyDatabase
import ConvoySupport
import Foundation

/// The database of a queue, with the tables of a shared queue. It is used only by the queue's writer, never concurrently.
final class QueueStore {
    private let database: SQLiteWorkDatabase
    private let store: WorkStore

    static let schema = DatabaseSchema(
        applicationID: 0x4376_5175,
        steps: EarlierQueue.steps + [EarlierQueue.renaming] + SQLiteWorkDatabase.schema.steps)

    /// The number of entries that are inserted by one statement.
    private static let rowLimit = 1000

    init(path: String) throws(DatabaseError) {
        database = try SQLiteWorkDatabase(path: path, schema: Self.schema, busyTimeout: 5)
        store = WorkStore(database)
        // Damage or another program may have left no room for the sequence numbers of later entries.
        while try database.database.run(
            """
            UPDATE entry SET sequence = (SELECT coalesce(max(sequence), 0) + 1 FROM entry WHERE sequence <= ?1)
            WHERE sequence = (SELECT min(sequence) FROM entry WHERE sequence > ?1)
            """, [.integer(Int64(1) << 62)]) > 0
        {}
        try database.database.execute(
            """
            UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(sequence), 0) FROM entry)
            WHERE name = 'entry' AND seq > \(Int64(1) << 62)
            """)
    }

    // MARK: Reading

    /// Returns whether the whole queue is paused.
    func isPaused() throws(DatabaseError) -> Bool { try database.database.integer("SELECT paused FROM queue") == 1 }

    /// Returns all entries in order, and the identifiers of those that this version cannot read; nil for an unreadable
    /// identifier.
    func records() throws(DatabaseError) -> (readable: [QueueRecord], unreadable: [UUID?]) {
        var needed: [UUID: Set<UUID>] = [:]
        try database.forEachRow("SELECT d.entry, d.needed FROM dependency AS d") { row in
            if let id = row.id(0), let other = row.id(1) { needed[id, default: []].insert(other) }
        }
        var records: (readable: [QueueRecord], unreadable: [UUID?]) = ([], [])
        try database.forEachRow(
            """
            SELECT \(WorkStore.standingColumns), e.sequence, e.priority, e.enqueued, q.payload, q.mark
            FROM entry AS e LEFT JOIN request AS q ON q.id = e.id ORDER BY e.sequence
            """
        ) { row in
            if let record = Self.record(row, needed) {
                records.readable.append(record)
            } else {
                records.unreadable.append(row.id(0))
            }
        }
        return records
    }

    private static func record(_ row: WorkRow, _ needed: [UUID: Set<UUID>]) -> QueueRecord? {
        let first = WorkStore.standingColumnCount
        guard let entry = WorkStore.LockedEntry(row), let payload = try? WorkPayload(row.text(first + 3) ?? ""),
            payload.request.isSound
        else { return nil }
        let old = entry.standing
        var record = QueueRecord(
            id: entry.id, request: payload.request, dependencies: needed[entry.id] ?? [], policy: old.policy,
            tag: payload.label, priority: row.int(first + 1) ?? 0, enqueued: row.integer(first + 2) ?? 0)
        record.sequence = row.integer(first) ?? 0
        record.standing.state = old.state
        record.standing.hasBegun = old.hasBegun
        record.standing.due = old.due
        record.standing.attempts = old.attempts
        record.standing.statusCode = old.statusCode
        record.standing.error = old.error
        record.standing.changed = old.changed
        if let progress = row.text(first + 4).flatMap({ QueueProgress(mark: $0) }) { record.progress = progress }
        return record
    }

    // MARK: Writing

    /// Applies changes in one transaction.
    func write(_ changes: [QueueChange]) throws(SharedQueueError) {
        guard !changes.isEmpty else { return }
        try store.transaction { () throws(SharedQueueError) in
            var updates: [UUID: (standing: WorkStanding, progress: QueueProgress)] = [:]
            for change in changes {
                if case .update(let id, let standing, let progress) = change {
                    updates[id] = (standing, progress)
                } else {
                    try write(updates)
                    updates = [:]
                    try apply(change)
                }
            }
            try write(updates)
        }
    }

    private func write(
        _ updates: [UUID: (standing: WorkStanding, progress: QueueProgress)]
    ) throws(SharedQueueError) {
        guard !updates.isEmpty else { return }
        try store.writeRows(updates.map { WorkStore.LockedEntry($0, $1.standing) })
        try store.query(
            "UPDATE request AS q SET mark = r.mark FROM \(Self.marks) AS r WHERE q.id = r.id", rowsOf: updates
        ) { [.id($0), .text($1.progress.mark)] }
    }

    private static let marks = SQLiteWorkDatabase.dialect.rows("$1", [("id", .id), ("mark", .text)])

    private func apply(_ change: QueueChange) throws(SharedQueueError) {
        switch change {
        case .update: break
        case .insert(let records):
            for start in stride(from: 0, to: records.count, by: Self.rowLimit) {
                let part = records[start..<min(start + Self.rowLimit, records.count)]
                try store.insert(try part.map { record throws(SharedQueueError) in try WorkItem(record) }, 0)
            }
        case .setPriority(let id, let priority):
            _ = try database.query(
                "UPDATE entry SET priority = $2 WHERE id = $1", [.id(id), .integer(Int64(priority))])
        case .remove(let id, let isFinished):
            try store.delete([id], keepsDependencies: !isFinished)
        case .removeDependencies(let id, let dependencies):
            for needed in dependencies {
                _ = try database.query("DELETE FROM dependency WHERE entry = $1 AND needed = $2", [.id(id), .id(needed)])
            }
        case .setPaused(let isPaused): try store.setPaused(isPaused)
        }
    }

    // MARK: Earlier versions

    /// Moves the entries of an earlier version, in one transaction. Entries that cannot be read stay where they are.
    ///
    /// - Returns: The identifiers of these entries; nil for an unreadable identifier.
    func moveEarlierEntries() throws(DownloadQueueError) -> [UUID?] {
        let earlier: EarlierQueue
        do throws(DatabaseError) {
            guard let found = try EarlierQueue(in: database.database) else { return [] }
            earlier = found
        } catch {
            throw DownloadQueueError(error)
        }
        do throws(SharedQueueError) {
            try store.transaction { () throws(SharedQueueError) in
                try write([.insert(earlier.records)] + earlier.records.map { .update($0.id, $0.standing, $0.progress) })
                if earlier.isPaused { try store.setPaused(true) }
                guard !earlier.unreadable.isEmpty else {
                    for name in EarlierQueue.tables { _ = try database.query("DROP TABLE \(name)", []) }
                    return
                }
                _ = try database.query("UPDATE earlier_state SET paused = 0", [])
                let rows = database.dialect.rows("$1", [("sequence", .integer)])
                try store.query(
                    "DELETE FROM earlier_entry WHERE sequence IN (SELECT sequence FROM \(rows) AS r)",
                    rowsOf: earlier.sequences
                ) { [.integer($0)] }
            }
        } catch {
            throw DownloadQueueError(error)
        }
        return earlier.unreadable
    }
}

extension WorkItem {
    fileprivate init(_ record: QueueRecord) throws(SharedQueueError) {
        self.init(id: record.id)
        let request = record.request
        switch request.work {
        case .download: kind = .download
        case .send: kind = .outbox
        case .upload: kind = .upload
        }
        method = request.method
        url = request.url.absoluteString
        host = Target(request.url)?.authority ?? ""
        payload = try WorkPayload(request: request, label: record.tag).text()
        dependencies = record.dependencies
        priority = record.priority
        enqueued = record.enqueued
        standing = record.standing
    }
}

extension DownloadQueueError {
    /// Creates the error for a file or directory that cannot be used.
    init(_ error: PrivateFile.Failure, _ path: String) {
        let text = "\(path): \(error.reason)"
        if case .unsafe = error { self = .unsafe(text) } else { self = .cannotOpen(text) }
    }

    /// Creates the error for users from an error while the database is being opened.
    init(_ error: DatabaseError) {
        self =
            switch error.code {
            case .damaged: .damaged(error.description)
            case .foreign: .foreign(error.description)
            case .newer: .newerVersion(error.description)
            case .full: .diskFull(error.description)
            case .unsafe: .unsafe(error.description)
            default: .cannotOpen(error.description)
            }
    }

    /// Creates the error for users from the error of a write.
    init(_ error: SharedQueueError) {
        switch error {
        case .diskFull(let text): self = .diskFull(text)
        case .unavailable(let text), .conflict(let text), .denied(let text), .foreign(let text), .failed(let text):
            self = .cannotWrite(text)
        default: self = .cannotWrite(error.description)
        }
    }
}
