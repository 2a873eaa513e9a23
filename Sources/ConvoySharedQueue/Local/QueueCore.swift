import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The implementation of `DownloadQueue`. It is a separate object that running operations retain, so that the queue can
/// be released before they finish.
///
/// All decisions are made under one lock, by the table, and take effect after the lock has been released. Changes are
/// submitted to the writer under the lock, so that they are written in the order in which they were made.
final class QueueCore: Sendable {
    struct State: Sendable {
        var table = QueueTable()
        /// The operations of entries that have not ended.
        var operations: [UUID: any QueuedOperation] = [:]
        /// The operations that have begun but not finished.
        var running: [ObjectIdentifier: RunningEntry] = [:]
        /// The number of operations that have finished but not yet reported their completion.
        var endingCount = 0
        /// The entries to clean up when their cancelled operations have finished.
        var leftovers: [ObjectIdentifier: QueueRecord] = [:]
        /// The unreadable entries.
        var unreadable: [UUID?] = []
        /// The secret header lines, kept in memory only.
        var secrets: [UUID: [HeaderLine]] = [:]
        /// The entries whose next step must be determined again.
        var candidates: Set<UUID> = []
        var isStarted = false
        var isPaused = false
        var isClosing = false
        /// Whether the last operation has finished while closing, and the files are being closed.
        var hasEnded = false
        var isClosed = false
        /// A number that increases with each pause or resumption.
        var pauses: UInt64 = 0
        var listeners: [UUID: AsyncStream<DownloadQueue.Entry>.Continuation] = [:]
        var waiters: [UUID: Waiter] = [:]
        var closeWaiters: [@Sendable () -> Void] = []
    }

    /// An operation that has begun.
    struct RunningEntry: Sendable {
        let operation: any QueuedOperation
        /// The number of retries counted so far.
        var retries: Int
        /// Whether the start has been stored, so that the operation may continue.
        var isStored = false
    }

    typealias Waiter = @Sendable (Result<Void, any Error>) -> Void

    let state: Locked<State>
    let directory: URL
    let manager: HTTPRequestOperationManager
    let operationQueue: OperationQueue?
    let retryPolicy: RetryPolicy?
    let configure: DownloadQueue.Configure
    let writer: QueueWriter
    let bodies: BodyFolder
    private let lock: QueueLock
    /// The queue on which operations continue when their changes have been written, in the order of the changes.
    let events = DispatchQueue(label: "Convoy.DownloadQueue.Events")
    /// The queue on which listeners are called.
    private let reports = DispatchQueue(label: "Convoy.DownloadQueue.Reports")

    init(
        directory: URL, manager: HTTPRequestOperationManager, operationQueue: OperationQueue?,
        retryPolicy: RetryPolicy?, configure: @escaping DownloadQueue.Configure, lock: QueueLock, writer: QueueWriter,
        bodies: BodyFolder,
        state: sending State
    ) {
        self.directory = directory
        self.manager = manager
        self.operationQueue = operationQueue
        self.retryPolicy = retryPolicy
        self.configure = configure
        self.lock = lock
        self.writer = writer
        self.bodies = bodies
        self.state = Locked(state)
    }

    /// The worker that has leased the running entries: this process.
    static let worker = UUID()

    // MARK: Changing

    /// Changes the state, stores the changes, and applies the effects.
    func update<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let (result, starting, waiters) = state.withLock { state in
            let result = body(&state)
            let starting = settle(&state)
            let changes = state.table.takeUnstored()
            if !changes.isEmpty { writer.submit(changes) }
            report(&state)
            var waiters: [Waiter] = []
            if state.table.pendingCount == 0, state.endingCount == 0, !state.waiters.isEmpty {
                waiters = Array(state.waiters.values)
                state.waiters = [:]
            }
            return (result, starting, waiters)
        }
        for waiter in waiters { waiter(.success(())) }
        for operation in starting { enqueue(operation) }
        return result
    }

    /// Determines the next step of the entries that have changed. Returns the operations to start, in order.
    private func settle(_ state: inout State) -> [any QueuedOperation] {
        var starting: [(sequence: Int64, operation: any QueuedOperation)] = []
        let mayStart = state.isStarted && !state.isPaused && !state.isClosing
        for id in state.table.takeTouched().union(state.candidates) {
            guard let record = state.table[id], !record.isNew, !record.isStarted, let operation = state.operations[id]
            else { continue }
            if record.standing.state == .failed {
                // A dependency has failed. The operation will never start, so it must be finished here.
                state.operations[id] = nil
                events.async { self.endUnstarted(operation, because: DownloadQueueError.dependencyFailed(id)) }
            } else if record.standing.state == .ready, mayStart {
                state.table.change(id) { $0.isStarted = true }
                starting.append((record.sequence, operation))
            }
        }
        state.candidates = []
        // Sort by priority, because the first operations may start before the last ones are enqueued.
        return starting.sorted { one, other in
            let (priority, otherPriority) = (one.operation.queuePriority.rawValue, other.operation.queuePriority.rawValue)
            return priority != otherPriority ? priority > otherPriority : one.sequence < other.sequence
        }.map(\.operation)
    }

    private func report(_ state: inout State) {
        let changes = state.table.takeChanges()
        guard !state.listeners.isEmpty else { return }
        for record in changes { tell(record, nil, state) }
    }

    /// Reports the current state of an entry to listeners.
    func tell(_ record: QueueRecord, _ shown: DownloadQueue.State?, _ state: State) {
        guard !state.listeners.isEmpty else { return }
        let (listeners, operation) = (Array(state.listeners.values), state.operations[record.id])
        reports.async {
            let entry = DownloadQueue.Entry(record, operation, shown)
            for listener in listeners { listener.yield(entry) }
        }
    }

    // MARK: Operation queue

    func enqueue(_ operation: any QueuedOperation) {
        operation.enterCompletionGroup()
        (operationQueue ?? manager.operationQueue).addOperation(operation)
    }

    /// Finishes, as cancelled, an operation that was never started.
    func endUnstarted(_ operation: any QueuedOperation, because error: DownloadQueueError? = nil) {
        operation.link.cut()
        if let error { operation.cancel(because: error) } else { operation.cancel() }
        enqueue(operation)
    }

    // MARK: Creating operations

    /// Creates an operation for an entry, with the manager's settings. The link between the operation and the entry is
    /// not connected yet.
    func makeOperation(
        _ record: QueueRecord, secrets: [HeaderLine]
    ) throws(DownloadQueueError) -> any QueuedOperation {
        let (id, stored) = (record.id, record.request)
        var request = try stored.request(with: secrets, manager)
        let operation: any QueuedOperation
        switch stored.work {
        case .download(let download):
            let made = QueuedDownloadOperation(request: request)
            download.apply(to: made)
            made.recordFile()
            operation = made
        case .send(let sending):
            try setBody(sending.body, id, &request)
            let made = QueuedRequestOperation(request: request)
            if !sending.sendsAgain { made.forbidPauses() }
            operation = made
        case .upload(let upload):
            let made = QueuedUploadOperation(request: request, file: upload.file)
            try StoredUploadOptions.apply(upload, to: made)
            operation = made
        }
        manager.adopt(operation)
        // The manager's serializer may expect JSON. A file need not be JSON, and a request has arrived regardless of
        // the content of its response.
        operation.responseSerializer = HTTPResponseSerializer()
        operation.queuePriority = Operation.QueuePriority(rawValue: record.priority) ?? .normal
        operation.name = id.uuidString
        if let retryPolicy { operation.retryPolicy = retryPolicy }
        if record.progress.retries > 0 { operation.countEarlierRetries(Int(Int32(clamping: record.progress.retries))) }
        operation.setSupervisor(operation.link)
        operation.claim()
        return operation
    }

    private func setBody(_ body: StoredBody?, _ id: UUID, _ request: inout URLRequest) throws(DownloadQueueError) {
        guard let body, let url = request.url else { return }
        guard bodies.contains(body) else { throw .bodyMissing(id) }
        let method = HTTPMethod(request.httpMethod ?? "POST")
        let made: URLRequest
        do {
            made = try HTTPRequestSerializer().request(
                method: method, url: url, query: nil, headers: [:], body: .file(bodies.url(of: body)))
        } catch {
            throw .bodyMissing(id)
        }
        request.httpBodyStream = made.httpBodyStream
        request.setValue(String(body.length), forHTTPHeaderField: "Content-Length")
        request.setDefaultContentType()
    }

    /// Configures an operation, and applies the rules for sending it again.
    func prepare(_ operation: any QueuedOperation, _ record: QueueRecord) {
        configure(operation, DownloadQueue.Entry(record, nil, nil))
        record.request.requireWithheld(in: operation) { DownloadQueueError.missingSecrets($0) }
        guard case .send(let sending) = record.request.work, var policy = operation.retryPolicy else { return }
        if sending.sendsAgain {
            policy.idempotentMethods.insert(record.request.method)
        } else {
            policy.idempotentMethods = []
        }
        operation.retryPolicy = policy
    }

    /// Assigns operations to entries, which may start from then on.
    func attach(_ made: [(id: UUID, operation: any QueuedOperation)]) {
        // `configure` may have cancelled or paused operations.
        let cancelled = made.filter { $0.operation.isCancelled }, paused = made.filter { $0.operation.isPaused }
        let orphans = update { state in
            made.filter { id, operation in
                guard let record = state.table[id], record.isNew || !record.isOver, state.operations[id] == nil,
                    !state.isClosing
                else { return true }
                operation.link.connect(self, id)
                state.operations[id] = operation
                state.table.change(id) { record in
                    record.isNew = false
                    record.isStarted = false
                    record.changeNumber = nil
                }
                return false
            }
        }
        for (_, operation) in orphans { endUnstarted(operation) }
        for (id, _) in cancelled { try? cancel(id) }
        for (id, _) in paused { try? setPaused(true, id) }
        for (id, _) in made { applyPauses(id) }
        awaitNextAttempts(of: made)
    }

    // MARK: Closing

    /// Stops all operations, and calls the block when the directory can be opened again.
    func close(_ completion: (@Sendable () -> Void)? = nil) {
        typealias Held = (operation: any QueuedOperation, isStarted: Bool)
        typealias Listener = AsyncStream<DownloadQueue.Entry>.Continuation
        let (isFirst, isClosed, operations, waiters, listeners) = state.withLock {
            state -> (Bool, Bool, [Held], [Waiter], [Listener]) in
            let (isFirst, isClosed) = (!state.isClosing, state.isClosed)
            if let completion, !isClosed { state.closeWaiters.append(completion) }
            guard isFirst else { return (false, isClosed, [], [], []) }
            state.isClosing = true
            defer {
                state.waiters = [:]
                state.listeners = [:]
            }
            let operations = state.operations.map { ($1, state.table[$0]?.isStarted ?? true) }
            return (true, isClosed, operations, Array(state.waiters.values), Array(state.listeners.values))
        }
        if isClosed { completion?() }
        guard isFirst else { return }
        for waiter in waiters { waiter(.failure(DownloadQueueError.closed)) }
        // Finish the streams after all earlier reports.
        reports.async { for listener in listeners { listener.finish() } }
        for (operation, isStarted) in operations {
            if !isStarted, operation.dependencies.isEmpty, !operation.isPaused, !operation.isCancelled {
                // The operation has not been cancelled, so it can finish immediately.
                operation.fail(with: DownloadQueueError.closed)
                operation.enterCompletionGroup()
                operation.start()
            } else {
                operation.cancel(because: DownloadQueueError.closed)
                if !isStarted { enqueue(operation) }
            }
        }
        closeIfEnded()
    }

    /// Closes the files if the queue is closing and the last operation has finished.
    func closeIfEnded() {
        let isDue = state.withLock { state in
            guard state.isClosing, !state.hasEnded, state.running.isEmpty else { return false }
            state.hasEnded = true
            return true
        }
        guard isDue else { return }
        writer.close { [self] in
            lock.release()
            let (waiters, operations) = state.withLock { state in
                state.isClosed = true
                defer {
                    state.closeWaiters = []
                    state.operations = [:]
                }
                return (state.closeWaiters, state.operations)
            }
            withExtendedLifetime(operations) {}
            for waiter in waiters { waiter() }
        }
    }
}
