import ConvoySerialization
import Foundation
import FoundationNetworking

/// A manager of requests: ``HTTPRequestOperationManager``, or the `HTTPSessionManager` of ConvoySession.
///
/// Both have the same verbs, with the same arguments, in the same three forms: with handlers, with async/await, and as
/// operations that are made first and enqueued later. They differ in ``Request``: what the verbs with handlers return, and
/// what the handlers get first. A program changes from one to the other by changing the name of the type, and a function
/// that takes `some HTTPManager` works with both:
///
/// ```swift
/// func loadUsers(from manager: some HTTPManager) async throws -> [User] {
///     try await manager.get("users", parameters: ["limit": 20])
/// }
/// ```
///
/// The verbs are methods of this protocol. A type of your own gets them from a `HTTPRequestOperationManager` that it has:
/// the three static requirements say how its requests begin.
public protocol HTTPManager: RequestConfigurable {
    /// What the verbs with handlers return, and what the handlers get: an operation, or a task.
    associatedtype Request: HTTPRequestHandle

    /// The URL against which relative URLs are resolved.
    var baseURL: URL? { get }
    /// Makes requests of parameters.
    var requestSerializer: any HTTPRequestSerialization { get set }
    /// Decodes the JSON of values.
    var decoder: JSONDecoder { get set }
    /// Encodes the `body` of calls.
    var encoder: JSONEncoder { get set }

    /// Enqueues operations of `makeOperation`, and others, in this order.
    func enqueue(_ operations: [Operation])

    // Static, so that a manager does not show them to its users.

    /// The manager that makes the operations of all requests of a manager, and has their settings.
    static func operationManager(of manager: Self) -> HTTPRequestOperationManager

    /// Adds a new operation, which the `operationManager` has made, to a manager, without starting or enqueueing it. Called
    /// on the thread that calls a verb, once for each operation.
    static func adopt(_ operation: HTTPRequestOperation, as kind: HTTPRequestKind, by manager: Self)

    /// Begins the request of an operation that was adopted. On the completion queue, `success` is called with the request
    /// and its `responseObject`, or `failure` with the request and its error.
    static func begin(
        _ operation: HTTPRequestOperation, by manager: Self, success: (@Sendable (Request, Any?) -> Void)?,
        failure: (@Sendable (Request, any Error) -> Void)?
    ) -> Request
}

/// The kind of a request, which determines the class of its task in a session.
public enum HTTPRequestKind: Sendable, Hashable {
    /// A response that is kept in memory.
    case data
    /// A body that is sent: a file, data, a stream, or a form with parts.
    case upload
    /// A response that is stored in a file.
    case download
}

extension HTTPManager {
    /// Called with the request and its `responseObject`.
    public typealias Success = @Sendable (_ request: Request, _ responseObject: Any?) -> Void
    /// Called with the request and its error.
    public typealias Failure = @Sendable (_ request: Request, _ error: any Error) -> Void

    /// Enqueues an operation, and returns it.
    @discardableResult
    public func enqueue<Enqueued: Operation>(_ operation: Enqueued) -> Enqueued {
        enqueue([operation])
        return operation
    }

    /// The manager that makes the operations.
    package var operationManager: HTTPRequestOperationManager { Self.operationManager(of: self) }

    /// Adds an operation to the manager.
    package func adopt(_ operation: HTTPRequestOperation, as kind: HTTPRequestKind) {
        Self.adopt(operation, as: kind, by: self)
    }

    /// Adds an operation to the manager, and returns it.
    ///
    /// - Parameter responseSerializer: nil for the manager's.
    func adopted(
        _ operation: HTTPRequestOperation, as kind: HTTPRequestKind,
        responseSerializer: (any HTTPResponseSerialization)? = nil
    ) -> HTTPRequestOperation {
        adopt(operation, as: kind)
        if let responseSerializer { operation.responseSerializer = responseSerializer }
        return operation
    }

    /// Begins the request of an adopted operation.
    @discardableResult
    package func begin(_ operation: HTTPRequestOperation, success: Success?, failure: Failure?) -> Request {
        Self.begin(operation, by: self, success: success, failure: failure)
    }

    /// Begins the request of a new operation. A request that cannot be made fails like one that the network refuses:
    /// through the returned request, with a call of `failure`.
    package func begin(
        _ kind: HTTPRequestKind, _ success: Success?, _ failure: Failure?, _ make: () throws -> HTTPRequestOperation
    ) -> Request {
        begin(adopted(operationManager.makeOperation(make), as: kind), success: success, failure: failure)
    }

    /// Begins the request of a new operation, and waits for its end.
    @discardableResult
    package nonisolated(nonsending) func finish<Finished: HTTPRequestOperation>(
        _ operation: Finished, as kind: HTTPRequestKind
    ) async throws -> Finished {
        try await result(of: operation, as: kind) { try await operation.finished() }
        return operation
    }

    /// The same for a value that the awaiting task decodes.
    nonisolated(nonsending) func value<Value: Decodable & Sendable>(
        of operation: HTTPRequestOperation, as kind: HTTPRequestKind
    ) async throws -> Value {
        try await result(of: operation, as: kind) { try await operation.decodedValue(as: Value.self) }
    }

    /// Begins the request of a new operation, unless the awaiting task has been cancelled, and awaits its result. Every
    /// async function of a manager passes through here, and none awaits a concurrent function elsewhere.
    private nonisolated(nonsending) func result<Result: Sendable>(
        of operation: HTTPRequestOperation, as kind: HTTPRequestKind,
        _ body: @concurrent @Sendable () async throws -> Result
    ) async throws -> Result {
        let operation = adopted(operation, as: kind)
        if Task.isCancelled { operation.cancel() }
        begin(operation, success: nil, failure: nil)
        // A function that is `nonisolated(nonsending)` and passes on the error of a concurrent one does not return to
        // its caller's executor with the compilers up to Swift 6.3.1 (swiftlang/swift#88259). Catching the error first
        // makes it return. Without that defect, `return try await body()` is the same.
        do {
            return try await body()
        } catch {
            throw error
        }
    }
}

extension HTTPRequestOperationManager: HTTPManager {
    /// The manager itself.
    public static func operationManager(of manager: HTTPRequestOperationManager) -> HTTPRequestOperationManager { manager }

    /// Does nothing: an operation that the manager has made is its own.
    public static func adopt(
        _ operation: HTTPRequestOperation, as kind: HTTPRequestKind, by manager: HTTPRequestOperationManager
    ) {}

    /// Enqueues the operation, with handlers, and returns it.
    public static func begin(
        _ operation: HTTPRequestOperation, by manager: HTTPRequestOperationManager,
        success: HTTPRequestOperation.Success?, failure: HTTPRequestOperation.Failure?
    ) -> HTTPRequestOperation {
        if success != nil || failure != nil { operation.setCompletionHandler(success: success, failure: failure) }
        return manager.enqueue(operation)
    }
}

/// A URL for a manager's calls: a text, absolute or relative to the manager's `baseURL`, or a `URL`.
public protocol URLConvertible {
    /// The URL as text.
    var urlString: String { get }
}

extension String: URLConvertible {
    /// The text itself.
    public var urlString: String { self }
}

extension Substring: URLConvertible {
    /// The text itself.
    public var urlString: String { String(self) }
}

extension URL: URLConvertible {
    /// The absolute text; for a URL without a scheme and base, its own text, which a manager resolves against its base.
    public var urlString: String { absoluteString }
}

/// How long a call may take, in seconds.
///
/// ```swift
/// let users: [User] = try await manager.get("users", timeout: 10)             // ten seconds in all
/// let log: String = try await manager.get("log", timeout: .idle(5))           // five without a byte
/// let all: Data = try await manager.get("all", timeout: .init(idle: 5, total: 600))
/// let fast: Data = try await manager.get("fast", timeout: .milliseconds(500))
/// ```
///
/// Both end in `URLError.timedOut`.
public struct RequestTimeout: Sendable, Hashable {
    /// How long the transfer may be without a byte. nil keeps the limit of the request or the manager, 60 by default.
    public var idle: TimeInterval?
    /// How long the operation may take in total, including the waits for its retries, and its pauses. nil keeps the
    /// limit of the manager, none by default.
    public var total: TimeInterval?

    /// Limits for both, or for one of them.
    public init(idle: TimeInterval? = nil, total: TimeInterval? = nil) {
        self.idle = idle
        self.total = total
    }

    /// How long the transfer may be without a byte.
    public static func idle(_ seconds: TimeInterval) -> RequestTimeout { RequestTimeout(idle: seconds) }
    /// How long the operation may take in total.
    public static func total(_ seconds: TimeInterval) -> RequestTimeout { RequestTimeout(total: seconds) }

    /// How long the transfer may be without a byte.
    public static func idle(_ duration: Duration) -> RequestTimeout { idle(duration / .seconds(1)) }
    /// How long the operation may take in all.
    public static func total(_ duration: Duration) -> RequestTimeout { total(duration / .seconds(1)) }
    /// How long the operation may take in all.
    public static func seconds(_ seconds: TimeInterval) -> RequestTimeout { total(seconds) }
    /// How long the operation may take in all.
    public static func milliseconds(_ milliseconds: TimeInterval) -> RequestTimeout { total(milliseconds / 1000) }
}

extension RequestTimeout: ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral {
    /// Seconds in total.
    public init(integerLiteral value: Int) { self.init(total: TimeInterval(value)) }
    /// Seconds in total.
    public init(floatLiteral value: Double) { self.init(total: value) }
}
