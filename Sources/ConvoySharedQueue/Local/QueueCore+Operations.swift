import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Handling the start, progress and completion of operations.
extension QueueCore {
    // MARK: Starting

    /// Handles the start of an operation. Calls `begin` once the database records that the request may have been sent.
    /// A start after a pause or a delay continues immediately.
    func operationWillStart(_ operation: any QueuedOperation, _ id: UUID, begin: @escaping @Sendable () -> Void) {
        let (retries, key) = (operation.retryCount, ObjectIdentifier(operation))
        let isOver = operation.isCancelled || operation.isFinished
        let (answer, mayHaveBeenSent) = update { state -> (Answer, Bool) in
            if let known = state.running[key] {
                // An earlier start is still being stored. The operation continues when that change is on the disk.
                guard known.isStored else { return (.waits, true) }
                state.running[key]?.retries = retries
                return (beginAgain(operation, id, counting: retries - known.retries, &state), false)
            }
            // A cancelled operation only has to finish. (If it is paused now, it may be resumed before it begins.)
            if isOver { return (.begins, true) }
            guard !state.isClosing, state.operations[id] === operation, let record = state.table[id] else {
                return (.isTooLate, true)
            }
            state.running[key] = RunningEntry(operation: operation, retries: retries)
            state.table.change(id) { record in
                record.begin(Self.worker, attempts: 1)
                record.standing.error = nil
                record.standing.statusCode = nil
            }
            return (.stores, record.standing.hasBegun)
        }
        switch answer {
        case .begins: begin()
        case .stores: storeBeginning(of: operation, id, mayHaveBeenSent, begin)
        case .waits: break
        case .isTooLate:
            operation.fail(with: DownloadQueueError.closed)
            begin()
        }
    }

    private enum Answer: Sendable { case begins, stores, waits, isTooLate }

    /// Handles another start of an operation, after a pause or a delay. The database must record that the request may have
    /// been sent before the operation continues.
    private func beginAgain(
        _ operation: any QueuedOperation, _ id: UUID, counting retries: Int, _ state: inout State
    ) -> Answer {
        guard let record = state.table[id], state.operations[id] === operation else { return .begins }
        let old = record.standing
        guard retries > 0 || old.state != .leased || old.due > 0 else { return .begins }
        state.table.change(id) { $0.begin(Self.worker, attempts: retries) }
        if old.hasBegun { return .begins }
        state.running[ObjectIdentifier(operation)]?.isStored = false
        return .stores
    }

    /// Calls `begin` once the changes so far, including the start of the operation, are on the disk.
    private func storeBeginning(
        of operation: any QueuedOperation, _ id: UUID, _ mayHaveBeenSent: Bool, _ begin: @escaping @Sendable () -> Void
    ) {
        writer.submit([]) { [self] error in
            events.async { [self] in
                if let error { failStart(of: operation, id, error, mayHaveBeenSent) }
                self.state.withLock { $0.running[ObjectIdentifier(operation)]?.isStored = true }
                begin()
            }
        }
    }

    private func failStart(
        of operation: any QueuedOperation, _ id: UUID, _ error: DownloadQueueError, _ mayHaveBeenSent: Bool
    ) {
        operation.fail(with: error)
        state.withLock { state in
            guard state.operations[id] === operation else { return }
            state.table.change(id) { $0.standing.hasBegun = mayHaveBeenSent }
        }
    }

    /// Handles a failed attempt that will be retried after a delay, by this process or the next one. In the meantime, the
    /// operation keeps its lease.
    func operation(_ operation: any QueuedOperation, _ id: UUID, willRetry event: RetryEvent, countedRetries: Int) {
        guard case .retry(let delay) = event.decision else { return }
        let secrets = operation.connectionConfiguration.secrets
        let (text, statusCode): (String?, Int?) =
            switch event.reason {
            case .error(let error): (String(Redaction.text("\(error)", secrets).prefix(1000)), nil)
            case .status(let code): ("The server responded with status \(code).", code)
            case .closedGate: (nil, nil)
            }
        let bytes = operation.bytes
        let now = QueueTable.now
        update { state in
            guard state.operations[id] === operation, state.running[ObjectIdentifier(operation)] != nil else { return }
            state.table.change(id) { record in
                record.standing.due = now + Int64(min(max(0, delay), 1e9) * 1e6)
                record.standing.error = text
                record.standing.statusCode = statusCode
                record.standing.changed = now
                // The policy allows sending the request again only because none of it was sent.
                if !record.request.sendsAgain { record.standing.hasBegun = false }
                record.progress.retries = Int64(countedRetries)
                (record.progress.received, record.progress.expected) = bytes
            }
        }
    }

    // MARK: State changes

    /// Handles a change in the operation's state; `proceed` continues the operation.
    func operation(
        _ operation: any QueuedOperation, _ id: UUID, changes transition: AtomicLifecycle.Transition,
        proceed: @escaping @Sendable () -> Void
    ) {
        if transition.action == .finish { return end(operation, id, proceed) }
        if transition.new.state != transition.old.state, let number = transition.number {
            let isExecuting = transition.new.state == .executing
            let bytes = isExecuting ? nil : operation.bytes
            update { state in
                guard state.operations[id] === operation, let record = state.table[id] else { return }
                // Threads may report changes in a different order from that in which the changes were made.
                if let last = record.changeNumber, Int32(bitPattern: number &- last) <= 0 { return }
                state.table.change(id) { record in
                    // An operation that has not begun knows nothing of the bytes of an earlier process.
                    if let bytes, record.isExecuting { (record.progress.received, record.progress.expected) = bytes }
                    record.isExecuting = isExecuting
                    record.changeNumber = number
                }
            }
        }
        proceed()
    }

    /// Records a complete file that is about to be renamed to its final name, so that the next process can recognize
    /// it. Blocks.
    func downloadWillCommit(
        _ operation: any QueuedOperation, _ id: UUID, partialFile: String, as place: URL
    ) throws(DownloadQueueError) {
        let file = FinishedFile(partialFile, as: place)
        let isCurrent = update { state in
            guard state.operations[id] === operation, state.table[id]?.isOver == false else { return false }
            state.table.change(id) { $0.progress.file = file }
            return true
        }
        // Do not commit the file if the operation was cancelled, or the queue no longer exists.
        guard isCurrent else { throw .closed }
        let receipt = WriteReceipt()
        writer.submit([]) { receipt.note($0) }
        try receipt.wait()
    }

    // MARK: Completion

    /// The result of an operation.
    private struct OperationOutcome: Sendable {
        var error: (any Error)?
        /// Whether the operation was cancelled because the queue is closing.
        var isInterrupted: Bool
        var statusCode: Int?
        var bytes: (done: Int64, expected: Int64?)
        var file: URL?
        var retries: Int
        var errorText: String?
        /// Whether it is unknown if the request has arrived.
        var isUnknown: Bool
    }

    /// Handles the completion of an operation. The completion is reported only after the outcome is stored, so that
    /// nothing depends on a result that the next process would produce again.
    private func end(_ operation: any QueuedOperation, _ id: UUID, _ proceed: @escaping @Sendable () -> Void) {
        let (outcome, key) = (outcome(of: operation), ObjectIdentifier(operation))
        let (isCurrent, dependents) = update { state -> (Bool, Set<UUID>) in
            guard state.operations[id] === operation, let record = state.table[id] else { return (false, []) }
            let running = state.running[key]
            state.operations[id] = nil
            state.endingCount += 1
            // Include the retry that the operation is waiting for, although it has not begun.
            let countedRetries = (running?.retries ?? 0) + (record.nextAttempt == nil ? 0 : 1)
            state.table.change(id) { record in
                record.isExecuting = false
                record.isStarted = false
                if running != nil { record.standing.attempts += max(0, outcome.retries - countedRetries) }
                apply(outcome, to: &record, hasBegun: running != nil)
            }
            if state.table[id]?.standing.state == .done { state.secrets[id] = nil }
            // Dependents start after the operation has reported its completion.
            return (true, state.table.takeTouched())
        }
        // The completion of an empty change is called after all earlier changes are written.
        writer.submit([]) { [self] error in
            events.async { [self] in
                proceed()
                didEnd(operation, id, dependents, wasCurrent: isCurrent, isStored: error == nil)
            }
        }
    }

    private func apply(_ outcome: OperationOutcome, to record: inout QueueRecord, hasBegun: Bool) {
        if hasBegun { (record.progress.received, record.progress.expected) = outcome.bytes }
        if outcome.isInterrupted { return record.takeBack() }
        record.end(
            outcome.error == nil ? .succeeded : .failed, Self.worker, error: outcome.errorText,
            statusCode: outcome.statusCode)
        record.standing.hasBegun = outcome.error != nil && outcome.isUnknown && hasBegun
        if outcome.error == nil, let file = outcome.file { record.progress.file = FinishedFile(file.path, as: file) }
    }

    private func didEnd(
        _ operation: any QueuedOperation, _ id: UUID, _ dependents: Set<UUID>, wasCurrent: Bool, isStored: Bool
    ) {
        operation.link.cut()
        let key = ObjectIdentifier(operation)
        let (finished, leftover) = update { state in
            state.running[key] = nil
            if wasCurrent { state.endingCount -= 1 }
            state.candidates.formUnion(dependents)
            let record = wasCurrent ? state.table[id] : nil
            return (
                record?.standing.state == .done ? record : nil, state.leftovers.removeValue(forKey: key)
            )
        }
        if isStored, let finished { removeFiles(of: finished) }
        if let leftover {
            let (url, file) = (operation.request.url, operation.finishedFile)
            operation.whenDelivered { [self] in removeFiles(of: leftover, url, file) }
        }
        closeIfEnded()
    }

    private func outcome(of operation: any QueuedOperation) -> OperationOutcome {
        let error = operation.error
        let secrets = operation.connectionConfiguration.secrets
        // The operation was stopped by closing the queue, or was too late to begin or to rename its file.
        let isInterrupted = (operation.isCancelled ? operation.cancellationReason : error) as? DownloadQueueError == .closed
        return OperationOutcome(
            error: error, isInterrupted: isInterrupted, statusCode: operation.statusCode, bytes: operation.bytes,
            file: operation.finishedFile, retries: operation.retryCount,
            errorText: error.map { String(Redaction.text("\($0)", secrets).prefix(1000)) },
            isUnknown: operation.mayHaveArrived)
    }
}
