import ConvoySerialization
import Foundation
import FoundationNetworking

/// The result of a request method with handlers: an operation, or a task with an operation.
public protocol HTTPRequestHandle: AnyObject, Sendable {
    /// The operation of the request, for access to its results, dependencies and settings.
    var operation: HTTPRequestOperation { get }
}

extension HTTPRequestOperation: HTTPRequestHandle {
    /// The operation itself.
    public final var operation: HTTPRequestOperation { self }
}

/// An operation with a typed value, which dependent operations receive without a cast.
///
/// Create typed operations with a manager.
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
/// The value is decoded before the operation finishes; if the response cannot be decoded, the operation fails. All
/// members can be used from any thread.
public final class TypedOperation<Value: Sendable>: HTTPRequestHandle {
    /// The underlying operation.
    public let operation: HTTPRequestOperation

    /// Creates the typed form of an operation whose `responseObject` is a `Value`, for example an operation of your own
    /// class, a download, or an operation with your own serializer.
    ///
    /// - Parameters:
    ///   - operation: The underlying operation.
    ///   - type: The type of the objects created by the operation's serializer. For an object of a different type,
    ///     ``result`` is a failure.
    public init(_ operation: HTTPRequestOperation, as type: Value.Type = Value.self) { self.operation = operation }

    /// The value, or the reason why it is missing: the operation's `error`, or `URLError.cannotParseResponse` if the
    /// response was empty or of a different type. The result is nil until the operation has finished.
    public var result: Result<Value, any Error>? {
        guard operation.isFinished else { return nil }
        if let error = operation.error { return .failure(error) }
        return Result { try operation.value(of: operation.responseObject) }
    }

    /// Waits until the operation has finished and its handlers have run, and returns its value. Like
    /// `URLConnectionOperation.finished()`, it starts the operation and its dependencies if they are not enqueued.
    /// Cancelling the task cancels the operation.
    ///
    /// - Throws: The failure of ``result``.
    public func value() async throws -> Value { try await operation.value() }

    /// Sets the handler for the ``result``, called once on the operation's `completionQueue`. Replaces the handlers of
    /// `setCompletionHandler(success:failure:)`.
    public func setCompletionHandler(_ handler: @escaping @Sendable (Result<Value, any Error>) -> Void) {
        operation.setCompletionHandler(
            success: { operation, object in handler(Result { try operation.value(of: object) }) },
            failure: { _, error in handler(.failure(error)) })
    }

    /// Returns a new operation for the same request, with the same settings: see `URLConnectionOperation.makeCopy()`.
    /// If this operation has not begun, the copy takes its inputs from the same operations.
    public func makeCopy() -> TypedOperation { TypedOperation(operation.makeCopy()) }
}

/// Methods that use the result of one operation as the input of another.
extension HTTPRequestHandle {
    /// Makes this request wait for `dependency`, and passes the dependency's value to `prepare`, which writes it into
    /// the request.
    ///
    /// `prepare` is called once, however often the request is paused or retried, when all dependencies have finished
    /// and the operation begins. It runs on an internal thread, which it may block. Closures are called in the order in
    /// which they were added, followed by `URLConnectionOperation.prepare`. If a closure throws, its error becomes the
    /// operation's error, and nothing is sent. If the dependency succeeds without a value, the operation fails in the
    /// same way, with `URLError.cannotParseResponse`.
    ///
    /// If the dependency fails or is cancelled, `prepare` is not called, nothing is sent, and this operation fails with
    /// the dependency's error. The `dependencyFailurePolicy` can change that: with `.cancel`, this operation is
    /// cancelled, with the dependency's error as the underlying error; with `.run`, if set explicitly, the request is
    /// sent unmodified. If the dependency was removed with `removeDependency` and has not finished, this operation
    /// fails with `URLError.resourceUnavailable`.
    ///
    /// Call this before the operation starts; later calls have no effect.
    ///
    /// - Parameters:
    ///   - dependency: The operation that provides the value. The caller must enqueue it.
    ///   - prepare: A closure that modifies the request with the value, or throws. It is released when it has run or
    ///     the operation has finished.
    public func depend<Input>(
        on dependency: TypedOperation<Input>,
        prepare: @escaping @Sendable (_ input: Input, _ request: inout URLRequest) throws -> Void
    ) {
        operation.add(
            DependencyInput(sources: [dependency.operation]) { request in
                try prepare(try dependency.input(), &request)
            })
    }

    /// Makes this request wait for two dependencies, and passes their values to `prepare`, which writes them into the
    /// request. If one of the dependencies fails, `prepare` is not called. The rules for a single dependency also
    /// apply.
    public func depend<First, Second>(
        on first: TypedOperation<First>, _ second: TypedOperation<Second>,
        prepare: @escaping @Sendable (_ first: First, _ second: Second, _ request: inout URLRequest) throws -> Void
    ) {
        operation.add(
            DependencyInput(sources: [first.operation, second.operation]) { request in
                try prepare(try first.input(), try second.input(), &request)
            })
    }

    /// Makes this request wait for three dependencies, and passes their values to `prepare`, which writes them into the
    /// request. If one of the dependencies fails, `prepare` is not called. The rules for a single dependency also
    /// apply.
    public func depend<First, Second, Third>(
        on first: TypedOperation<First>, _ second: TypedOperation<Second>, _ third: TypedOperation<Third>,
        prepare:
            @escaping @Sendable (
                _ first: First, _ second: Second, _ third: Third, _ request: inout URLRequest
            ) throws -> Void
    ) {
        operation.add(
            DependencyInput(sources: [first.operation, second.operation, third.operation]) { request in
                try prepare(try first.input(), try second.input(), try third.input(), &request)
            })
    }

    /// Makes this request wait for any number of dependencies of one type, and passes their values, in the order of
    /// `dependencies`, to `prepare`, which writes them into the request. If one of the dependencies fails, `prepare` is
    /// not called. The rules for a single dependency also apply.
    public func depend<Input>(
        on dependencies: [TypedOperation<Input>],
        prepare: @escaping @Sendable (_ inputs: [Input], _ request: inout URLRequest) throws -> Void
    ) {
        operation.add(
            DependencyInput(sources: dependencies.map(\.operation)) { request in
                try prepare(try dependencies.map { try $0.input() }, &request)
            })
    }
}

extension TypedOperation {
    /// Returns the value for an operation that depends on this one.
    fileprivate func input() throws -> Value {
        if let error = operation.error { throw error }
        return try operation.value(of: operation.responseObject)
    }
}

/// The rules for decoding the body of a response as a value of the requested type.
enum AwaitedValue {
    /// Returns the serializer for values of a type: `Data` and `String` of any content type, ``JSON`` of any shape,
    /// `HTTPBodyCodable` values of their own content type, optional or not, and everything else as `Decodable`, under
    /// the rules of the manager's serializer.
    static func serializer<Value: Decodable & Sendable>(
        of type: Value.Type, rules: HTTPResponseSerializer, decoder: JSONDecoder
    ) -> any HTTPResponseSerialization {
        switch type {
        case is Data.Type: return raw(rules)
        case is String.Type:
            var serializer = StringResponseSerializer()
            serializer.http = raw(rules)
            return serializer
        case is JSON.Type:
            var serializer = JSONTreeResponseSerializer()
            serializer.http = rules
            return serializer
        case let type as any HTTPBodyCodable.Type: return ownSerializer(of: type, rules: rules)
        default:
            let optional = (type as? any OptionalType.Type)?.serializer(rules: rules, decoder: decoder)
            return optional ?? DecodableResponseSerializer<Value>(rules, decoder: decoder)
        }
    }

    fileprivate static func ownSerializer<Value: HTTPBodyCodable>(
        of type: Value.Type, rules: HTTPResponseSerializer
    ) -> any HTTPResponseSerialization {
        HTTPBodyResponseSerializer(type, rules: rules)
    }

    /// Returns the same rules without the default JSON content types, which raw bytes need not have.
    private static func raw(_ rules: HTTPResponseSerializer) -> HTTPResponseSerializer {
        var rules = rules
        if rules.acceptableContentTypes == JSONResponseSerializer.contentTypes { rules.acceptableContentTypes = nil }
        return rules
    }

    /// Returns the value of a response without a body; nil if the type has no empty value.
    static func empty<Value>(_ type: Value.Type) -> Value? {
        switch type {
        case is Data.Type: Data() as? Value
        case is String.Type: "" as? Value
        case let type as any OptionalType.Type: type.none as? Value
        default: nil
        }
    }
}

private protocol OptionalType {
    static var none: Any { get }
    /// Returns the serializer of the wrapped type, unless it is decoded as JSON, where `null` is also a value.
    static func serializer(rules: HTTPResponseSerializer, decoder: JSONDecoder) -> (any HTTPResponseSerialization)?
}

extension Optional: OptionalType {
    fileprivate static var none: Any { Wrapped?(nil) as Any }

    fileprivate static func serializer(
        rules: HTTPResponseSerializer, decoder: JSONDecoder
    ) -> (any HTTPResponseSerialization)? {
        switch Wrapped.self {
        case let type as Data.Type: AwaitedValue.serializer(of: type, rules: rules, decoder: decoder)
        case let type as String.Type: AwaitedValue.serializer(of: type, rules: rules, decoder: decoder)
        case let type as JSON.Type: AwaitedValue.serializer(of: type, rules: rules, decoder: decoder)
        case let type as any HTTPBodyCodable.Type: AwaitedValue.ownSerializer(of: type, rules: rules)
        default: nil
        }
    }
}

extension RequestSettings.Values {
    /// Sets the serializer for values of a type. The awaiting task decodes the body if the response is acceptable and
    /// needs no other processing.
    mutating func await<Value: Decodable & Sendable>(_ type: Value.Type) {
        let chosen = AwaitedValue.serializer(of: type, rules: serializer.serializer.http, decoder: decoder ?? JSONDecoder())
        serializer = PreparedSerializer(chosen)
        holder.awaitedValue = chosen as? any DirectJSONDecoding
    }
}
