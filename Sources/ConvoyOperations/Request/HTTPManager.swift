import ConvoySerialization
import Foundation
import FoundationNetworking

/// A request manager: ``HTTPRequestOperationManager``, or the `HTTPSessionManager` of ConvoySession.
///
/// Both managers have the same request methods, with the same arguments, in the same three forms: with completion
/// handlers, with async/await, and as operations that are created first and enqueued later. They differ in ``Request``,
/// which the methods with handlers return and pass to the handlers. A program can switch from one to the other by
/// changing the name of the type, and a function that takes `some HTTPManager` works with both:
///
/// ```swift
/// func loadUsers(from manager: some HTTPManager) async throws -> [User] {
///     try await manager.get("users", parameters: ["limit": 20])
/// }
/// ```
///
/// The request methods are extension methods of this protocol. Your own type can adopt the protocol by wrapping a manager
/// and forwarding the requirements to it.
public protocol HTTPManager: RequestConfigurable {
    /// The type of request that the methods with handlers return and pass to the handlers: an operation, or a task.
    associatedtype Request: HTTPRequestHandle

    /// The URL against which relative URLs are resolved.
    var baseURL: URL? { get }
    /// The serializer that creates requests from parameters.
    var requestSerializer: any HTTPRequestSerialization { get set }
    /// The decoder for values in JSON responses.
    var decoder: JSONDecoder { get set }
    /// The encoder for the `body` of calls, and for `Encodable` values among their parameters.
    var encoder: JSONEncoder { get set }

    /// Enqueues operations, such as those created by `makeOperation`, in the given order.
    func enqueue(_ operations: [Operation])

    /// The part of the manager that sends its requests. A type of your own returns that of the manager that it wraps.
    var requestSender: RequestSender<Request> { get }
}

extension HTTPManager {
    /// A handler called with the request and its `responseObject`.
    public typealias Success = @Sendable (_ request: Request, _ responseObject: Any?) -> Void
    /// A handler called with the request and its error.
    public typealias Failure = @Sendable (_ request: Request, _ error: any Error) -> Void

    /// Adds an operation to the manager's queue, and returns it for further use.
    @discardableResult
    public func enqueue<Enqueued: Operation>(_ operation: Enqueued) -> Enqueued {
        enqueue([operation])
        return operation
    }

    /// The manager that creates the operations of this manager's requests, and holds their settings.
    package var operationManager: HTTPRequestOperationManager { requestSender.sending.creator }

    /// Adds an operation to the manager.
    package func adopt(_ operation: HTTPRequestOperation, as kind: HTTPRequestKind) {
        requestSender.sending.admit(operation, as: kind)
    }

    /// Adds an operation to the manager, and returns it.
    ///
    /// - Parameter responseSerializer: The response serializer; nil for the manager's.
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
        requestSender.sending.send(operation, success: success, failure: failure)
    }

    /// Begins the request of a new operation. A request that cannot be created fails like any other request: `failure`
    /// is called for the returned request.
    package func begin(
        _ kind: HTTPRequestKind, _ success: Success?, _ failure: Failure?, _ make: () throws -> HTTPRequestOperation
    ) -> Request {
        let sending = requestSender.sending
        let operation = sending.creator.makeOperation(make)
        sending.admit(operation, as: kind)
        return sending.send(operation, success: success, failure: failure)
    }

    /// Begins the request of a new operation, and waits until it has finished.
    @discardableResult
    package nonisolated(nonsending) func finish<Finished: HTTPRequestOperation>(
        _ operation: Finished, as kind: HTTPRequestKind
    ) async throws -> Finished {
        try await result(of: operation, as: kind) { try await operation.finished() }
        return operation
    }

    /// Begins the request of a new operation, and returns a value decoded by the awaiting task.
    nonisolated(nonsending) func value<Value: Decodable & Sendable>(
        of operation: HTTPRequestOperation, as kind: HTTPRequestKind
    ) async throws -> Value {
        try await result(of: operation, as: kind) { try await operation.decodedValue(as: Value.self) }
    }

    /// Begins the request of a new operation, unless the awaiting task has been cancelled, and awaits its result. Every
    /// async function of a manager calls this function, and awaits no concurrent function elsewhere.
    private nonisolated(nonsending) func result<Result: Sendable>(
        of operation: HTTPRequestOperation, as kind: HTTPRequestKind,
        _ body: @concurrent @Sendable () async throws -> Result
    ) async throws -> Result {
        let operation = adopted(operation, as: kind)
        if Task.isCancelled { operation.cancel() }
        begin(operation, success: nil, failure: nil)
        // With compilers up to Swift 6.3.1, a `nonisolated(nonsending)` function that propagates the error of a
        // concurrent function does not return to its caller's executor (swiftlang/swift#88259). Catching the error
        // first avoids that defect; without it, `return try await body()` would be equivalent.
        do {
            return try await body()
        } catch {
            throw error
        }
    }
}

/// A URL for a manager's calls: a string, absolute or relative to the manager's `baseURL`, or a `URL`.
public protocol URLConvertible {
    /// The URL as a string, which may be relative.
    var urlString: String { get }
}

extension String: URLConvertible {
    /// The string itself.
    public var urlString: String { self }
}

extension Substring: URLConvertible {
    /// The string itself.
    public var urlString: String { String(self) }
}

extension URL: URLConvertible {
    /// The absolute string. For a relative URL without a base, this is its relative string, which a manager resolves
    /// against its `baseURL`.
    public var urlString: String { absoluteString }
}

/// The time limits of a call, in seconds.
///
/// ```swift
/// let users: [User] = try await manager.get("users", timeout: 10)             // ten seconds in total
/// let log: String = try await manager.get("log", timeout: .idle(5))           // five without a byte
/// let all: Data = try await manager.get("all", timeout: .init(idle: 5, total: 600))
/// let fast: Data = try await manager.get("fast", timeout: .total(.milliseconds(500)))
/// ```
///
/// An operation that exceeds either limit fails with `URLError.timedOut`.
public struct RequestTimeout: Sendable, Hashable {
    /// The maximum time without any bytes transferred. nil keeps the limit of the request or the manager, 60 by
    /// default.
    public var idle: TimeInterval?
    /// The maximum duration of the operation, including its pauses and the waits before retries. nil keeps the limit of
    /// the manager, which is unlimited by default.
    public var total: TimeInterval?

    /// Creates a timeout with an idle limit, a total limit, or both.
    public init(idle: TimeInterval? = nil, total: TimeInterval? = nil) {
        self.idle = idle
        self.total = total
    }

    /// Returns a timeout with a limit on the time without any bytes transferred.
    public static func idle(_ seconds: TimeInterval) -> RequestTimeout { RequestTimeout(idle: seconds) }
    /// Returns a timeout with a limit on the total duration of the operation.
    public static func total(_ seconds: TimeInterval) -> RequestTimeout { RequestTimeout(total: seconds) }

    /// Returns a timeout with a limit on the time without any bytes transferred.
    public static func idle(_ duration: Duration) -> RequestTimeout { idle(duration / .seconds(1)) }
    /// Returns a timeout with a limit on the total duration of the operation.
    public static func total(_ duration: Duration) -> RequestTimeout { total(duration / .seconds(1)) }
}

extension RequestTimeout: ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral {
    /// Creates a timeout with a limit on the total duration, in seconds.
    public init(integerLiteral value: Int) { self.init(total: TimeInterval(value)) }
    /// Creates a timeout with a limit on the total duration, in seconds.
    public init(floatLiteral value: Double) { self.init(total: value) }
}
