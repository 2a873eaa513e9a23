import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// An HTTP request operation whose serializer validates and parses the response. The counterpart of
/// `AFHTTPRequestOperation`.
///
/// The serializer runs before the operation finishes, so operations that depend on it can read `responseObject` and
/// `error`.
open class HTTPRequestOperation: URLConnectionOperation, @unchecked Sendable {
    /// A handler called with the operation and its `responseObject`.
    public typealias Success = @Sendable (_ operation: HTTPRequestOperation, _ responseObject: Any?) -> Void
    /// A handler called with the operation and its `error`.
    public typealias Failure = @Sendable (_ operation: HTTPRequestOperation, _ error: any Error) -> Void

    /// The object created from the body by the serializer; nil until the operation has finished, or if the serializer
    /// returned nil. For a response with an unacceptable status code, this is the parsed body of that response, and
    /// `error` is set too.
    public final var responseObject: Any? { result.flatMap { object(of: $0) } }

    /// Returns the response object of a result.
    final func object(of result: OperationCore.StoredResult) -> Any? {
        switch result.object {
        case .none: nil
        case .body: result.data
        case .made(let box): box.object
        // The awaiting task was expected to decode the body, but another caller reads the object.
        case .undecoded: try? serializerWithDecoder.responseObject(for: response, data: result.data)
        }
    }

    /// Sets the completion handlers, called on `completionQueue`: `success` if the operation has no error, otherwise
    /// `failure`. A cancelled operation calls `failure` with `URLError.cancelled`. Replaces earlier handlers that have
    /// not been called yet. Handlers set after the operation has finished are also called once.
    public final func setCompletionHandler(success: Success? = nil, failure: Failure? = nil) {
        setFinalHandlers { ($0.success, $0.failure) = (success, failure) }
    }

    /// Validates and parses the response before the operation finishes. The result becomes `responseObject`, and a
    /// thrown error becomes `error`. Calls `responseSerializer` unless overridden.
    ///
    /// ```swift
    /// final class UserOperation: HTTPRequestOperation, @unchecked Sendable {
    ///     override func responseObject(for response: HTTPURLResponse?, data: Data?) throws -> Any? {
    ///         guard let data = try super.responseObject(for: response, data: data) as? Data else { return nil }
    ///         return try JSONDecoder().decode(User.self, from: data)
    ///     }
    /// }
    /// ```
    ///
    /// This method is called on an internal concurrent queue, where it may block for a while. It is called once, for
    /// the final response, and not at all if the transfer failed.
    ///
    /// - Parameters:
    ///   - response: The response; nil if the transport provided no response.
    ///   - data: The body; nil if it was written to `outputStream` or the request was a HEAD request.
    open func responseObject(for response: HTTPURLResponse?, data: Data?) throws -> Any? {
        try serializerWithDecoder.responseObject(for: response, data: data)
    }

    /// The serializer, which uses the manager's decoder unless it has its own.
    private var serializerWithDecoder: any HTTPResponseSerialization {
        let settings = settings
        return settings.values.serializer.serializer(decodingBy: settings.values.decoder)
    }

    package override var serializesResponse: Bool { true }
    package override var serializesPlainly: Bool { type(of: self) == HTTPRequestOperation.self }
    package override func makeResponseObject(for response: HTTPURLResponse?, data: Data?) throws -> Any? {
        try responseObject(for: response, data: data)
    }
}

extension HTTPRequestOperation {
    /// Makes the operation fail with the given error when it is started, so that a request that could not be created is
    /// reported like a failed request.
    package final func fail(with error: any Error) {
        set((any Error)?.some(error)) { swap(&$0.presetFailure, &$1) }
    }

    /// Waits like `finished()`, then returns the value, decoding the body on the calling task if it has not been
    /// decoded.
    final func decodedValue<Value: Decodable & Sendable>(as type: Value.Type) async throws -> Value {
        try await finished()
        let (result, head, awaited) = core.withLock { ($0.result, $0.head, $0.common.prepared.awaitedValue) }
        guard case .undecoded = result.object, let data = result.data,
            let serializer = awaited as? DecodableResponseSerializer<Value>
        else { return try value(of: responseObject) }
        do {
            if let value = try serializer.value(ofPlain: data) { return value }
            return try value(of: nil)
        } catch {
            // Decode the body again to get an error that describes the response.
            do {
                return try value(of: try serializer.value(for: head?.urlResponse, data: data))
            } catch {
                throw decodable(error)
            }
        }
    }

    final func value<Value>(of object: Any?) throws -> Value {
        if let value = object as? Value { return value }
        if object == nil, let value = AwaitedValue.empty(Value.self) { return value }
        throw URLError(
            .cannotParseResponse, url: request.url,
            "The response is \(object.map { "of type \(Swift.type(of: $0))" } ?? "empty"), not \(Value.self).")
    }

    /// Waits like `finished()`, and returns `responseObject` as the given type. If the serializer does not create
    /// objects of that type, a `Decodable` type is decoded from the body with the manager's `decoder`, as in the
    /// manager's async calls.
    ///
    /// - Throws: The operation's `error`, an `HTTPError` if the body cannot be decoded, or
    ///   `URLError.cannotParseResponse` if the response provides neither an object of the type nor a body to decode.
    public final func value<Value: Sendable>(as type: Value.Type = Value.self) async throws -> Value {
        try await finished()
        let object = responseObject
        if object is Value || object == nil { return try value(of: object) }
        guard let type = Value.self as? any (Decodable & Sendable).Type, let data = responseData else {
            return try value(of: object)
        }
        return try value(of: decoded(data, as: type))
    }

    private func decoded<Value: Decodable & Sendable>(_ data: Data, as type: Value.Type) throws -> Any? {
        let values = settings.values
        return try AwaitedValue.serializer(
            of: type, rules: values.responseSerializer.http, decoder: values.decoder ?? JSONDecoder()
        ).responseObject(for: response, data: data)
    }
}

extension RetryPolicy {
    /// Evaluates the policy for a failed operation that has no retry policy itself, because the operation is one
    /// attempt of a task that outlives it.
    ///
    /// - Parameter retryCount: The number of earlier retries.
    /// - Returns: nil if the policy does not cover the failure.
    package func evaluate(
        _ operation: HTTPRequestOperation, retryCount: Int, elapsed: TimeInterval, random: Double = .random(in: 0...1)
    ) -> RetryEvent? {
        let request = operation.request
        let failure = operation.error as? URLError
        let retryAfter = operation.response?.value(forHTTPHeaderField: "Retry-After").flatMap(RetryAfter.seconds)
        let facts = FailedAttempt(
            host: request.url.flatMap { Target($0)?.authority }, method: request.httpMethod ?? "GET",
            statusCode: failure == nil ? operation.statusCode : nil, error: failure, retryCount: retryCount,
            countedRetries: retryCount, elapsed: elapsed, retryAfter: failure == nil ? retryAfter : nil, timeLeft: nil,
            canSendBodyAgain: true,
            nothingWasSent: operation.wasCertainlyNotSent)
        return evaluate(facts, random: random)
    }
}
