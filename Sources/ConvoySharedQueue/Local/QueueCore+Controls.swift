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

    /// Pauses or resumes an operation to match its entry. Several threads may do this concurrently, so each checks the
    /// entry again afterwards.
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

    /// Cancels an entry, which no longer exists when this method returns.
    func cancel(_ id: UUID) throws(DownloadQueueError) {
        let operation = state.withLock { $0.operations[id] }
        if let operation {
            operation.cancel()
            // If the entry still exists, the operation has finished in the meantime, or was replaced.
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

    /// Removes the entry of an operation that is being cancelled, and calls `cancelNow`, which cancels the operation.
    func cancel(_ id: UUID, by operation: any QueuedOperation, cancelNow: () -> Void) {
        // An operation with a cancellation reason was not cancelled by the user, and counts as failed.
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

    /// Removes the files of an entry without an operation.
    private func removeFiles(of row: QueueRow) {
        // Wait until the removal of the entry is stored.
        writer.submit([]) { [self] _ in
            BlockingWorkers.shared.perform { [self] in
                if let body = row.request.body { bodies.remove([body]) }
                guard row.status.phase != .finished else { return }
                row.request.removeLeftovers(at: row.request.url, row.status.file?.url)
            }
        }
    }

    /// Removes finished entries.
    func removeFinished() {
        update { state in
            for record in state.table.ordered where record.phase == .finished && !record.isNew {
                state.table.remove(record.row.id)
                writer.submit([.removeFinished(record.row.id)])
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
                // By retrying, the user accepts that the request may be sent twice.
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

    /// Ends the delay before the next attempt.
    private func retryNow(_ id: UUID) {
        endDelay(of: id)
        // Pausing and resuming skips the delay: a resumed operation waits only for a slot.
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

/// Adding entries to a queue.
extension QueueCore {
    /// A request ready to be stored.
    private struct PreparedRequest: Sendable {
        let id: UUID
        var stored: StoredRequest
        let secrets: [HeaderLine]
        let request: any StorableRequest
    }

    /// Stores either all of the requests or none, and creates their operations. Blocks on the disk.
    func enqueue(_ requests: [any DurableRequest]) throws(DownloadQueueError) -> [any QueuedOperation] {
        guard !requests.isEmpty else { return [] }
        var new = try requests.map { request throws(DownloadQueueError) in try prepare(request) }
        try checkOrder(new)
        // Check before anything is written, and again when the requests are inserted.
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

    private func prepare(_ request: any DurableRequest) throws(DownloadQueueError) -> PreparedRequest {
        guard let request = request as? any StorableRequest else {
            throw .unsuitableRequest(
                "Requests of type \(type(of: request)) are not supported.")
        }
        let (stored, secrets) = try StoredRequest.storing(request, classifier: manager.connectionConfiguration.secrets)
        return PreparedRequest(id: request.id, stored: stored, secrets: secrets, request: request)
    }

    /// Throws an error if requests enqueued together depend on each other in a cycle. (An existing entry cannot depend
    /// on a later one.)
    private func checkOrder(_ new: [PreparedRequest]) throws(DownloadQueueError) {
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

    private func check(_ new: [PreparedRequest], _ state: borrowing State) throws(DownloadQueueError) {
        if state.isClosing { throw .closed }
        let ids = Set(new.map(\.id))
        for entry in new {
            if state.table[entry.id] != nil { throw .duplicate(entry.id) }
            for dependency in entry.request.dependencies where !ids.contains(dependency) {
                // Storing an entry that is being enqueued may still fail.
                guard let record = state.table[dependency], !record.isNew else {
                    throw .unknownDependency(dependency, of: entry.id)
                }
            }
        }
    }

    /// Writes the rows, and waits for the disk. The entries are not visible until then.
    private func insert(_ new: [PreparedRequest]) throws(DownloadQueueError) -> [QueueTable.Record] {
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
