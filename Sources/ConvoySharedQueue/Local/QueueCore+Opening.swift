import ConvoyDatabase
import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Restoring a queue.
extension QueueCore {
    /// Opens the queue in a directory, and creates the operations of the entries that have not ended. The directory is
    /// created if it does not exist, and must belong to this user. Blocks.
    static func open(
        _ directory: URL, _ manager: HTTPRequestOperationManager, _ operationQueue: OperationQueue?,
        _ retryPolicy: RetryPolicy?, _ configure: @escaping DownloadQueue.Configure
    ) throws(DownloadQueueError) -> QueueCore {
        guard directory.isFileURL else { throw .cannotOpen("\(directory.absoluteString) is not a file URL.") }
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
        // Keep the bodies of unreadable entries, which a later version may be able to read.
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
        // Dependencies of the restored entries may have failed or no longer exist.
        update { state in state.candidates.formUnion(rows.map(\.id)) }
    }
}

// MARK: - Delays of an earlier process

extension QueueCore {
    /// Schedules restored entries for the time of their next attempt.
    func awaitNextAttempts(of made: [(id: UUID, operation: any QueuedOperation)]) {
        for (id, operation) in made {
            guard let record = state.withLock({ $0.table[id] }), record.isDelayed else { continue }
            let now = Self.now
            // The system clock may have been set back since the delay was stored.
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

    /// Returns the longest delay that a policy can specify, in microseconds.
    private static func longestWait(of policy: RetryPolicy?) -> Int64 {
        let policy = policy ?? RetryPolicy()
        let seconds = max(policy.maximumDelay, policy.maximumRetryAfter + 1)
        return seconds < 1e9 ? Int64(max(0, seconds) * 1e6) : .max
    }

    /// Ends the delay of a restored entry, because its next attempt is due or requested earlier.
    func endDelay(of id: UUID) {
        update { state in
            guard state.table[id]?.isDelayed == true else { return }
            state.table.change(id) { $0.isDelayed = false }
            state.candidates.insert(id)
        }
    }
}

extension QueueRow {
    /// Determines the phase of an entry restored from an earlier process.
    mutating func comeBack(_ bodies: BodyFolder) {
        switch status.phase {
        case .finished, .failed, .unknown:
            status.next = nil
            return
        case .finishing where status.file?.isThere == true:
            // The process ended after the file had been moved to its destination, but before the queue recorded the
            // move.
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
