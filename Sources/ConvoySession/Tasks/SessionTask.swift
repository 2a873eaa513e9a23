import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// A request of a session. The counterpart of `URLSessionTask`.
///
/// A task that a session makes is suspended: `resume()` begins it. (What a verb of ``HTTPSessionManager`` returns has begun.)
/// Underneath it is an operation, ``operation``, with all that operations have: it can be a dependency and have some, be part
/// of a batch, and be put into a queue of your own, where it waits until the task is resumed.
///
/// Suspending keeps what has arrived, and gives the connection back; a resumed download goes on where it was, if the server
/// still has the same file. A task ends once. All members can be used from any thread.
public class SessionTask: HTTPRequestHandle, @unchecked Sendable {
    /// The operation that does the work.
    public final let operation: HTTPRequestOperation
    let record: TaskRecord

    init(_ record: TaskRecord, of operation: HTTPRequestOperation) {
        (self.record, self.operation) = (record, operation)
    }

    // MARK: Control

    /// Begins the task, or lets it go on. Does nothing if it runs, or has ended.
    public final func resume() {
        let isChange = operation.isPaused
        // A session that has it already, or another queue, keeps it.
        record.session.enqueue(operation)
        operation.resume()
        if isChange, !operation.isCancelled { record.session.post(.networkingTaskDidResume, of: self, [:]) }
    }

    /// Stops the transfer and keeps what has arrived; a task that has not begun waits for ``resume()``. Suspending twice is
    /// the same as once. Does nothing if it has ended.
    public final func suspend() {
        guard !operation.isPaused, !operation.isFinished, !operation.isCancelled else { return }
        operation.pause()
        if operation.isPaused { record.session.post(.networkingTaskDidSuspend, of: self, [:]) }
    }

    /// Ends the task with `URLError.cancelled`. One that has not begun ends as well. Does nothing if it has ended.
    public final func cancel() {
        operation.cancel()
        // So that it ends, if nobody has begun it.
        record.session.enqueue(operation)
    }

    /// Waits until the task has ended and its handlers have run. One that is suspended waits for its ``resume()``. Cancelling
    /// the awaiting task cancels this one.
    ///
    /// - Throws: the task's ``error``.
    public final func finished() async throws {
        record.session.enqueue(operation)
        try await operation.finished()
    }

    // MARK: State

    /// What the task is doing.
    public final var state: SessionTaskState {
        if operation.isFinished { return .completed }
        if operation.isCancelled { return .canceling }
        return operation.isPaused ? .suspended : .running
    }

    /// The number of the task, which no other one of its session has; the first is 1.
    public final var taskIdentifier: Int { record.identifier }

    /// A text of your own; the library ignores it.
    public final var taskDescription: String? {
        get { record.description }
        set { record.description = newValue }
    }

    /// How urgent the task is among those of its session that wait for their turn, from 0 to 1; 0.5 by default. It has the
    /// five steps of `Operation.QueuePriority`: 0, 0.25, 0.5, 0.75 and 1.
    public final var priority: Float {
        get { Self.priority(of: operation.queuePriority) }
        set { operation.queuePriority = Self.queuePriority(of: newValue) }
    }

    /// Any other task's priority.
    public static let defaultPriority: Float = 0.5
    /// The priority of what can wait.
    public static let lowPriority: Float = 0.25
    /// The priority of what somebody waits for.
    public static let highPriority: Float = 0.75

    // MARK: The request and the response

    /// The request, as it was given.
    public final var originalRequest: URLRequest { operation.request }

    /// The request that the redirects so far have led to, or else the original one.
    public final var currentRequest: URLRequest {
        var request = operation.request
        if let url = operation.response?.url ?? operation.redirects.last?.to { request.url = url }
        return request
    }

    /// The response; nil until its head has arrived.
    public final var response: HTTPURLResponse? { operation.response }

    /// Why the task has failed; nil as long as it has not.
    public final var error: (any Error)? { operation.error }

    /// What the task waited for, and what its requests took; nil before its end, and unless they were collected.
    public final var metrics: OperationMetrics? { operation.metrics }

    // MARK: Bytes

    /// Stands for a number of bytes that is not known.
    public static let transferSizeUnknown: Int64 = -1

    /// Bytes of the response's body that have arrived; after a suspension, those that were kept are among them.
    public final var countOfBytesReceived: Int64 { operation.transferProgress.bytesReceived }
    /// Bytes of the request's body that have gone out.
    public final var countOfBytesSent: Int64 { operation.transferProgress.bytesSent }
    /// How many bytes of the response's body there will be; ``transferSizeUnknown`` as long as nobody knows.
    public final var countOfBytesExpectedToReceive: Int64 {
        operation.transferProgress.bytesExpectedToReceive ?? Self.transferSizeUnknown
    }
    /// How many bytes the request's body has; ``transferSizeUnknown`` as long as nobody knows.
    public final var countOfBytesExpectedToSend: Int64 {
        if let expected = operation.transferProgress.bytesExpectedToSend { return expected }
        let request = operation.request
        if let body = request.httpBody { return Int64(body.count) }
        return request.value(forHTTPHeaderField: "Content-Length").flatMap { Int64($0) } ?? Self.transferSizeUnknown
    }

    /// The progress of the response's body, in bytes. Its `cancel()`, `pause()` and `resume()` act on the task.
    public final var progress: Progress {
        let progress = operation.progress
        progress.cancellationHandler = { [weak self] in self?.cancel() }
        progress.pausingHandler = { [weak self] in self?.suspend() }
        progress.resumingHandler = { [weak self] in self?.resume() }
        return progress
    }

    /// How far the transfer is, in both directions.
    public final var transferProgress: TransferProgress { operation.transferProgress }

    // MARK: Priorities

    private static let steps: [(Float, Operation.QueuePriority)] = [
        (0, .veryLow), (lowPriority, .low), (defaultPriority, .normal), (highPriority, .high), (1, .veryHigh),
    ]

    private static func priority(of priority: Operation.QueuePriority) -> Float {
        steps.first { $0.1 == priority }?.0 ?? defaultPriority
    }

    private static func queuePriority(of priority: Float) -> Operation.QueuePriority {
        guard !priority.isNaN else { return .normal }
        // The nearest.
        let priority = min(max(priority, 0), 1)
        return steps.min { abs($0.0 - priority) < abs($1.0 - priority) }?.1 ?? .normal
    }
}

extension SessionTask: Hashable {
    /// Whether both are the same request.
    public static func == (one: SessionTask, other: SessionTask) -> Bool { one.operation === other.operation }

    /// Hashes the identity of the operation.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(operation)) }
}

extension SessionTask: CustomStringConvertible {
    /// The class, the number, the state, the method and the URL without secrets.
    public var description: String {
        let request = operation.request
        let url = request.url.map { Redaction.url($0.absoluteString, operation.connectionConfiguration.secrets) } ?? "none"
        return "<\(type(of: self)) \(taskIdentifier): \(state), \(request.httpMethod ?? "GET") \(url)>"
    }
}

extension SessionTask: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: [], ancestorRepresentation: .suppressed) }
}
