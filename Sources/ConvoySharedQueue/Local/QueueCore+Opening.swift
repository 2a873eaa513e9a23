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
        let store: QueueStore, unmoved: [UUID?], found: (readable: [QueueRecord], unreadable: [UUID?]), isPaused: Bool
        do throws(DatabaseError) {
            store = try QueueStore(path: "\(path)/queue.sqlite")
        } catch {
            throw DownloadQueueError(error)
        }
        unmoved = try store.moveEarlierEntries()
        do throws(DatabaseError) {
            found = try store.records()
            isPaused = try store.isPaused()
        } catch {
            throw DownloadQueueError(error)
        }
        var state = State()
        state.isPaused = isPaused
        state.unreadable = unmoved + found.unreadable
        state.table.insert(found.readable)
        // Take back at once what the earlier process had leased.
        for record in found.readable { state.table.change(record.id) { $0.comeBack(Self.worker, bodies) } }
        // A later version may be able to read the entries of all bodies.
        if state.unreadable.isEmpty {
            bodies.removeAll(but: state.table.ordered.filter { $0.standing.state != .done }.compactMap(\.request.body))
        }
        let core = QueueCore(
            directory: directory, manager: manager, operationQueue: operationQueue, retryPolicy: retryPolicy,
            configure: configure, lock: lock, writer: QueueWriter(store), bodies: bodies, state: state)
        core.restoreOperations(found.readable.map(\.id))
        return core
    }

    private func restoreOperations(_ ids: [UUID]) {
        var made: [(id: UUID, operation: any QueuedOperation)] = []
        let records = state.withLock { state in ids.compactMap { state.table[$0] } }
        for record in records where !record.isOver {
            do throws(DownloadQueueError) {
                let operation = try makeOperation(record, secrets: [])
                prepare(operation, record)
                made.append((record.id, operation))
            } catch {
                update { state in
                    state.table.change(record.id) { $0.end(.failed, Self.worker, error: error.description) }
                }
            }
        }
        attach(made)
    }
}

// MARK: - Delays of an earlier process

extension QueueCore {
    /// Schedules restored entries for the time of their next attempt.
    func awaitNextAttempts(of made: [(id: UUID, operation: any QueuedOperation)]) {
        for (id, operation) in made {
            guard let record = state.withLock({ $0.table[id] }), record.isDelayed else { continue }
            // The system clock may have been set back since the delay was stored.
            let wait = min((record.nextAttempt ?? 0) - QueueTable.now, Self.longestWait(of: operation.retryPolicy))
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
            if state.table[id]?.isDelayed == true { state.table.change(id) { $0.endDelay() } }
        }
    }
}
