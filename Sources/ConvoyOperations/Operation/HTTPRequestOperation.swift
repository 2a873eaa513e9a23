import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// An HTTP request as an operation, whose response a serializer validates and parses. The counterpart of
/// `AFHTTPRequestOperation`.
///
/// The serializer runs before the operation finishes, so that an operation that depends on this one finds
/// `responseObject` and `error` in place.
open class HTTPRequestOperation: URLConnectionOperation, @unchecked Sendable {
    /// Called with the operation and its `responseObject`.
    public typealias Success = @Sendable (_ operation: HTTPRequestOperation, _ responseObject: Any?) -> Void
    /// Called with the operation and its `error`.
    public typealias Failure = @Sendable (_ operation: HTTPRequestOperation, _ error: any Error) -> Void

    /// Validates and parses the response, on a queue of the library's own. A plain `HTTPResponseSerializer`, which
    /// delivers the body as it is, unless set.
    public final var responseSerializer: any HTTPResponseSerialization {
        get { core.withLock { $0.common.values.serializer.serializer } }
        set {
            let facts = SerializerFacts(newValue)
            let old = change { values in
                defer { values.serializer = facts }
                return values.serializer
            }
            withExtendedLifetime(old) {}
        }
    }

    /// What the serializer made of the body; nil until the operation has finished, and where there is nothing. For
    /// a response with an unacceptable status this is its parsed body, beside `error`.
    public final var responseObject: Any? {
        guard hasOutcome else { return nil }
        let (object, undecoded) = core.withLock { core in
            (core.object, core.isUndecoded ? (core.common.values.serializer.serializer, core.head, core.data) : nil)
        }
        // Left to the task that awaits it: somebody else asks too.
        if let (serializer, head, data) = undecoded {
            return try? serializer.responseObject(for: head?.urlResponse, data: data)
        }
        return object?.object
    }

    /// Sets what is called when the operation has finished, on `completionQueue`: `success` if there is no error, or
    /// else `failure`. A cancelled operation calls `failure` with `URLError.cancelled`. Replaces earlier ones that have not
    /// been called. Set after the end, they are called as well, once.
    public final func setCompletionHandler(success: Success? = nil, failure: Failure? = nil) {
        setFinalHandlers { ($0.success, $0.failure) = (success, failure) }
    }

    package override var serializesResponse: Bool { true }
}

extension HTTPRequestOperation {
    /// Lets the operation fail with the error when it is started: what becomes of a request that could not be made,
    /// so that whoever waits for it hears of it in the same way.
    func fail(with error: any Error) {
        core.withLock { $0.presetFailure = error }
    }

    /// As `finished()`, and decodes the body here if it was left to the caller.
    final func decodedValue<Value: Decodable & Sendable>(as type: Value.Type) async throws -> Value {
        try await finished()
        let (data, head, awaited) = core.withLock {
            ($0.isUndecoded ? $0.data : nil, $0.head, $0.common.values.awaitedValue)
        }
        guard let data, let serializer = awaited as? DecodableResponseSerializer<Value> else {
            return try value(of: responseObject)
        }
        do {
            if let value = try serializer.value(ofPlain: data) { return value }
            return try value(of: nil)
        } catch {
            // Once more, for the error that tells of the response.
            return try value(of: try serializer.value(for: head?.urlResponse, data: data))
        }
    }

    final func value<Value>(of object: Any?) throws -> Value {
        if let value = object as? Value { return value }
        if object == nil, let value = AwaitedValue.empty(Value.self) { return value }
        throw URLError(
            .cannotParseResponse, url: request.url,
            "The response is \(object.map { "of type \(Swift.type(of: $0))" } ?? "empty"), not \(Value.self).")
    }

    /// As `finished()`, and delivers `responseObject` as the type that the serializer makes.
    ///
    /// - Throws: the operation's `error`, or `URLError.cannotParseResponse` where the object is of another type.
    public final func value<Value: Sendable>(as type: Value.Type = Value.self) async throws -> Value {
        try await finished()
        return try value(of: responseObject)
    }
}
