import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyUploads
import Foundation
import FoundationNetworking

/// A request in a session. The counterpart of `URLSessionTask`.
///
/// A new task is suspended; `resume()` starts it. (The verbs of ``HTTPSessionManager`` return started tasks.) Its
/// ``operation`` has all features of operations: it can have dependencies and be a dependency, be part of a batch, and
/// be added to another queue, where it waits until the task is resumed.
///
/// Suspending a task keeps the received bytes and releases the connection. When resumed, a download continues if the
/// file on the server has not changed. A task ends exactly once. All members can be used from any thread.
public class SessionTask: HTTPRequestHandle, @unchecked Sendable {
    /// The operation that performs the task.
    public final let operation: HTTPRequestOperation
    let record: TaskRecord

    init(_ record: TaskRecord, of operation: HTTPRequestOperation) {
        self.record = record
        self.operation = operation
    }

    // MARK: Control

    /// Starts or resumes the task. Has no effect if the task is running or has ended.
    public final func resume() {
        let isChange = operation.isPaused
        // Enqueuing has no effect if the operation is already in a queue.
        record.session.enqueue(operation)
        operation.resume()
        if isChange, !operation.isCancelled { record.session.post(.networkingTaskDidResume, of: self) }
    }

    /// Stops the transfer and keeps the received bytes. A task that has not started waits for ``resume()``. Has no
    /// effect if the task is already suspended or has ended.
    public final func suspend() {
        guard !operation.isPaused, !operation.isFinished, !operation.isCancelled else { return }
        operation.pause()
        if operation.isPaused { record.session.post(.networkingTaskDidSuspend, of: self) }
    }

    /// Ends the task with `URLError.cancelled`, even if it has not started. Has no effect if the task has ended.
    public final func cancel() {
        operation.cancel()
        // A task that has not been resumed must be enqueued to end.
        record.session.enqueue(operation)
    }

    /// Waits until the task has ended and its handlers have run. A suspended task waits for ``resume()``. Cancelling
    /// the awaiting Swift task cancels this task.
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

    /// The number of the task, which is unique in its session and starts at 1.
    public final var taskIdentifier: Int { record.identifier }

    /// A custom description, which the library ignores.
    public final var taskDescription: String? {
        get { record.description }
        set { record.description = newValue }
    }

    /// The priority among the waiting tasks of the session, from 0 to 1; 0.5 by default. It is rounded to one of the
    /// five values of `Operation.QueuePriority`: 0, 0.25, 0.5, 0.75 and 1.
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

    /// The request after the most recent redirect, or the original request.
    public final var currentRequest: URLRequest {
        var request = operation.request
        if let url = operation.response?.url ?? operation.redirects.last?.to { request.url = url }
        return request
    }

    /// The response; nil until its head has been received.
    public final var response: HTTPURLResponse? { operation.response }

    /// The error of a failed task; nil otherwise.
    public final var error: (any Error)? { operation.error }

    /// The waiting times of the task and the timings of its requests; nil before the task ends, and if they are not
    /// collected.
    public final var metrics: OperationMetrics? { operation.metrics }

    // MARK: Bytes

    /// The value for an unknown number of bytes.
    public static let transferSizeUnknown: Int64 = -1

    /// The number of received body bytes, including those kept across a suspension.
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

    /// The progress of the transfer: the bytes sent and received. Its `cancel()`, `pause()` and `resume()` act on the task.
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
        // Round to the nearest of the five values.
        let priority = min(max(priority, 0), 1)
        return steps.min { abs($0.0 - priority) < abs($1.0 - priority) }?.1 ?? .normal
    }
}

extension SessionTask: Hashable {
    /// Returns whether both tasks have the same operation.
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

extension SessionTask: OpaqueReflectable {}

/// The state of a task. The counterpart of `URLSessionTask.State`.
public enum SessionTaskState: Sendable, Hashable, CaseIterable {
    /// The task has been resumed: it is running, or waiting for a slot, its dependencies, or a retry.
    case running
    /// The task has not been resumed yet, or has been suspended.
    case suspended
    /// The task has been cancelled but has not ended yet.
    case canceling
    /// The task has ended. Its response, object and error are final.
    case completed
}

/// A task whose response is kept in memory. The counterpart of `URLSessionDataTask`.
public class SessionDataTask: SessionTask, @unchecked Sendable {}

/// A task that sends a body: a file, data, a stream, or a multipart form. The counterpart of `URLSessionUploadTask`.
public final class SessionUploadTask: SessionDataTask, @unchecked Sendable {
    /// The data for resuming the upload in another task, after this one has failed or been cancelled. nil before the
    /// task ends, after a success, and if the task's operation is not an `UploadOperation`.
    public var resumeData: UploadResumeData? { (operation as? UploadOperation)?.resumeData }
}

/// A task whose response is written to a file. The counterpart of `URLSessionDownloadTask`.
///
/// The ``SessionTask/operation`` of a task from `downloadTask(…)` is a `DownloadOperation`, whose settings (checksums,
/// mirrors, segments) can be changed until the task is resumed.
public final class SessionDownloadTask: SessionTask, @unchecked Sendable {
    /// The file, after the task has succeeded.
    public var fileURL: URL? {
        guard operation.isFinished, operation.error == nil else { return nil }
        return operation.responseObject as? URL ?? record.file
    }

    /// The data for resuming the download in another task, after this one has failed or been cancelled by
    /// ``cancel(byProducingResumeData:)``. nil before the task ends, and if the download cannot be resumed.
    public var resumeData: ResumeData? {
        guard operation.isFinished, record.keepsPartialFile || !operation.isCancelled else { return nil }
        return (operation as? DownloadOperation)?.resumeData
    }

    /// Cancels the task, and keeps the received bytes.
    ///
    /// - Parameter handler: Called once, when the task has ended, on the session's handler queue. It receives nil if
    ///   the download cannot be resumed because no bytes were received, the server sent no validator, the task had
    ///   already completed or been cancelled, or the task is a data task that became a download.
    public func cancel(byProducingResumeData handler: @escaping @Sendable (ResumeData?) -> Void) {
        // Set the flag before the cancellation, because the end of the task checks it.
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

    /// Cancels the task and returns its resume data; see ``cancel(byProducingResumeData:)``.
    public func cancelProducingResumeData() async -> ResumeData? {
        await withCheckedContinuation { continuation in
            cancel { continuation.resume(returning: $0) }
        }
    }
}
