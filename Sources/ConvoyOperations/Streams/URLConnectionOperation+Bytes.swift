import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// Methods that read the body as it arrives.
extension URLConnectionOperation {
    /// Returns the body as an asynchronous sequence, instead of `responseData`. Call this once, before the operation
    /// begins: ideally before it is enqueued.
    ///
    /// ```swift
    /// let log = try manager.makeOperation(.get, "log")
    /// log.addDependency(login)
    /// let bytes = try log.bytes()
    /// manager.enqueue([login, log])
    /// for try await line in bytes.lines { print(line) }
    /// ```
    ///
    /// Like `finished()`, the loop or ``ResponseBytes/response`` starts an operation that was neither enqueued nor
    /// started. The operation keeps its slot in its queue until the last byte has arrived. The response serializer
    /// checks the status code, but does not receive the body. The body of a response with an unacceptable status code
    /// becomes `responseData`, and is parsed.
    ///
    /// - Throws: ``ResponseBytesError/hasBegun``, or ``ResponseBytesError/goesElsewhere``.
    public final func bytes() throws -> ResponseBytes {
        let pipe = ResponsePipe()
        let refusal = core.withLock { core -> ResponseBytesError? in
            if core.hasBegun || core.isFinished { return .hasBegun }
            if core.place != nil || core.worker != nil { return .goesElsewhere }
            core.place = BodyDestination(pipe)
            return nil
        }
        if let refusal { throw refusal }
        if serializesResponse {
            change { values in
                values.holder.awaitedValue = nil
                values.serializer = PreparedSerializer(StreamedResponseSerializer(base: values.serializer.serializer))
            }
        }
        return ResponseBytes(reading: ResponseReading(of: self, from: pipe))
    }
}

/// A serializer that checks the status code of a response whose body is read as it arrives. The body of an unacceptable
/// response is parsed by the base serializer, so that the error is the same.
struct StreamedResponseSerializer: HTTPResponseSerialization {
    var base: any HTTPResponseSerialization

    var http: HTTPResponseSerializer {
        get { base.http }
        set { base.http = newValue }
    }

    func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        if let data { return try base.responseObject(for: response, data: data) }
        try HTTPResponseSerializer(statusesOf: base).validate(response, data: nil)
        return nil
    }
}
