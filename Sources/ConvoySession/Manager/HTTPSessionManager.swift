import ConvoyOperations
import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Makes and begins tasks by the verbs of HTTP, relative to a base URL. The counterpart of `AFHTTPSessionManager`.
///
/// It has the verbs of `HTTPRequestOperationManager`, with the same arguments and in the same forms; what they return and
/// what their handlers get is a ``SessionTask`` in place of an operation. A verb begins its task.
///
/// ```swift
/// let manager = HTTPSessionManager(baseURL: URL(string: "https://api.example.com/v1/"))
/// manager.get("users", success: { task, users in … }, failure: { task, error in … })
/// let user: User = try await manager.get("users/1")
/// ```
open class HTTPSessionManager: URLSessionManager, HTTPManager, @unchecked Sendable {
    /// A manager with a session of its own.
    ///
    /// - Parameters:
    ///   - baseURL: what relative URLs are relative to; nil where every URL is given whole. A slash is added to its path if
    ///     there is none at the end.
    ///   - configuration: the settings; `.default` unless given.
    ///   - completionQueue: where the handlers of tasks run; nil is the main queue.
    public init(
        baseURL: URL? = nil, configuration: SessionConfiguration = .default, completionQueue: DispatchQueue? = nil
    ) {
        super.init(
            operations: HTTPRequestOperationManager(baseURL: baseURL, completionQueue: completionQueue),
            configuration: configuration)
    }

    /// A manager with the settings of another, and a session of its own: no handlers, and no tasks. Both share what are
    /// objects: the stores of cookies and credentials, the cache, the completion queue and group.
    public convenience init(copying manager: HTTPSessionManager) {
        self.init(baseURL: manager.baseURL, configuration: manager.configuration, completionQueue: manager.completionQueue)
        takeSettings(of: manager)
    }

    /// A copy with the same settings; see ``init(copying:)``.
    public final func makeCopy() -> HTTPSessionManager { HTTPSessionManager(copying: self) }

    // MARK: Settings

    /// The URL against which relative URLs are resolved.
    public final var baseURL: URL? { operationManager.baseURL }

    /// The origins of these URLs may see who the client is, besides that of ``baseURL``. None by default. See
    /// `HTTPRequestOperationManager.authorizationOrigins`.
    public final var authorizationOrigins: Set<URL> {
        get { operationManager.authorizationOrigins }
        set { operationManager.authorizationOrigins = newValue }
    }

    /// Makes requests of parameters: a query or a form by `HTTPRequestSerializer`, unless set. With a ``baseURL``, its
    /// `Authorization` and other secret fields go to that origin and to the ``authorizationOrigins`` only; without one they
    /// go wherever a call leads.
    public final var requestSerializer: any HTTPRequestSerialization {
        get { operationManager.requestSerializer }
        set { operationManager.requestSerializer = newValue }
    }

    /// Decodes the JSON of awaited values.
    public final var decoder: JSONDecoder {
        get { operationManager.decoder }
        set { operationManager.decoder = newValue }
    }

    /// Encodes what the calls are given as `body`.
    public final var encoder: JSONEncoder {
        get { operationManager.encoder }
        set { operationManager.encoder = newValue }
    }

    /// Changes the request serializer, and loses no change that another thread makes at the same time. See
    /// `HTTPRequestOperationManager.updateRequestSerializer(_:)`.
    public final func updateRequestSerializer(
        _ update: (inout any HTTPRequestSerialization) throws -> Void
    ) rethrows {
        try operationManager.updateRequestSerializer(update)
    }

    /// The URL that a string stands for under ``baseURL`` (RFC 3986, section 5.2).
    ///
    /// - Throws: `URLError.badURL`.
    public final func url(for string: String) throws(URLError) -> URL { try operationManager.url(for: string) }

    // MARK: Tasks

    /// An operation for a request, which is that of a task, with the manager's settings. Not enqueued.
    public final func makeOperation(request: URLRequest) -> HTTPRequestOperation {
        let operation = operationManager.makeOperation(request: request)
        adopt(operation, as: .data)
        return operation
    }

    /// A task for a method, a URL and parameters, which is suspended: `resume()` begins it. The arguments are those of the
    /// verbs. A request that cannot be made fails when it is resumed.
    public final func dataTask(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: [String: Any?]? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, uploadProgress: TransferProgress.Handler? = nil,
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

    /// Makes an operation the operation of a task.
    public final func adopt(_ operation: HTTPRequestOperation, as kind: HTTPRequestKind) {
        currentSession.adopt(operation, as: kind)
    }

    /// Begins the task of an operation that was adopted.
    @discardableResult
    public final func begin(
        _ operation: HTTPRequestOperation, success: (@Sendable (SessionTask, Any?) -> Void)?,
        failure: (@Sendable (SessionTask, any Error) -> Void)?
    ) -> SessionTask {
        let record = Session.record(of: operation) ?? currentSession.adopt(operation, as: .data)
        setHandlers(of: operation, record, success, failure)
        let task = record.task(of: operation)
        operationManager.enqueue(operation)
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

    /// Enqueues operations that `makeOperation` has made, and others, in this order.
    public final func enqueue(_ operations: [Operation]) { operationManager.enqueue(operations) }
}
