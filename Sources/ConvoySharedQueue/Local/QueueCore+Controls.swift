import ConvoyOperations
import ConvoySupport
import Foundation

/// Pausing, cancelling and retrying entries.
extension QueueCore {
    // MARK: Pausing

    /// Starts entries that are ready. No entry runs before this call.
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

    /// Pauses or resumes the entry of an operation.
    func setPaused(_ isPaused: Bool, _ id: UUID, by operation: any QueuedOperation) {
        let isCurrent = state.withLock { $0.operations[id] === operation }
        if isCurrent { try? setPaused(isPaused, id) }
    }

    /// Pauses or resumes an entry.
    func setPaused(_ isPaused: Bool, _ id: UUID) throws(DownloadQueueError) {
        let error = update { state -> DownloadQueueError? in
            if state.isClosing { return .closed }
            guard let record = state.table[id], !record.isNew else { return .unknownEntry(id) }
            guard !record.isOver else { return nil }
            state.pauses += 1
            state.table.change(id) { $0.standing.apply(isPaused ? .hold : .resume, now: QueueTable.now) }
            return nil
        }
        if let error { throw error }
        applyPauses(id)
    }

    /// Pauses or resumes an operation to match its entry. Several threads may do this concurrently, so each checks the
    /// entry again afterwards.
    func applyPauses(_ id: UUID) {
        while true {
            let wanted = state.withLock { state -> (any QueuedOperation, Bool, UInt64)? in
                guard !state.isClosing, let operation = state.operations[id], let record = state.table[id] else {
                    return nil
                }
                return (operation, state.isPaused || record.standing.state == .paused, state.pauses)
            }
            guard let (operation, isPaused, number) = wanted else { return }
            if isPaused { operation.pauseNow() } else { operation.resumeNow() }
            if state.withLock({ $0.pauses == number }) { return }
        }
    }

    // MARK: Cancelling

    /// Cancels an entry, which no longer exists when this method returns.
    func cancel(_ id: UUID) throws(DownloadQueueError) {
        let operation = state.withLock { $0.operations[id] }
        if let operation {
            operation.cancel()
            // If the entry still exists, the operation has finished in the meantime, or was replaced.
            guard state.withLock({ $0.table[id] != nil }) else { return }
        }
        let (record, orphan, error) = update { state -> (QueueRecord?, (any QueuedOperation)?, DownloadQueueError?) in
            if state.isClosing { return (nil, nil, .closed) }
            guard let record = state.table[id], !record.isNew else {
                return (nil, nil, operation == nil ? .unknownEntry(id) : nil)
            }
            let orphan = state.operations[id]
            if let orphan { state.leftovers[ObjectIdentifier(orphan)] = record }
            remove(record, &state)
            return (record, orphan, nil)
        }
        if let error { throw error }
        if let orphan {
            orphan.cancel()
            if record?.isStarted == false { enqueue(orphan) }
        } else if let record {
            // Wait until the removal of the entry is stored.
            writer.submit([]) { [self] _ in removeFiles(of: record, nil, record.progress.file?.url) }
        }
    }

    /// Removes the entry of an operation that is being cancelled, and calls `cancelNow`, which cancels the operation.
    func cancel(_ id: UUID, by operation: any QueuedOperation, cancelNow: () -> Void) {
        // An operation with a cancellation reason was not cancelled by the user, and counts as failed.
        guard !operation.isFinished, operation.cancellationReason == nil else { return cancelNow() }
        let isHeld = update { state -> Bool in
            guard !state.isClosing, state.operations[id] === operation, let record = state.table[id] else { return false }
            remove(record, &state)
            state.leftovers[ObjectIdentifier(operation)] = record
            return !record.isStarted
        }
        cancelNow()
        if isHeld { enqueue(operation) }
    }

    private func remove(_ record: QueueRecord, _ state: inout State) {
        let id = record.id
        tell(record, .cancelled, state)
        state.table.remove(id)
        (state.operations[id], state.secrets[id]) = (nil, nil)
        writer.submit([.remove(id, isFinished: record.standing.state == .done)])
    }

    /// Removes the files that an entry no longer needs: its body, and what an incomplete request has left.
    func removeFiles(of record: QueueRecord, _ url: URL? = nil, _ file: URL? = nil) {
        BlockingWorkers.shared.perform { [self] in
            if let body = record.request.body { bodies.remove([body]) }
            if record.standing.state != .done { record.request.removeLeftovers(at: url ?? record.request.url, file) }
        }
    }

    /// Removes finished entries.
    func removeFinished() {
        update { state in
            for record in state.table.ordered where record.standing.state == .done && !record.isNew {
                state.table.remove(record.id)
                writer.submit([.remove(record.id, isFinished: true)])
            }
        }
    }

    // MARK: Retrying

    /// Retries an entry that has failed, is blocked, or whose outcome is unknown.
    func retry(_ id: UUID) throws(DownloadQueueError) {
        let record = state.withLock { state in state.isClosing ? nil : state.table[id] }
        guard let record, !record.isNew else {
            throw state.withLock({ $0.isClosing }) ? .closed : .unknownEntry(id)
        }
        if record.state == .waiting, record.nextAttempt != nil { return retryNow(id) }
        guard record.standing.state == .failed || record.isBlocked else { throw .cannotRetry(id) }
        guard !record.isBlocked else { return update { state in forgetFailedDependencies(of: id, &state) } }
        let operation = try makeOperation(record, secrets: state.withLock { $0.secrets[id] ?? [] })
        prepare(operation, record)
        let (isCurrent, unstarted) = update { state -> (Bool, (any QueuedOperation)?) in
            guard state.table[id]?.standing.state == .failed else { return (false, nil) }
            // A dependency has just failed, so the operation has not been finished yet.
            let unstarted = state.operations.removeValue(forKey: id)
            forgetFailedDependencies(of: id, &state)
            state.table.change(id) { $0.retry() }
            return (true, unstarted)
        }
        if let unstarted { endUnstarted(unstarted, because: .dependencyFailed(id)) }
        guard isCurrent else { return endUnstarted(operation) }
        attach([(id, operation)])
    }

    /// Ends the delay before the next attempt.
    private func retryNow(_ id: UUID) {
        endDelay(of: id)
        // Pausing and resuming skips the delay: a resumed operation waits only for a slot.
        guard let operation = state.withLock({ $0.operations[id] }), operation.state == .ready, operation.retryCount > 0
        else { return }
        operation.pauseNow()
        applyPauses(id)
    }

    private func forgetFailedDependencies(of id: UUID, _ state: inout State) {
        let forgotten = state.table.forgetFailedDependencies(of: id)
        if !forgotten.isEmpty { writer.submit([.removeDependencies(of: id, forgotten)]) }
    }

    func setPriority(_ priority: Operation.QueuePriority, _ id: UUID) throws(DownloadQueueError) {
        let (operation, error) = update { state -> ((any QueuedOperation)?, DownloadQueueError?) in
            if state.isClosing { return (nil, .closed) }
            guard let record = state.table[id], !record.isNew else { return (nil, .unknownEntry(id)) }
            if record.priority != priority.rawValue {
                state.table.change(id) { $0.priority = priority.rawValue }
                writer.submit([.setPriority(id, priority.rawValue)])
            }
            return (state.operations[id], nil)
        }
        if let error { throw error }
        operation?.queuePriority = priority
    }
}

/// Adding entries to a queue.
extension QueueCore {
    /// A request ready to be stored.
    private struct PreparedRequest: Sendable {
        var record: QueueRecord
        let secrets: [HeaderLine]
        let body: OutboxRequest.Body?
    }

    /// Stores either all of the requests or none, and creates their operations. Blocks on the disk.
    func enqueue(_ requests: [any DurableRequest]) throws(DownloadQueueError) -> [any QueuedOperation] {
        guard !requests.isEmpty else { return [] }
        var new = try requests.map { request throws(DownloadQueueError) in try prepare(request) }
        try checkOrder(new.map(\.record))
        // Check before anything is written, and again when the requests are inserted.
        try state.withLock { state throws(DownloadQueueError) in try check(new, state) }
        let stored = try bodies.store(new.map(\.body))
        for (index, body) in stored.enumerated() { new[index].record.request.setBody(body) }
        do throws(DownloadQueueError) {
            let made = try new.map { new throws(DownloadQueueError) in
                (id: new.record.id, operation: try makeOperation(new.record, secrets: new.secrets))
            }
            let records = try insert(new)
            for (record, (_, operation)) in zip(records, made) { prepare(operation, record) }
            attach(made)
            return made.map(\.operation)
        } catch {
            bodies.remove(stored.compactMap(\.self))
            throw error
        }
    }

    private func prepare(_ request: any DurableRequest) throws(DownloadQueueError) -> PreparedRequest {
        guard let request = request as? any StorableRequest else {
            throw .unsuitableRequest("Requests of type \(type(of: request)) are not supported.")
        }
        let (stored, secrets) = try StoredRequest.storing(request, classifier: manager.connectionConfiguration.secrets)
        var record = QueueRecord(
            id: request.id, request: stored, dependencies: request.dependencies, policy: request.failedDependencyPolicy,
            tag: request.tag, priority: request.priority.rawValue, enqueued: QueueTable.now)
        record.isNew = true
        return PreparedRequest(record: record, secrets: secrets, body: request.body)
    }

    /// Throws an error if requests enqueued together depend on each other in a cycle. (An existing entry cannot depend
    /// on a later one.)
    private func checkOrder(_ new: [QueueRecord]) throws(DownloadQueueError) {
        var seen: Set<UUID> = []
        for record in new where !seen.insert(record.id).inserted { throw .duplicate(record.id) }
        do throws(SharedQueueError) {
            _ = try WorkStore.order(new.map { ($0.id, $0.dependencies) })
        } catch {
            guard case .dependencyCycle(let id) = error else { throw .unsuitableRequest(error.description) }
            throw .dependencyCycle(id)
        }
    }

    private func check(_ new: [PreparedRequest], _ state: borrowing State) throws(DownloadQueueError) {
        if state.isClosing { throw .closed }
        let ids = Set(new.map(\.record.id))
        for entry in new.map(\.record) {
            if state.table[entry.id] != nil || state.unreadable.contains(entry.id) { throw .duplicate(entry.id) }
            for dependency in entry.dependencies where !ids.contains(dependency) {
                // Storing an entry that is being enqueued may still fail.
                guard let record = state.table[dependency], !record.isNew else {
                    throw .unknownDependency(dependency, of: entry.id)
                }
            }
        }
    }

    /// Writes the entries, and waits for the disk. The entries are not visible until then.
    private func insert(_ new: [PreparedRequest]) throws(DownloadQueueError) -> [QueueRecord] {
        let receipt = WriteReceipt(), ids = new.map(\.record.id)
        let records = try state.withLock { state throws(DownloadQueueError) -> [QueueRecord] in
            try check(new, state)
            state.table.insert(new.map(\.record))
            let records = state.table.takeNew(ids)
            for entry in new where !entry.secrets.isEmpty { state.secrets[entry.record.id] = entry.secrets }
            writer.submit([.insert(records)], isKept: false) { receipt.note($0) }
            return records
        }
        do throws(DownloadQueueError) {
            try receipt.wait()
            return records
        } catch {
            update { state in
                for id in ids {
                    state.table.remove(id)
                    state.secrets[id] = nil
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
