import ConvoyOperations
import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A manager that creates and starts tasks for HTTP methods, relative to a base URL. The counterpart of
/// `AFHTTPSessionManager`.
///
/// The manager has the same verbs as `HTTPRequestOperationManager`, with the same arguments and variants, but with a
/// ``SessionTask`` instead of an operation. A verb starts its task.
///
/// ```swift
/// let manager = HTTPSessionManager(baseURL: URL(string: "https://api.example.com/v1/"))
/// manager.get("users", success: { task, users in … }, failure: { task, error in … })
/// let user: User = try await manager.get("users/1")
/// ```
open class HTTPSessionManager: URLSessionManager, HTTPManager, RequestSending, @unchecked Sendable {
    /// Creates a manager with a new session.
    ///
    /// - Parameters:
    ///   - baseURL: The base of relative URLs; nil if all URLs are absolute. If its path does not end in a slash, one
    ///     is added.
    ///   - configuration: The settings, by default `.default`.
    ///   - completionQueue: The queue for the tasks' handlers; nil for the main queue.
    public init(
        baseURL: URL? = nil, configuration: SessionConfiguration = .default, completionQueue: DispatchQueue? = nil
    ) {
        super.init(
            operations: HTTPRequestOperationManager(baseURL: baseURL, completionQueue: completionQueue),
            configuration: configuration)
    }

    /// Creates a manager with the settings of another and a new session, but without its handlers and tasks. Both share
    /// the objects in the settings: the cookie and credential stores, the cache, and the completion queue and group.
    public convenience init(copying manager: HTTPSessionManager) {
        self.init(baseURL: manager.baseURL, configuration: manager.configuration, completionQueue: manager.completionQueue)
        takeSettings(of: manager)
    }

    /// Returns a copy with the same settings; see ``init(copying:)``.
    public final func makeCopy() -> HTTPSessionManager { HTTPSessionManager(copying: self) }

    // MARK: Settings

    /// The URL against which relative URLs are resolved.
    public final var baseURL: URL? { operationManager.baseURL }

    /// The origins, in addition to that of ``baseURL``, to which credentials may be sent. Empty by default. See
    /// `HTTPRequestOperationManager.authorizationOrigins`.
    public final var authorizationOrigins: Set<URL> {
        get { operationManager.authorizationOrigins }
        set { operationManager.authorizationOrigins = newValue }
    }

    /// The serializer that creates requests from parameters; by default `HTTPRequestSerializer`, which creates queries
    /// and forms. With a ``baseURL``, its `Authorization` and other secret fields are sent only to that origin and to
    /// the ``authorizationOrigins``. Without a base URL they are sent to the URL of each call.
    public final var requestSerializer: any HTTPRequestSerialization {
        get { operationManager.requestSerializer }
        set { operationManager.requestSerializer = newValue }
    }

    /// The decoder of JSON for async calls that return a value.
    public final var decoder: JSONDecoder {
        get { operationManager.decoder }
        set { operationManager.decoder = newValue }
    }

    /// The encoder of the `body` of calls.
    public final var encoder: JSONEncoder {
        get { operationManager.encoder }
        set { operationManager.encoder = newValue }
    }

    /// Changes the request serializer atomically. See `HTTPRequestOperationManager.updateRequestSerializer(_:)`.
    public final func updateRequestSerializer(
        _ update: (inout any HTTPRequestSerialization) throws -> Void
    ) rethrows {
        try operationManager.updateRequestSerializer(update)
    }

    /// Resolves a string against ``baseURL`` (RFC 3986, section 5.2).
    ///
    /// - Throws: `URLError.badURL`.
    public final func url(for string: String) throws(URLError) -> URL { try operationManager.url(for: string) }

    // MARK: Tasks

    /// Creates the operation of a task for a request, with the manager's settings, without enqueueing it.
    public final func makeOperation(request: URLRequest) -> HTTPRequestOperation {
        let operation = operationManager.makeOperation(request: request)
        adopt(operation, as: .data)
        return operation
    }

    /// Creates a suspended task for a method, a URL and parameters; `resume()` starts it. The arguments are those of
    /// the verbs. If the request cannot be created, the task fails when it is resumed.
    public final func dataTask(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: RequestParameters? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, uploadProgress: TransferProgress.Handler? = nil,
        downloadProgress: TransferProgress.Handler? = nil, success: Success? = nil, failure: Failure? = nil
    ) -> SessionDataTask {
        let operation = operationManager.makeOperation {
            try operationManager.makeOperation(method, url, parameters: parameters, headers: headers, timeout: timeout)
        }
        operation.pause()
        let record = currentSession.adopt(operation, as: .data)
        operation.report(uploadProgress, downloadProgress)
        setHandlers(of: operation, record, success, failure)
        return record.newTask(of: operation)
    }

    /// The part of the manager that sends its requests.
    public final var requestSender: RequestSender<SessionTask> { RequestSender(self) }

    package final var creator: HTTPRequestOperationManager { operationManager }

    /// Makes an operation the operation of a task.
    package final func admit(_ operation: HTTPRequestOperation, as kind: HTTPRequestKind) {
        currentSession.adopt(operation, as: kind)
    }

    /// Starts the task of an admitted operation.
    package final func send(
        _ operation: HTTPRequestOperation, success: (@Sendable (SessionTask, Any?) -> Void)?,
        failure: (@Sendable (SessionTask, any Error) -> Void)?
    ) -> SessionTask {
        let record = Session.record(of: operation) ?? currentSession.adopt(operation, as: .data)
        setHandlers(of: operation, record, success, failure)
        let task = record.task(of: operation)
        enqueue([operation])
        return task
    }

    private func setHandlers(
        of operation: HTTPRequestOperation, _ record: TaskRecord, _ success: Success?, _ failure: Failure?
    ) {
        guard success != nil || failure != nil else { return }
        operation.setCompletionHandler(
            success: { operation, object in success?(record.task(of: operation), object) },
            failure: { operation, error in failure?(record.task(of: operation), error) })
    }

    /// Enqueues operations, including those from `makeOperation`, in the given order.
    public final func enqueue(_ operations: [Operation]) {
        for case let operation as HTTPRequestOperation in operations where !operation.isPaused && !operation.isCancelled {
            guard operation.postsNotifications, let record = Session.record(of: operation) else { continue }
            record.session.post(.networkingTaskDidResume, of: record.task(of: operation))
        }
        operationManager.enqueue(operations)
    }
}
