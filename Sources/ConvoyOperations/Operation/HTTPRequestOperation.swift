import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// An HTTP request as an operation, whose response a serializer validates and parses: `AFHTTPRequestOperation`'s
/// place.
///
/// The serializer runs before the operation finishes, so that an operation that depends on this one finds
/// `responseObject` and `error` in place.
open class HTTPRequestOperation: URLConnectionOperation, @unchecked Sendable {
    /// Called with the operation and its `responseObject`.
    public typealias Success = @Sendable (_ operation: HTTPRequestOperation, _ responseObject: Any?) -> Void
    /// Called with the operation and its `error`.
    public typealias Failure = @Sendable (_ operation: HTTPRequestOperation, _ error: any Error) -> Void

    private struct HTTPSettings {
        var serializer: any URLResponseSerialization = HTTPResponseSerializer()
        /// The same, if it is the one that parses nothing: found out once, when it is set.
        var plain: HTTPResponseSerializer? = HTTPResponseSerializer()
        /// How much it parses at most, if it says so.
        var parsingLimit: Int?
        /// Which statuses it accepts, nil for all; asked when it is set, as the network thread runs no code of a user's.
        var acceptableStatusCodes = HTTPResponseSerializer().acceptableStatusCodes
        var success: Success?
        var failure: Failure?
    }

    private let httpSettings = Locked(HTTPSettings())

    /// Validates and parses the response, on a queue of the library's own. A plain `HTTPResponseSerializer`, which
    /// delivers the body as it is, unless set.
    public final var responseSerializer: any URLResponseSerialization {
        get { httpSettings.withLock { $0.serializer } }
        set {
            let plain = newValue as? HTTPResponseSerializer
            let limit = plain == nil ? (newValue as? any HTTPResponseSerialization)?.limits.maximumBodySize : nil
            let codes = (newValue as? any HTTPResponseSerialization).map(\.acceptableStatusCodes) ?? .successful
            httpSettings.withLock { settings in
                settings.serializer = newValue
                settings.acceptableStatusCodes = codes
                settings.plain = plain
                settings.parsingLimit = limit
            }
        }
    }

    /// What the serializer made of the body; nil until the operation has finished, and where there is nothing. For
    /// a response with an unacceptable status this is its parsed body, beside `error`.
    public final var responseObject: Any? { hasOutcome ? results.withLock { $0.object }?.object : nil }

    /// Sets what is called when the operation has finished, on `completionQueue`: `success` if there is no error, or
    /// else `failure`. A cancelled operation calls `failure` with `URLError.cancelled`. Replaces earlier ones.
    public final func setCompletionHandler(success: Success? = nil, failure: Failure? = nil) {
        let old = httpSettings.withLock { settings in
            defer { (settings.success, settings.failure) = (success, failure) }
            return (settings.success, settings.failure)
        }
        withExtendedLifetime(old) {}
    }

    package override func takeSettings(of other: URLConnectionOperation) {
        guard let other = other as? HTTPRequestOperation else { return }
        responseSerializer = other.responseSerializer
    }

    package override func takeCompletionHandlers() -> (@Sendable () -> Void)? {
        let (success, failure) = httpSettings.withLock { settings in
            defer { (settings.success, settings.failure) = (nil, nil) }
            return (settings.success, settings.failure)
        }
        guard success != nil || failure != nil else { return nil }
        return { [self] in
            if let error { failure?(self, error) } else { success?(self, responseObject) }
        }
    }

    package override func belongsIntoOutput(_ head: ResponseHead) -> Bool {
        httpSettings.withLock { $0.acceptableStatusCodes }?.contains(head.statusCode) ?? true
    }

    package override var memoryLimit: Int {
        min(super.memoryLimit, httpSettings.withLock { $0.parsingLimit } ?? .max)
    }

    package override func process(
        head: ResponseHead?, data: Data?, done: @escaping @Sendable (Results.Processed) -> Void
    ) {
        let (serializer, plain) = httpSettings.withLock { ($0.serializer, $0.plain) }
        let isHead = data?.isEmpty != false && request.httpMethod == "HEAD"
        // The common case costs no hop and no Foundation response.
        if let head, let plain, plain.acceptsWithoutHeaders(statusCode: head.statusCode) {
            return done(Results.Processed(object: ObjectBox(object: isHead ? nil : data), error: nil))
        }
        CompletionOutbox.post(to: OperationQueues.processing) {
            do {
                let object = try serializer.responseObject(for: head?.urlResponse, data: isHead ? nil : data)
                done(Results.Processed(object: ObjectBox(object: object), error: nil))
            } catch {
                done(Results.Processed(object: ObjectBox(object: error.serializedResponseObject), error: error))
            }
        }
    }
}

extension HTTPRequestOperation {
    /// Lets the operation fail with the error when it is started: what becomes of a request that could not be made,
    /// so that whoever waits for it hears of it in the same way.
    func fail(with error: any Error) {
        settings.withLock { $0.presetFailure = error }
    }

    /// Waits until the operation has finished and its handlers have run. Cancelling the task cancels the operation.
    ///
    /// The operation must have been enqueued or started, or be so later: nobody else does that. Only a cancelled one
    /// that is in no queue is started here, so that it finishes. (One whose `isReady` somebody has evaluated counts as
    /// being in a queue of Foundation's, which does that; see `cancel()`.)
    ///
    /// - Throws: the operation's `error`.
    public final func finished() async throws {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                whenDelivered { continuation.resume() }
                beAwaited()
            }
        } onCancel: {
            cancel()
        }
        if let error { throw error }
    }

    /// As `finished()`, and delivers `responseObject` as the type that the serializer makes.
    ///
    /// - Throws: the operation's `error`, or `URLError.cannotParseResponse` where the object is of another type.
    public final func value<Value: Sendable>(as type: Value.Type = Value.self) async throws -> Value {
        try await finished()
        guard let value = responseObject as? Value else {
            throw URLError(
                .cannotParseResponse, url: request.url,
                "The response is \(responseObject.map { "of type \(Swift.type(of: $0))" } ?? "empty"), not \(type).")
        }
        return value
    }
}
