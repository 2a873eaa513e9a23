import ConvoyOperations
import ConvoySupport
import Foundation

/// What users do with entries.
extension QueueCore {
    // MARK: Pausing

    /// Starts what can start. Nothing runs before.
    func start() {
        update { state in
            state.isStarted = true
            state.candidates.formUnion(state.operations.keys)
        }
    }

    /// Pauses or resumes the whole queue.
    func setPaused(_ isPaused: Bool) {
        let ids = update { state -> [UUID] in
            guard !state.isClosing, state.isPaused != isPaused else { return [] }
            state.isPaused = isPaused
            state.pauses += 1
            writer.submit([.setPaused(isPaused)])
            if !isPaused { state.candidates.formUnion(state.operations.keys) }
            return Array(state.operations.keys)
        }
        for id in ids { applyPauses(id) }
    }

    /// Pauses or resumes an entry, by its operation.
    func setPaused(_ isPaused: Bool, _ id: UUID, by operation: any QueuedOperation) {
        let isCurrent = state.withLock { $0.operations[id] === operation }
        if isCurrent { try? setPaused(isPaused, id) }
    }

    /// Pauses or resumes an entry.
    func setPaused(_ isPaused: Bool, _ id: UUID) throws(DownloadQueueError) {
        let error = update { state -> DownloadQueueError? in
            if state.isClosing { return .closed }
            guard let record = state.table[id], !record.isNew else { return .unknownEntry(id) }
            guard !record.phase.isOver else { return nil }
            state.pauses += 1
            state.candidates.insert(id)
            guard record.row.status.isPaused != isPaused else { return nil }
            state.table.change(id) { $0.row.status.isPaused = isPaused }
            store(id, state)
            return nil
        }
        if let error { throw error }
        applyPauses(id)
    }

    /// Makes an operation paused if it should be, or not. Several threads may do that at once: the last one looks again
    /// whether that is still what should be.
    func applyPauses(_ id: UUID) {
        while true {
            let wanted = state.withLock { state -> (any QueuedOperation, Bool, UInt64)? in
                guard !state.isClosing, let operation = state.operations[id], let record = state.table[id] else {
                    return nil
                }
                return (operation, state.isPaused || record.row.status.isPaused, state.pauses)
            }
            guard let (operation, isPaused, number) = wanted else { return }
            if isPaused { operation.pauseNow() } else { operation.resumeNow() }
            if state.withLock({ $0.pauses == number }) { return }
        }
    }

    // MARK: Cancelling

    /// Cancels an entry, which is gone when this returns.
    func cancel(_ id: UUID) throws(DownloadQueueError) {
        let operation = state.withLock { $0.operations[id] }
        if let operation {
            operation.cancel()
            // It has ended meanwhile, or another one has taken its place.
            guard state.withLock({ $0.table[id] != nil }) else { return }
        }
        let (row, orphan, isHeld, error) = update {
            state -> (QueueRow?, (any QueuedOperation)?, Bool, DownloadQueueError?) in
            if state.isClosing { return (nil, nil, false, .closed) }
            guard let record = state.table[id], !record.isNew else {
                return (nil, nil, false, operation == nil ? .unknownEntry(id) : nil)
            }
            let orphan = state.operations[id]
            if let orphan { state.leftovers[ObjectIdentifier(orphan)] = record.row }
            remove(record, &state)
            return (record.row, orphan, !record.isStarted, nil)
        }
        if let error { throw error }
        if let orphan {
            orphan.cancel()
            if isHeld { enqueue(orphan) }
        } else if let row {
            removeFiles(of: row)
        }
    }

    /// An operation is being cancelled; `cancelNow` does it.
    func cancel(_ id: UUID, by operation: any QueuedOperation, cancelNow: () -> Void) {
        // If there is a reason, it was not the user, and the operation fails.
        guard !operation.isFinished, operation.cancellationReason == nil else { return cancelNow() }
        let isHeld = update { state -> Bool in
            guard !state.isClosing, state.operations[id] === operation, let record = state.table[id] else { return false }
            remove(record, &state)
            state.leftovers[ObjectIdentifier(operation)] = record.row
            return !record.isStarted
        }
        cancelNow()
        if isHeld { enqueue(operation) }
    }

    private func remove(_ record: QueueTable.Record, _ state: inout State) {
        let id = record.row.id
        tell(record, .cancelled, state)
        state.candidates.formUnion(state.table.remove(id))
        (state.operations[id], state.secrets[id]) = (nil, nil)
        writer.submit([.remove(id)])
    }

    /// Removes the files of an entry that has no operation.
    private func removeFiles(of row: QueueRow) {
        // When it is stored that the entry is gone.
        writer.submit([]) { [self] _ in
            BlockingWorkers.shared.perform { [self] in
                if let body = row.request.body { bodies.remove([body]) }
                guard case .download(let download) = row.request.work, row.status.phase != .finished else { return }
                removePartialFile(download, of: row.request.url, row.status.file?.url)
            }
        }
    }

    /// Removes the entries that have finished.
    func removeFinished() {
        update { state in
            for record in state.table.ordered where record.phase == .finished && !record.isNew {
                state.table.remove(record.row.id)
                writer.submit([.removeFinished(record.row.id)])
            }
        }
    }

    // MARK: Trying again

    /// Tries an entry again that has failed, that may or may not have arrived, or that is blocked.
    func retry(_ id: UUID) throws(DownloadQueueError) {
        let record = state.withLock { state in state.isClosing ? nil : state.table[id] }
        guard let record, !record.isNew else {
            throw state.withLock({ $0.isClosing }) ? .closed : .unknownEntry(id)
        }
        let state = record.state
        if state == .waiting, record.row.status.next != nil { return retryNow(id) }
        guard state == .failed || state == .outcomeUnknown || record.isBlocked else { throw .cannotRetry(id) }
        guard !record.isBlocked else { return forgetFailedDependencies(of: id) }
        let secrets = self.state.withLock { $0.secrets[id] ?? [] }
        let operation = try makeOperation(id, record.row.request, secrets: secrets, priority: record.row.status.priority)
        prepare(operation, record)
        let isCurrent = update { state -> Bool in
            guard let record = state.table[id], record.phase == .failed || record.phase == .unknown,
                state.operations[id] == nil
            else { return false }
            forgetFailedDependencies(of: id, &state)
            state.table.change(id) { record in
                record.row.status.phase = .waiting
                (record.row.status.error, record.row.status.statusCode, record.row.status.file) = (nil, nil, nil)
                // The user knows what that means.
                record.row.status.mayHaveBeenSent = false
                record.row.status.retries = 0
                record.row.status.changed = Self.now
            }
            store(id, state)
            return true
        }
        guard isCurrent else { return endUnstarted(operation) }
        attach([(id, operation)])
    }

    /// Ends the wait for the next attempt.
    private func retryNow(_ id: UUID) {
        endDelay(of: id)
        // A resumed operation waits for nothing but its slot.
        guard let operation = state.withLock({ $0.operations[id] }), operation.state == .ready, operation.retryCount > 0
        else { return }
        operation.pauseNow()
        applyPauses(id)
    }

    private func forgetFailedDependencies(of id: UUID) {
        update { state in
            forgetFailedDependencies(of: id, &state)
            state.candidates.insert(id)
        }
    }

    private func forgetFailedDependencies(of id: UUID, _ state: inout State) {
        let forgotten = state.table.forgetFailedDependencies(of: id)
        if !forgotten.isEmpty { writer.submit([.removeDependencies(of: id, forgotten)]) }
    }

    func setPriority(_ priority: Operation.QueuePriority, _ id: UUID) throws(DownloadQueueError) {
        let (operation, error) = update { state -> ((any QueuedOperation)?, DownloadQueueError?) in
            if state.isClosing { return (nil, .closed) }
            guard let record = state.table[id], !record.isNew else { return (nil, .unknownEntry(id)) }
            let value = Int64(priority.rawValue)
            if record.row.status.priority != value {
                state.table.change(id) { $0.row.status.priority = value }
                store(id, state)
            }
            return (state.operations[id], nil)
        }
        if let error { throw error }
        operation?.queuePriority = priority
    }
}
