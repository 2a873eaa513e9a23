import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Uploads of files, data, streams and forms with parts, with async/await. Cancelling the task cancels the operation.
extension HTTPManager {
    /// Uploads a file, and returns the value of the response. The file is read while it is sent, and again after a
    /// redirect; it is an error when its length has changed meanwhile. Its type is that of its extension, unless a
    /// header says otherwise.
    public nonisolated(nonsending) func upload<Value: Decodable & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .post, fromFile file: URL,
        parameters: [String: Any?]? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .file(file)).reporting(to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }

    /// Uploads a file, and returns the finished operation. Otherwise as the form that returns a value.
    @discardableResult
    public nonisolated(nonsending) func upload(
        _ url: some URLConvertible, method: HTTPMethod = .post, fromFile file: URL,
        parameters: [String: Any?]? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        return try await finish(
            operationManager.makeOperation(call, body: .file(file)).reporting(to: progress), as: .upload)
    }

    /// Uploads data, and returns the value of the response. Its type is `application/octet-stream`, unless a header
    /// says otherwise.
    public nonisolated(nonsending) func upload<Value: Decodable & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .post, from data: Data,
        parameters: [String: Any?]? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .data(data, contentType: MIMEType.unknown)).reporting(
            to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }

    /// Uploads data, and returns the finished operation. Otherwise as the form that returns a value.
    @discardableResult
    public nonisolated(nonsending) func upload(
        _ url: some URLConvertible, method: HTTPMethod = .post, from data: Data,
        parameters: [String: Any?]? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        return try await finish(
            operationManager.makeOperation(call, body: .data(data, contentType: MIMEType.unknown)).reporting(to: progress),
            as: .upload)
    }

    /// Uploads a stream, and returns the value of the response. The stream is read while it is sent, on a thread of the
    /// library's own, up to the given length; a shorter one is an error. It can be sent once: if a redirect or a retry
    /// needs it again, the upload fails, unless it is a `ReplayableBodyStream`.
    public nonisolated(nonsending) func upload<Value: Decodable & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .post, from stream: InputStream, length: Int64,
        parameters: [String: Any?]? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .stream(stream, length: length)).reporting(
            to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }

    /// Uploads a stream, and returns the finished operation. Otherwise as the form that returns a value.
    @discardableResult
    public nonisolated(nonsending) func upload(
        _ url: some URLConvertible, method: HTTPMethod = .post, from stream: InputStream, length: Int64,
        parameters: [String: Any?]? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        return try await finish(
            operationManager.makeOperation(call, body: .stream(stream, length: length)).reporting(to: progress), as: .upload)
    }

    // MARK: Forms with parts

    /// Posts a form with parts (RFC 7578), and returns the value of the response. `constructingBody` appends the parts,
    /// and is called before anything is sent.
    public nonisolated(nonsending) func post<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil, as type: Value.Type = Value.self,
        constructingBody: (inout MultipartFormData) throws -> Void
    ) async throws -> Value {
        let call = ManagerCall(.post, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeMultipartOperation(call, constructingBody).reporting(to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }

    /// Posts a form with parts (RFC 7578), and returns the finished operation. `constructingBody` appends the parts, and
    /// is called before anything is sent.
    @discardableResult
    public nonisolated(nonsending) func post(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil, constructingBody: (inout MultipartFormData) throws -> Void
    ) async throws -> HTTPRequestOperation {
        let call = ManagerCall(.post, url.urlString, parameters, nil, headers, timeout)
        return try await finish(
            operationManager.makeMultipartOperation(call, constructingBody).reporting(to: progress), as: .upload)
    }
}

/// Bodies that are produced while they are sent.
extension HTTPManager {
    /// Uploads an asynchronous sequence of pieces of bytes, `Data` or `[UInt8]` for instance, and returns the finished
    /// operation.
    ///
    /// ```swift
    /// let (bytes, _) = try await source.bytes(.get, "archive")
    /// try await target.upload("archive", method: .put, from: bytes.chunks)
    /// ```
    ///
    /// Each piece is requested when the network accepts it; see `URLRequest.setBody(_:length:)`.
    ///
    /// - Throws: what the sequence throws; otherwise as the other uploads.
    @discardableResult
    public nonisolated(nonsending) func upload<Pieces: AsyncSequence & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .post, from pieces: Pieces, length: Int64? = nil,
        parameters: [String: Any?]? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation
    where Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .sequence(pieces, length: length)).reporting(
            to: progress)
        return try await finish(operation, as: .upload)
    }

    /// Uploads an asynchronous sequence of pieces of bytes, and returns the value of the response. Otherwise as the form that
    /// returns an operation.
    public nonisolated(nonsending) func upload<Value: Decodable & Sendable, Pieces: AsyncSequence & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .post, from pieces: Pieces, length: Int64? = nil,
        parameters: [String: Any?]? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil, as type: Value.Type = Value.self
    ) async throws -> Value
    where Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .sequence(pieces, length: length)).reporting(
            to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }

    /// Uploads an asynchronous sequence that can be made anew, and so can be sent again if necessary, and returns the
    /// finished operation; see `URLRequest.setBody(length:making:)`.
    @discardableResult
    public nonisolated(nonsending) func upload<Pieces: AsyncSequence & SendableMetatype>(
        _ url: some URLConvertible, method: HTTPMethod = .post, length: Int64? = nil,
        parameters: [String: Any?]? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil,
        making make: @escaping @Sendable () throws -> Pieces
    ) async throws -> HTTPRequestOperation
    where Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .sequence(length: length, making: make)).reporting(
            to: progress)
        return try await finish(operation, as: .upload)
    }

    /// Uploads an asynchronous sequence that can be made anew, and returns the value of the response. Otherwise as the form
    /// that returns an operation.
    public nonisolated(nonsending) func upload<Value: Decodable & Sendable, Pieces: AsyncSequence & SendableMetatype>(
        _ url: some URLConvertible, method: HTTPMethod = .post, length: Int64? = nil,
        parameters: [String: Any?]? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil, as type: Value.Type = Value.self,
        making make: @escaping @Sendable () throws -> Pieces
    ) async throws -> Value
    where Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .sequence(length: length, making: make)).reporting(
            to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }
}

/// Responses that are read as they arrive.
extension HTTPManager {
    /// Sends a request, and returns as soon as its response has begun: the bytes of the body, as they arrive, and the
    /// response.
    ///
    /// ```swift
    /// let (bytes, response) = try await manager.bytes(.get, "events", parameters: ["since": last])
    /// for try await line in bytes.lines { handle(line) }
    /// ```
    ///
    /// A slow reader slows the server down, and leaving the loop ends the transfer; see ``ResponseBytes``. Cancelling
    /// the task cancels the operation. The arguments are those of
    /// `makeOperation(_:_:parameters:body:headers:timeout:responseSerializer:)`; a total time limit includes the reading.
    ///
    /// - Throws: `URLError`, what the request serializer or the encoder throws, or, for a status that is not
    ///   acceptable, the response serializer's error.
    public nonisolated(nonsending) func bytes(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: [String: Any?]? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil
    ) async throws -> (ResponseBytes, HTTPURLResponse) {
        let call = ManagerCall(method, url.urlString, parameters, body, headers, timeout)
        let operation = adopted(try operationManager.makeOperation(call), as: .data)
        let bytes = try operation.bytes()
        if Task.isCancelled { operation.cancel() }
        begin(operation, success: nil, failure: nil)
        return (bytes, try await bytes.response)
    }
}
