import ConvoySupport
import Foundation
import FoundationNetworking

/// An operation, with the type of what it brings: so what depends on it gets its value without a cast.
///
/// A manager makes it; ``operation`` is the operation itself, with all that operations have.
///
/// ```swift
/// let login = manager.operation(.post, "login", parameters: ["user": "ada"], as: Session.self)
/// let profile = manager.operation(.get, "me", as: User.self)
/// profile.depend(on: login) { session, request in
///     request.setValue("Bearer \(session.token)", forHTTPHeaderField: "Authorization")
/// }
/// manager.enqueue([login, profile])
/// let user = try await profile.value()
/// ```
///
/// The value is decoded before the operation finishes; a response that cannot be decoded is its failure. All members can be
/// used from any thread.
public final class TypedOperation<Value: Sendable>: HTTPRequestHandle {
    /// The operation that brings the value.
    public let operation: HTTPRequestOperation

    /// The typed form of an operation whose `responseObject` is a `Value`: of a class of your own, a download, or with a
    /// serializer of your own.
    ///
    /// - Parameters:
    ///   - operation: what brings the value.
    ///   - type: what its serializer makes. If it makes something else, ``result`` is a failure.
    public init(_ operation: HTTPRequestOperation, as type: Value.Type = Value.self) { self.operation = operation }

    /// The value, or why there is none: the operation's `error`, or `URLError.cannotParseResponse` where the response was
    /// empty or of another type. nil until the operation has finished.
    public var result: Result<Value, any Error>? {
        guard operation.isFinished else { return nil }
        if let error = operation.error { return .failure(error) }
        return Result { try operation.value(of: operation.responseObject) }
    }

    /// Waits until the operation has finished and its handlers have run, and returns its value. It starts the operation, and
    /// what that depends on, if nobody else does, as `URLConnectionOperation.finished()` does. Cancelling the task cancels
    /// the operation.
    ///
    /// - Throws: the failure of ``result``.
    public func value() async throws -> Value { try await operation.value() }

    /// Sets what is called once with the ``result``, on the operation's `completionQueue`: in place of the handlers of its
    /// `setCompletionHandler(success:failure:)`.
    public func setCompletionHandler(_ handler: @escaping @Sendable (Result<Value, any Error>) -> Void) {
        operation.setCompletionHandler(
            success: { operation, object in handler(Result { try operation.value(of: object) }) },
            failure: { _, error in handler(.failure(error)) })
    }

    /// A new operation for the same request, with the same settings: see `URLConnectionOperation.makeCopy()`. If this one
    /// has not begun, the copy depends on the same operations for its values.
    public func makeCopy() -> TypedOperation { TypedOperation(operation.makeCopy()) }
}
