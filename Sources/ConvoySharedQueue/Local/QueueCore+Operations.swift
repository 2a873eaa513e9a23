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
        enum Answer: Sendable { case begins, waits, isTooLate }
        let (retries, key) = (operation.retryCount, ObjectIdentifier(operation))
        let isOver = operation.isCancelled || operation.isFinished
        let answer = update { state -> Answer in
            if let known = state.running[key] {
                // An earlier start is still being stored. The operation continues when that change is on the disk.
                guard known.isStored else { return .waits }
                state.running[key]?.retries = retries
                return beginAgain(operation, id, counting: retries - known.retries, &state, begin) ? .begins : .waits
            }
            // A cancelled operation only has to finish. (If it is paused now, it may be resumed before it begins.)
            if isOver { return .begins }
            guard !state.isClosing, state.operations[id] === operation, let record = state.table[id] else {
                return .isTooLate
            }
            state.running[key] = RunningEntry(operation: operation, retries: retries)
            let mayHaveBeenSent = record.row.status.mayHaveBeenSent
            state.table.change(id) { record in
                record.row.status.phase = .running
                record.row.status.mayHaveBeenSent = true
                record.row.status.attempts += 1
                record.row.status.next = nil
                (record.row.status.error, record.row.status.statusCode) = (nil, nil)
                record.row.status.changed = Self.now
            }
            storeBeginning(of: operation, id, state, mayHaveBeenSent, begin)
            return .waits
        }
        switch answer {
        case .begins: begin()
        case .waits: break
        case .isTooLate:
            operation.fail(with: DownloadQueueError.closed)
            begin()
        }
    }

    /// Handles another start of an operation, after a pause or a delay. If the database does not yet record that the
    /// request may have been sent, returns false, and calls `begin` once it does.
    private func beginAgain(
        _ operation: any QueuedOperation, _ id: UUID, counting retries: Int, _ state: inout State,
        _ begin: @escaping @Sendable () -> Void
    ) -> Bool {
        guard let record = state.table[id], state.operations[id] === operation else { return true }
        let old = record.row.status
        guard retries > 0 || old.phase == .waiting else { return true }
        state.table.change(id) { record in
            record.row.status.attempts += Int64(max(0, retries))
            (record.row.status.phase, record.row.status.next) = (.running, nil)
            record.row.status.mayHaveBeenSent = true
        }
        if old.mayHaveBeenSent {
            store(id, state)
            return true
        }
        state.running[ObjectIdentifier(operation)]?.isStored = false
        storeBeginning(of: operation, id, state, false, begin)
        return false
    }

    /// Stores that an operation begins, and calls `begin` once this is on the disk.
    private func storeBeginning(
        of operation: any QueuedOperation, _ id: UUID, _ state: State, _ mayHaveBeenSent: Bool,
        _ begin: @escaping @Sendable () -> Void
    ) {
        store(id, state, isKept: false) { [self] error in
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
            state.table.change(id) { $0.row.status.mayHaveBeenSent = mayHaveBeenSent }
        }
    }

    /// Handles a failed attempt that will be retried after a delay, by this process or the next one.
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
        let next = Self.now + Int64(min(max(0, delay), 1e9) * 1e6)
        update { state in
            guard state.operations[id] === operation, state.table[id]?.phase == .running else { return }
            state.table.change(id) { record in
                (record.row.status.phase, record.row.status.next) = (.waiting, next)
                record.row.status.retries = Int64(countedRetries)
                (record.row.status.error, record.row.status.statusCode) = (text, statusCode.map(Int64.init))
                (record.row.status.bytesReceived, record.row.status.bytesExpected) = bytes
                record.row.status.changed = Self.now
                // The policy allows sending the request again only because none of it was sent.
                if !record.row.request.sendsAgain { record.row.status.mayHaveBeenSent = false }
            }
            store(id, state)
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
                    (record.isExecuting, record.changeNumber) = (isExecuting, number)
                    if let bytes { (record.row.status.bytesReceived, record.row.status.bytesExpected) = bytes }
                }
                if bytes != nil, record.isExecuting { store(id, state) }
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
        let receipt = WriteReceipt()
        let isCurrent = update { state in
            guard state.operations[id] === operation, state.table[id]?.phase.isOver == false else { return false }
            state.table.change(id) { ($0.row.status.phase, $0.row.status.file) = (.finishing, file) }
            store(id, state, isKept: false) { receipt.note($0) }
            return true
        }
        // Do not commit the file if the operation was cancelled, or the queue no longer exists.
        guard isCurrent else { throw .closed }
        try receipt.wait()
    }

    // MARK: Completion

    /// The result of an operation.
    private struct Outcome: Sendable {
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
        // Dependents start after the operation has reported its completion.
        let (isCurrent, dependents) = update { state -> (Bool, Set<UUID>) in
            let hasBegun = state.running[key] != nil
            guard state.operations[id] === operation, state.table[id] != nil else { return (false, []) }
            state.operations[id] = nil
            state.endingCount += 1
            // Include the retry that the operation is waiting for, although it has not begun.
            let countedRetries = (state.running[key]?.retries ?? 0) + (state.table[id]?.row.status.next == nil ? 0 : 1)
            let dependents = state.table.change(id) { record in
                (record.isExecuting, record.isStarted) = (false, false)
                apply(outcome, to: &record.row, hasBegun: hasBegun)
                record.row.status.attempts += Int64(max(0, hasBegun ? outcome.retries - countedRetries : 0))
            }
            if state.table[id]?.phase == .finished { state.secrets[id] = nil }
            if hasBegun || !outcome.isInterrupted { store(id, state) }
            return (true, dependents)
        }
        // The completion of an empty change is called after all earlier changes are written.
        writer.submit([]) { [self] error in
            events.async { [self] in
                proceed()
                didEnd(operation, id, dependents, wasCurrent: isCurrent, isStored: error == nil)
            }
        }
    }

    private func apply(_ outcome: Outcome, to row: inout QueueRow, hasBegun: Bool) {
        (row.status.bytesReceived, row.status.bytesExpected) = outcome.bytes
        row.status.changed = Self.now
        if outcome.isInterrupted, row.status.next != nil { return }
        row.status.next = nil
        if outcome.isInterrupted {
            // In the phase `finishing`, the next process checks whether the file is at its destination.
            if row.status.phase == .running { row.status.phase = .waiting }
            return
        }
        row.status.retries = 0
        row.status.statusCode = outcome.statusCode.map(Int64.init)
        row.status.error = outcome.errorText
        if outcome.error == nil {
            row.status.phase = .finished
            row.status.mayHaveBeenSent = false
            if let file = outcome.file { row.status.file = FinishedFile(file.path, as: file) }
        } else if outcome.isUnknown, hasBegun, !row.request.sendsAgain {
            row.status.phase = .unknown
        } else {
            row.status.phase = .failed
        }
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
            return (record?.phase == .finished ? record?.row : nil, state.leftovers.removeValue(forKey: key))
        }
        if isStored, let body = finished?.request.body { tidy { self.bodies.remove([body]) } }
        if let leftover { removeLeftovers(of: leftover, operation) }
        closeIfEnded()
    }

    private func outcome(of operation: any QueuedOperation) -> Outcome {
        let error = operation.error
        let secrets = operation.connectionConfiguration.secrets
        // The operation was stopped by closing the queue, or was too late to begin or to rename its file.
        let isInterrupted = (operation.isCancelled ? operation.cancellationReason : error) as? DownloadQueueError == .closed
        return Outcome(
            error: error, isInterrupted: isInterrupted, statusCode: operation.statusCode, bytes: operation.bytes,
            file: operation.finishedFile, retries: operation.retryCount,
            errorText: error.map { String(Redaction.text("\($0)", secrets).prefix(1000)) },
            isUnknown: operation.mayHaveArrived)
    }

    // MARK: Cleaning up

    private func tidy(_ work: @escaping @Sendable () -> Void) { BlockingWorkers.shared.perform(work) }

    /// Removes the files of a cancelled entry.
    private func removeLeftovers(of row: QueueRow, _ operation: any QueuedOperation) {
        let (url, file) = (operation.request.url, operation.finishedFile)
        operation.whenDelivered { [self] in
            tidy { [self] in
                if let body = row.request.body { bodies.remove([body]) }
                row.request.removeLeftovers(at: url ?? row.request.url, file)
            }
        }
    }
}
