import Foundation

/// The part of a manager that sends its requests. It has no members for programs: a type of your own that adopts
/// ``HTTPManager`` returns the ``HTTPManager/requestSender`` of the manager that it wraps.
public struct RequestSender<Request: HTTPRequestHandle>: Sendable {
    package let sending: any RequestSending<Request>

    package init(_ sending: some RequestSending<Request>) { self.sending = sending }
}

/// A manager that creates operations, and sends them as requests of its own type.
package protocol RequestSending<Request>: AnyObject, Sendable {
    associatedtype Request: HTTPRequestHandle

    /// The manager that creates the operations of the requests, and holds their settings.
    var creator: HTTPRequestOperationManager { get }

    /// Adds a new operation created by ``creator``, without starting or enqueuing it. Called once for each operation, on
    /// the thread that calls a request method.
    func admit(_ operation: HTTPRequestOperation, as kind: HTTPRequestKind)

    /// Begins the request of an admitted operation. On the completion queue, `success` is called with the request and
    /// its `responseObject`, or `failure` with the request and its error.
    func send(
        _ operation: HTTPRequestOperation, success: (@Sendable (Request, Any?) -> Void)?,
        failure: (@Sendable (Request, any Error) -> Void)?
    ) -> Request
}

/// The kind of a request, which determines the class of its task in a session.
package enum HTTPRequestKind: Sendable, Hashable {
    /// A request whose response is kept in memory.
    case data
    /// A request that uploads a file, data, a stream, or a multipart form.
    case upload
    /// A request whose response is stored in a file.
    case download
}

extension HTTPRequestOperationManager: HTTPManager, RequestSending {
    /// The part of the manager that sends its requests.
    public final var requestSender: RequestSender<HTTPRequestOperation> { RequestSender(self) }

    package final var creator: HTTPRequestOperationManager { self }

    /// Has no effect, because the manager has created the operation itself.
    package final func admit(_ operation: HTTPRequestOperation, as kind: HTTPRequestKind) {}

    /// Enqueues the operation with its handlers, and returns it.
    package final func send(
        _ operation: HTTPRequestOperation, success: HTTPRequestOperation.Success?, failure: HTTPRequestOperation.Failure?
    ) -> HTTPRequestOperation {
        if success != nil || failure != nil { operation.setCompletionHandler(success: success, failure: failure) }
        return enqueue(operation)
    }
}
