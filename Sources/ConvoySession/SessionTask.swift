import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyUploads
import Foundation
import FoundationNetworking

/// A request of a session. The counterpart of `URLSessionTask`.
///
/// A new task is suspended; `resume()` starts it. (The verbs of ``HTTPSessionManager`` return started tasks.) Its
/// ``operation`` has all features of operations: it can have dependencies and be one, be part of a batch, and be added
/// to another queue, where it waits until the task is resumed.
///
/// Suspending keeps the received bytes and releases the connection; a resumed download continues if the server still
/// has the same file. A task ends once. All members can be used from any thread.
public class SessionTask: HTTPRequestHandle, @unchecked Sendable {
    /// The operation that performs the task.
    public final let operation: HTTPRequestOperation
    let record: TaskRecord

    init(_ record: TaskRecord, of operation: HTTPRequestOperation) {
        (self.record, self.operation) = (record, operation)
    }

    // MARK: Control

    /// Starts or continues the task. No effect if it is running or has ended.
    public final func resume() {
        let isChange = operation.isPaused
        // No effect if this session or another queue has it already.
        record.session.enqueue(operation)
        operation.resume()
        if isChange, !operation.isCancelled { record.session.post(.resume, of: self) }
    }

    /// Stops the transfer and keeps the received bytes; a task that has not started waits for ``resume()``. No effect
    /// if it is suspended already or has ended.
    public final func suspend() {
        guard !operation.isPaused, !operation.isFinished, !operation.isCancelled else { return }
        operation.pause()
        if operation.isPaused { record.session.post(.suspend, of: self) }
    }

    /// Ends the task with `URLError.cancelled`, even if it has not started. No effect if it has ended.
    public final func cancel() {
        operation.cancel()
        // A task that was not resumed must be enqueued to end.
        record.session.enqueue(operation)
    }

    /// Waits until the task has ended and its handlers have run; a suspended one waits for ``resume()``. Cancelling the
    /// awaiting task cancels this one.
    ///
    /// - Throws: The task's ``error``.
    public final func finished() async throws {
        record.session.enqueue(operation)
        try await operation.finished()
    }

    // MARK: State

    /// The current state.
    public final var state: SessionTaskState {
        if operation.isFinished { return .completed }
        if operation.isCancelled { return .canceling }
        return operation.isPaused ? .suspended : .running
    }

    /// The number of the task, unique in its session and counted from 1.
    public final var taskIdentifier: Int { record.identifier }

    /// A custom text; the library ignores it.
    public final var taskDescription: String? {
        get { record.description }
        set { record.description = newValue }
    }

    /// The priority among the waiting tasks of the session, from 0 to 1; 0.5 by default. It is rounded to the five
    /// steps of `Operation.QueuePriority`: 0, 0.25, 0.5, 0.75 and 1.
    public final var priority: Float {
        get { Self.priority(of: operation.queuePriority) }
        set { operation.queuePriority = Self.queuePriority(of: newValue) }
    }

    /// The default priority, 0.5.
    public static let defaultPriority: Float = 0.5
    /// The priority of tasks that can wait, 0.25.
    public static let lowPriority: Float = 0.25
    /// The priority of tasks that a user is waiting for, 0.75.
    public static let highPriority: Float = 0.75

    // MARK: The request and the response

    /// The request before any redirects.
    public final var originalRequest: URLRequest { operation.request }

    /// The request of the last redirect so far, or else the original one.
    public final var currentRequest: URLRequest {
        var request = operation.request
        if let url = operation.response?.url ?? operation.redirects.last?.to { request.url = url }
        return request
    }

    /// The response; nil until its head has arrived.
    public final var response: HTTPURLResponse? { operation.response }

    /// The error of a failed task; nil otherwise.
    public final var error: (any Error)? { operation.error }

    /// The waiting times of the task and the timings of its requests; nil before its end, and unless collected.
    public final var metrics: OperationMetrics? { operation.metrics }

    // MARK: Bytes

    /// An unknown number of bytes.
    public static let transferSizeUnknown: Int64 = -1

    /// The number of received body bytes, including those kept over a suspension.
    public final var countOfBytesReceived: Int64 { operation.transferProgress.bytesReceived }
    /// The number of sent body bytes.
    public final var countOfBytesSent: Int64 { operation.transferProgress.bytesSent }
    /// The expected number of body bytes to receive; ``transferSizeUnknown`` if unknown.
    public final var countOfBytesExpectedToReceive: Int64 {
        operation.transferProgress.bytesExpectedToReceive ?? Self.transferSizeUnknown
    }
    /// The number of body bytes to send; ``transferSizeUnknown`` if unknown.
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

    /// The progress of the transfer, in both directions.
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
        // Rounds to the nearest step.
        let priority = min(max(priority, 0), 1)
        return steps.min { abs($0.0 - priority) < abs($1.0 - priority) }?.1 ?? .normal
    }
}

extension SessionTask: Hashable {
    /// Whether both have the same operation.
    public static func == (one: SessionTask, other: SessionTask) -> Bool { one.operation === other.operation }

    /// Hashes the identity of the operation.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(operation)) }
}

extension SessionTask: CustomStringConvertible {
    /// The class, the number, the state, the method, and the URL without secrets.
    public var description: String {
        let request = operation.request
        let url = request.url.map { Redaction.url($0.absoluteString, operation.connectionConfiguration.secrets) } ?? "none"
        return "<\(type(of: self)) \(taskIdentifier): \(state), \(request.httpMethod ?? "GET") \(url)>"
    }
}

extension SessionTask: CustomReflectable {
    /// Empty, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: [], ancestorRepresentation: .suppressed) }
}

/// The state of a task. The counterpart of `URLSessionTask.State`.
public enum SessionTaskState: Sendable, Hashable, CaseIterable {
    /// The task was resumed: it is running, or waiting for a slot, its dependencies, or a retry.
    case running
    /// The task was not resumed yet, or was suspended.
    case suspended
    /// The task was cancelled, and has not ended yet.
    case canceling
    /// The task has ended: its response, its object and its error are final.
    case completed
}

/// A task whose response is kept in memory. The counterpart of `URLSessionDataTask`.
public class SessionDataTask: SessionTask, @unchecked Sendable {}

/// A task that sends a body: a file, data, a stream, or a form with parts. The counterpart of `URLSessionUploadTask`.
public final class SessionUploadTask: SessionDataTask, @unchecked Sendable {
    /// The data for going on with the upload in another task, after this one has failed or was cancelled. nil before its end,
    /// after a success, and for a task whose operation is no `UploadOperation`.
    public var resumeData: UploadResumeData? { (operation as? UploadOperation)?.resumeData }
}

/// A task whose response is written to a file. The counterpart of `URLSessionDownloadTask`.
///
/// The ``SessionTask/operation`` of a task from `downloadTask(…)` is a `DownloadOperation`, whose settings (checksums,
/// mirrors, segments) can be changed until the task is resumed.
public final class SessionDownloadTask: SessionTask, @unchecked Sendable {
    /// The file, after the task has ended with success.
    public var fileURL: URL? {
        guard operation.isFinished, operation.error == nil else { return nil }
        return operation.responseObject as? URL ?? record.file
    }

    /// The data for continuing the download in another task, after this one has failed or was cancelled by
    /// ``cancel(byProducingResumeData:)``. nil before its end, and if there is nothing to continue from.
    public var resumeData: ResumeData? {
        guard operation.isFinished, record.keepsPartialFile || !operation.isCancelled else { return nil }
        return (operation as? DownloadOperation)?.resumeData
    }

    /// Cancels the task, and keeps what has arrived.
    ///
    /// - Parameter handler: Called once, when the task has ended, on the session's handler queue; with nil if there is
    ///   nothing to continue from: no byte has arrived, the server has sent no validator, or the task has completed or
    ///   was cancelled before; and for a data task that has become a download.
    public func cancel(byProducingResumeData handler: @escaping @Sendable (ResumeData?) -> Void) {
        // Before the cancellation, whose end checks it.
        if !operation.isCancelled, !operation.isFinished { record.keepPartialFile() }
        let (session, record) = (record.session, record)
        operation.whenDelivered { [operation] in
            session.handlerQueue.async {
                let isKept = operation.isCancelled && record.keepsPartialFile
                handler(isKept ? (operation as? DownloadOperation)?.resumeData : nil)
            }
        }
        cancel()
    }

    /// Cancels the task, and returns its resume data; see ``cancel(byProducingResumeData:)``.
    public func cancelProducingResumeData() async -> ResumeData? {
        await withCheckedContinuation { continuation in
            cancel { continuation.resume(returning: $0) }
        }
    }
}
