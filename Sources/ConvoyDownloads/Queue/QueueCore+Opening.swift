import ConvoyDatabase
import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// How a queue comes back.
extension QueueCore {
    /// Opens the queue in a directory, which is made if it is not there and must be this user's, and makes the operations of
    /// the entries that are not over. Blocks.
    static func open(
        _ directory: URL, _ manager: HTTPRequestOperationManager, _ operationQueue: OperationQueue?,
        _ retryPolicy: RetryPolicy?, _ configure: @escaping DownloadQueue.Configure
    ) throws(DownloadQueueError) -> QueueCore {
        guard directory.isFileURL else { throw .cannotOpen("\(directory.absoluteString) is not the URL of a directory.") }
        let path = directory.standardizedFileURL.path
        do {
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw .cannotOpen("\(path): \(error.localizedDescription)")
        }
        do throws(PrivateFile.Failure) {
            try PrivateFile.makeDirectory(path, isChosen: true)
        } catch {
            throw DownloadQueueError(error, path)
        }
        let lock = try QueueLock("\(path)/queue.lock", directory: directory)
        let bodies = try BodyFolder("\(path)/bodies")
        let file: QueueFile, found: (readable: [QueueRow], unreadable: [QueueFile.UnreadableRow]), isPaused: Bool
        do throws(DatabaseError) {
            file = try QueueFile(path: "\(path)/queue.sqlite")
            (found, isPaused) = (try file.rows(), try file.isPaused())
        } catch {
            throw DownloadQueueError(error, isOpening: true)
        }
        var rows = found.readable
        var changes: [QueueChange] = []
        for index in rows.indices {
            let old = rows[index].status
            rows[index].comeBack(bodies)
            if rows[index].status != old { changes.append(.update(rows[index].id, rows[index].status)) }
        }
        let kept = rows.filter { $0.status.phase != .finished }.compactMap(\.request.body)
        // A later version may read what this one cannot.
        bodies.removeAll(but: kept + found.unreadable.compactMap { $0.body.map { StoredBody(name: $0, length: 0) } })
        var state = State()
        state.isPaused = isPaused
        for row in found.unreadable { state.table.reserve(row.sequence) }
        state.unreadable = found.unreadable.map(\.id)
        state.table.insert(rows.map { QueueTable.Record(row: $0, isDelayed: $0.status.next != nil) })
        let core = QueueCore(
            directory: directory, manager: manager, operationQueue: operationQueue, retryPolicy: retryPolicy,
            configure: configure, lock: lock, writer: QueueWriter(file), bodies: bodies, state: state)
        if !changes.isEmpty { core.writer.submit(changes) }
        core.restoreOperations(rows)
        return core
    }

    private func restoreOperations(_ rows: [QueueRow]) {
        var made: [(id: UUID, operation: any QueuedOperation)] = []
        for row in rows where !row.status.phase.isOver {
            do throws(DownloadQueueError) {
                let operation = try makeOperation(
                    row.id, row.request, secrets: [], priority: row.status.priority, retries: row.status.retries)
                prepare(operation, QueueTable.Record(row: row))
                made.append((row.id, operation))
            } catch {
                update { state in
                    state.candidates.formUnion(
                        state.table.change(row.id) { record in
                            record.row.status.phase = .failed
                            record.row.status.error = error.description
                        })
                    store(row.id, state)
                }
            }
        }
        attach(made)
        // One whose dependencies have failed before, or are gone.
        update { state in state.candidates.formUnion(rows.map(\.id)) }
    }
}

// MARK: - Waits of an earlier process

extension QueueCore {
    /// Lets entries that came back start when their next attempt is due.
    func awaitNextAttempts(of made: [(id: UUID, operation: any QueuedOperation)]) {
        for (id, operation) in made {
            guard let record = state.withLock({ $0.table[id] }), record.isDelayed else { continue }
            let now = Self.now
            // The system's clock may have been put back since.
            let wait = min((record.row.status.next ?? now) - now, Self.longestWait(of: operation.retryPolicy))
            guard wait > 0 else {
                endDelay(of: id)
                continue
            }
            let clock = operation.retryClock
            clock.schedule(at: Nanoseconds.deadline(TimeInterval(wait) / 1e6, after: clock.now)) { [weak self] in
                self?.endDelay(of: id)
            }
        }
    }

    /// The longest wait that a policy can ask for, in microseconds.
    private static func longestWait(of policy: RetryPolicy?) -> Int64 {
        let policy = policy ?? RetryPolicy()
        let seconds = max(policy.maximumDelay, policy.maximumRetryAfter + 1)
        return seconds < 1e9 ? Int64(max(0, seconds) * 1e6) : .max
    }

    /// Lets an entry that came back start before its next attempt is due, or because it is.
    func endDelay(of id: UUID) {
        update { state in
            guard state.table[id]?.isDelayed == true else { return }
            state.table.change(id) { $0.isDelayed = false }
            state.candidates.insert(id)
        }
    }
}

extension QueueRow {
    /// Decides what becomes of an entry of an earlier process.
    mutating func comeBack(_ bodies: BodyFolder) {
        switch status.phase {
        case .finished, .failed, .unknown:
            status.next = nil
            return
        case .finishing where status.file?.isThere == true:
            // The process ended after the file got its name, and before that was stored.
            status.phase = .finished
            return
        case .waiting, .running, .finishing: break
        }
        status.phase = .waiting
        status.file = nil
        if status.mayHaveBeenSent, !request.sendsAgain {
            status.phase = .unknown
            status.error = "The process ended while the request was being sent."
        } else if let body = request.body, !bodies.contains(body) {
            status.phase = .failed
            status.error = DownloadQueueError.bodyMissing(id).description
        }
    }
}

/// How entries get into a queue.
extension QueueCore {
    /// A request that is ready to be stored.
    private struct New: Sendable {
        let id: UUID
        var stored: StoredRequest
        let secrets: [HeaderLine]
        let request: any StorableRequest
    }

    /// Stores requests, all or none, and makes their operations. Blocks on the disk.
    func enqueue(_ requests: [any DurableRequest]) throws(DownloadQueueError) -> [any QueuedOperation] {
        guard !requests.isEmpty else { return [] }
        var new = try requests.map { request throws(DownloadQueueError) in try prepare(request) }
        try checkOrder(new)
        // Once before anything is written, and once when it is decided.
        try state.withLock { state throws(DownloadQueueError) in try check(new, state) }
        let stored = try bodies.store(new.map { $0.request.body })
        for (index, body) in stored.enumerated() { new[index].stored.setBody(body) }
        do throws(DownloadQueueError) {
            let made = try new.map { new throws(DownloadQueueError) in
                let priority = Int64(new.request.priority.rawValue)
                return (new.id, try makeOperation(new.id, new.stored, secrets: new.secrets, priority: priority))
            }
            let records = try insert(new)
            for (record, (_, operation)) in zip(records, made) { prepare(operation, record) }
            attach(made)
            return made.map(\.1)
        } catch {
            bodies.remove(stored.compactMap(\.self))
            throw error
        }
    }

    private func prepare(_ request: any DurableRequest) throws(DownloadQueueError) -> New {
        guard let request = request as? any StorableRequest else {
            throw .unsuitableRequest("\(type(of: request)) is not a DownloadRequest or an OutboxRequest.")
        }
        let (stored, secrets) = try StoredRequest.storing(request, classifier: manager.connectionConfiguration.secrets)
        return New(id: request.id, stored: stored, secrets: secrets, request: request)
    }

    /// Whether those that are enqueued together depend on each other in a circle. (None can depend on later ones.)
    private func checkOrder(_ new: [New]) throws(DownloadQueueError) {
        var waiting: [UUID: Int] = [:], dependents: [UUID: [UUID]] = [:]
        for entry in new {
            guard waiting.updateValue(0, forKey: entry.id) == nil else { throw .duplicate(entry.id) }
        }
        for entry in new {
            for dependency in entry.request.dependencies where waiting[dependency] != nil {
                waiting[entry.id, default: 0] += 1
                dependents[dependency, default: []].append(entry.id)
            }
        }
        var free = new.map(\.id).filter { waiting[$0] == 0 }
        var count = 0
        while let next = free.popLast() {
            count += 1
            for dependent in dependents[next] ?? [] {
                waiting[dependent, default: 0] -= 1
                if waiting[dependent] == 0 { free.append(dependent) }
            }
        }
        guard count < new.count, let one = new.first(where: { waiting[$0.id, default: 0] > 0 }) else { return }
        throw .dependencyCycle(one.id)
    }

    private func check(_ new: [New], _ state: borrowing State) throws(DownloadQueueError) {
        if state.isClosing { throw .closed }
        let ids = Set(new.map(\.id))
        for entry in new {
            if state.table[entry.id] != nil { throw .duplicate(entry.id) }
            for dependency in entry.request.dependencies where !ids.contains(dependency) {
                // One that is being enqueued now may not come to be.
                guard let record = state.table[dependency], !record.isNew else {
                    throw .unknownDependency(dependency, of: entry.id)
                }
            }
        }
    }

    /// Writes the rows, and waits for that. Until then the entries are not visible.
    private func insert(_ new: [New]) throws(DownloadQueueError) -> [QueueTable.Record] {
        let receipt = WriteReceipt()
        let records = try state.withLock { state throws(DownloadQueueError) -> [QueueTable.Record] in
            try check(new, state)
            let (first, now) = (state.table.takeSequence(new.count), Self.now)
            let records = new.enumerated().map { index, entry in
                var status = QueueStatus(changed: now)
                status.priority = Int64(entry.request.priority.rawValue)
                let row = QueueRow(
                    id: entry.id, sequence: first + Int64(index), request: entry.stored,
                    dependencies: entry.request.dependencies, policy: entry.request.failedDependencyPolicy,
                    tag: entry.request.tag, enqueued: now, status: status)
                return QueueTable.Record(row: row, isNew: true)
            }
            state.table.insert(records)
            for entry in new where !entry.secrets.isEmpty { state.secrets[entry.id] = entry.secrets }
            writer.submit(records.map { .insert($0.row) }, isKept: false) { receipt.note($0) }
            return records
        }
        do throws(DownloadQueueError) {
            try receipt.wait()
            return records
        } catch {
            update { state in
                for record in records {
                    state.table.remove(record.row.id)
                    state.secrets[record.row.id] = nil
                }
            }
            throw error
        }
    }
}

extension StoredRequest {
    mutating func setBody(_ body: StoredBody?) {
        guard case .send(var sending) = work else { return }
        sending.body = body
        work = .send(sending)
    }
}
