import ConvoySerialization
import Foundation
import FoundationNetworking

/// Reads the body as it arrives.
extension URLConnectionOperation {
    /// The body as an asynchronous sequence, in place of `responseData`. Call this once, before the operation begins:
    /// best before it is enqueued.
    ///
    /// ```swift
    /// let log = try manager.makeOperation(.get, "log")
    /// log.addDependency(login)
    /// let bytes = try log.bytes()
    /// manager.enqueue([login, log])
    /// for try await line in bytes.lines { print(line) }
    /// ```
    ///
    /// The loop, or ``ResponseBytes/response``, starts an operation that was neither enqueued nor started, like
    /// `finished()`. It keeps its slot in its queue until the last byte has arrived. A response serializer sees the
    /// status, and not the body; that of a status that is not acceptable becomes `responseData`, and is parsed.
    ///
    /// - Throws: ``ResponseBytesError/hasBegun``, or ``ResponseBytesError/goesElsewhere``.
    public final func bytes() throws -> ResponseBytes {
        let pipe = ResponsePipe()
        let refusal = core.withLock { core -> ResponseBytesError? in
            if core.hasBegun || core.isFinished { return .hasBegun }
            if core.place != nil || core.worker != nil { return .goesElsewhere }
            core.place = BodyPlace(pipe)
            return nil
        }
        if let refusal { throw refusal }
        if serializesResponse {
            change { values in
                values.holder.awaitedValue = nil
                values.serializer = SerializerFacts(StreamedResponseSerializer(base: values.serializer.serializer))
            }
        }
        return ResponseBytes(reading: ResponseReading(of: self, from: pipe))
    }
}

/// Checks the status of a response whose body is read as it arrives. The body of an unacceptable status is parsed as by
/// another serializer, so that the error is the same.
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
