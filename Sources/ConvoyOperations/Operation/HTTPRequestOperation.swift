import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// An HTTP request as an operation, with a serializer that validates and parses the response. The counterpart of
/// `AFHTTPRequestOperation`.
///
/// The serializer runs before the operation finishes, so that an operation that depends on this one finds
/// `responseObject` and `error` in place.
open class HTTPRequestOperation: URLConnectionOperation, @unchecked Sendable {
    /// Called with the operation and its `responseObject`.
    public typealias Success = @Sendable (_ operation: HTTPRequestOperation, _ responseObject: Any?) -> Void
    /// Called with the operation and its `error`.
    public typealias Failure = @Sendable (_ operation: HTTPRequestOperation, _ error: any Error) -> Void

    /// The object that the serializer made from the body; nil until the operation has finished, and if there is no
    /// object. For a response with an unacceptable status it is the parsed body of that response, and `error` is set
    /// too.
    public final var responseObject: Any? {
        guard hasOutcome else { return nil }
        let (object, data) = core.withLock { core in (core.object, core.data) }
        return self.object(object, of: data)
    }

    /// The object for a response with this body.
    final func object(_ object: OperationCore.ResponseObject, of data: Data?) -> Any? {
        switch object {
        case .none: nil
        case .body: data
        case .made(let box): box.object
        // Decoding was left to the awaiting task, but the object is read all the same.
        case .undecoded: try? serializerWithDecoder.responseObject(for: response, data: data)
        }
    }

    /// Sets the handlers for the end, called on `completionQueue`: `success` if there is no error, or else `failure`. A
    /// cancelled operation calls `failure` with `URLError.cancelled`. Replaces earlier ones that were not called yet.
    /// Handlers that are set after the end are called once, too.
    public final func setCompletionHandler(success: Success? = nil, failure: Failure? = nil) {
        setFinalHandlers { ($0.success, $0.failure) = (success, failure) }
    }

    /// Validates and parses the response, before the operation finishes: its result becomes `responseObject`, its error
    /// becomes `error`. Calls `responseSerializer` unless overridden.
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
    /// Called on a concurrent queue of the library's own, which it may block for a while, once for each response that
    /// counts; not after a failure of the transfer.
    ///
    /// - Parameters:
    ///   - response: nil where the transport has brought none.
    ///   - data: the body; nil if it went to `outputStream`, or if the request was a HEAD.
    open func responseObject(for response: HTTPURLResponse?, data: Data?) throws -> Any? {
        try serializerWithDecoder.responseObject(for: response, data: data)
    }

    /// The serializer, with the manager's decoder where it has none of its own.
    private var serializerWithDecoder: any HTTPResponseSerialization {
        let (facts, decoder) = core.withLock { ($0.common.values.serializer, $0.common.values.decoder) }
        return facts.serializer(decodingBy: decoder)
    }

    package override var serializesResponse: Bool { true }
    package override var serializesPlainly: Bool { type(of: self) == HTTPRequestOperation.self }
    package override func makeResponseObject(for response: HTTPURLResponse?, data: Data?) throws -> Any? {
        try responseObject(for: response, data: data)
    }
}

extension HTTPRequestOperation {
    /// Makes the operation fail with the error when it is started, so that a request that could not be made is reported
    /// like one that failed.
    package final func fail(with error: any Error) {
        set((any Error)?.some(error)) { swap(&$0.presetFailure, &$1) }
    }

    /// As `finished()`, and decodes the body here if it was left to the caller.
    final func decodedValue<Value: Decodable & Sendable>(as type: Value.Type) async throws -> Value {
        try await finished()
        let (object, data, head, awaited) = core.withLock {
            ($0.object, $0.data, $0.head, $0.common.prepared.awaitedValue)
        }
        guard case .undecoded = object, let data, let serializer = awaited as? DecodableResponseSerializer<Value> else {
            return try value(of: responseObject)
        }
        do {
            if let value = try serializer.value(ofPlain: data) { return value }
            return try value(of: nil)
        } catch {
            // Again, for an error that describes the response.
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

    /// Waits like `finished()`, and returns `responseObject` as a type: it is that object where the serializer makes such
    /// objects, and otherwise a `Decodable` type is decoded from the body, as the manager's async calls do it, with the
    /// manager's `decoder`.
    ///
    /// - Throws: the operation's `error`; an `HTTPError` if the body cannot be decoded, `URLError.cannotParseResponse` if
    ///   there is neither such an object nor a body.
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
    /// Decides about an operation without a policy of its own, which has failed and is over: an attempt of something that
    /// outlives the operation.
    ///
    /// - Parameter retryCount: how many retries there were before.
    /// - Returns: nil for a failure that the policy does not cover.
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
