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
/// The verbs are methods of this protocol; a type of your own gets them from an ``operationManager`` of its own.
public protocol HTTPManager: RequestConfigurable {
    /// What the verbs with handlers return, and what the handlers get: an operation, or a task.
    associatedtype Request: HTTPRequestHandle

    /// What makes the operations of all requests, and has their settings.
    var operationManager: HTTPRequestOperationManager { get }

    /// The URL against which relative URLs are resolved.
    var baseURL: URL? { get }
    /// Makes requests of parameters.
    var requestSerializer: any HTTPRequestSerialization { get set }
    /// Decodes the JSON of awaited values.
    var decoder: JSONDecoder { get set }
    /// Encodes what the calls are given as `body`.
    var encoder: JSONEncoder { get set }

    /// Makes a new operation, which ``operationManager`` has made, one of this manager's. It has not been started or
    /// enqueued, and is not now. Called on the thread that calls a verb, once for each operation.
    func adopt(_ operation: HTTPRequestOperation, as kind: HTTPRequestKind)

    /// Begins the request of an operation that was adopted. On the completion queue, `success` is called with the request
    /// and its `responseObject`, or `failure` with the request and its error.
    @discardableResult
    func begin(
        _ operation: HTTPRequestOperation, success: (@Sendable (Request, Any?) -> Void)?,
        failure: (@Sendable (Request, any Error) -> Void)?
    ) -> Request

    /// Enqueues operations that `makeOperation` has made, and others, in this order.
    func enqueue(_ operations: [Operation])
}

/// What a request is for: which class of task it has in a session.
public enum HTTPRequestKind: Sendable, Hashable {
    /// A response that is kept in memory.
    case data
    /// A body that is sent: a file, data, a stream, or a form with parts.
    case upload
    /// A response that goes into a file.
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

    /// Makes an operation one of the manager's.
    func adopted(_ operation: HTTPRequestOperation, as kind: HTTPRequestKind) -> HTTPRequestOperation {
        adopt(operation, as: kind)
        return operation
    }

    /// Begins the request of a new operation. One that cannot be made fails like one that the network refuses: through the
    /// request, to `failure`.
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
        beginAwaited(operation, as: kind)
        try await operation.finished()
        return operation
    }

    /// The same for a value that the awaiting task decodes.
    nonisolated(nonsending) func value<Value: Decodable & Sendable>(
        of operation: HTTPRequestOperation, as kind: HTTPRequestKind
    ) async throws -> Value {
        beginAwaited(operation, as: kind)
        return try await operation.decodedValue(as: Value.self)
    }

    /// Begins the request of a new operation. It sends nothing if the task that awaits it is cancelled by now.
    private func beginAwaited(_ operation: HTTPRequestOperation, as kind: HTTPRequestKind) {
        let operation = adopted(operation, as: kind)
        if Task.isCancelled { operation.cancel() }
        begin(operation, success: nil, failure: nil)
    }
}

extension HTTPRequestOperationManager: HTTPManager {
    /// The manager itself.
    public final var operationManager: HTTPRequestOperationManager { self }

    /// Does nothing: an operation that the manager has made is its own.
    public final func adopt(_ operation: HTTPRequestOperation, as kind: HTTPRequestKind) {}

    /// Enqueues the operation, with handlers, and returns it.
    @discardableResult
    public final func begin(
        _ operation: HTTPRequestOperation, success: HTTPRequestOperation.Success?,
        failure: HTTPRequestOperation.Failure?
    ) -> HTTPRequestOperation {
        if success != nil || failure != nil { operation.setCompletionHandler(success: success, failure: failure) }
        return enqueue(operation)
    }
}

/// What a manager's calls take as a URL: a text, absolute or relative to the manager's `baseURL`, or a `URL`.
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
    /// The absolute text; of a URL without a scheme or base its own, which a manager takes as relative to its base.
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
public struct Timeout: Sendable, Hashable {
    /// How long the transfer may be without a byte. nil leaves it as the request or the manager has it, which is 60
    /// unless set.
    public var idle: TimeInterval?
    /// How long the operation may take in all: waiting for its retries, and its pauses, included. nil leaves it as the
    /// manager has it, which is no limit unless set.
    public var total: TimeInterval?

    /// Limits for both, or for one of them.
    public init(idle: TimeInterval? = nil, total: TimeInterval? = nil) {
        self.idle = idle
        self.total = total
    }

    /// How long the transfer may be without a byte.
    public static func idle(_ seconds: TimeInterval) -> Timeout { Timeout(idle: seconds) }
    /// How long the operation may take in all.
    public static func total(_ seconds: TimeInterval) -> Timeout { Timeout(total: seconds) }

    /// How long the transfer may be without a byte.
    public static func idle(_ duration: Duration) -> Timeout { idle(duration / .seconds(1)) }
    /// How long the operation may take in all.
    public static func total(_ duration: Duration) -> Timeout { total(duration / .seconds(1)) }
    /// How long the operation may take in all.
    public static func seconds(_ seconds: TimeInterval) -> Timeout { total(seconds) }
    /// How long the operation may take in all.
    public static func milliseconds(_ milliseconds: TimeInterval) -> Timeout { total(milliseconds / 1000) }
}

extension Timeout: ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral {
    /// Seconds in all.
    public init(integerLiteral value: Int) { self.init(total: TimeInterval(value)) }
    /// Seconds in all.
    public init(floatLiteral value: Double) { self.init(total: value) }
}
