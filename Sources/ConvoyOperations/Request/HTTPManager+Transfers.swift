import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Methods that upload files, data, streams and multipart forms with async/await. Cancelling the task cancels the
/// operation.
extension HTTPManager {
    /// Uploads a file, and returns the value of the response. The file is read while it is sent, and again after a
    /// redirect; the upload fails if the length of the file changes in the meantime. The content type is derived from
    /// the file extension, unless a header specifies it.
    public nonisolated(nonsending) func upload<Value: Decodable & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .post, fromFile file: URL,
        parameters: RequestParameters? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        let call = RequestArguments(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .file(file)).reporting(to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }

    /// Uploads a file like the method that returns a value, and returns the finished operation.
    @discardableResult
    public nonisolated(nonsending) func upload(
        _ url: some URLConvertible, method: HTTPMethod = .post, fromFile file: URL,
        parameters: RequestParameters? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        let call = RequestArguments(method, url.urlString, parameters, nil, headers, timeout)
        return try await finish(
            operationManager.makeOperation(call, body: .file(file)).reporting(to: progress), as: .upload)
    }

    /// Uploads data, and returns the value of the response. The content type is `application/octet-stream`, unless a
    /// header specifies a different type.
    public nonisolated(nonsending) func upload<Value: Decodable & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .post, from data: Data,
        parameters: RequestParameters? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        let call = RequestArguments(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .data(data, contentType: MIMEType.unknown)).reporting(
            to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }

    /// Uploads data like the method that returns a value, and returns the finished operation.
    @discardableResult
    public nonisolated(nonsending) func upload(
        _ url: some URLConvertible, method: HTTPMethod = .post, from data: Data,
        parameters: RequestParameters? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        let call = RequestArguments(method, url.urlString, parameters, nil, headers, timeout)
        return try await finish(
            operationManager.makeOperation(call, body: .data(data, contentType: MIMEType.unknown)).reporting(to: progress),
            as: .upload)
    }

    /// Uploads a stream, and returns the value of the response. The stream is read while it is sent, on an internal
    /// thread, up to the given length; the upload fails if the stream is shorter. Unless it is a
    /// `ReplayableBodyStream`, a stream can be sent only once, and the upload fails if a redirect or a retry must send
    /// it again.
    public nonisolated(nonsending) func upload<Value: Decodable & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .post, from stream: InputStream, length: Int64,
        parameters: RequestParameters? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        let call = RequestArguments(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .stream(stream, length: length)).reporting(
            to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }

    /// Uploads a stream like the method that returns a value, and returns the finished operation.
    @discardableResult
    public nonisolated(nonsending) func upload(
        _ url: some URLConvertible, method: HTTPMethod = .post, from stream: InputStream, length: Int64,
        parameters: RequestParameters? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        let call = RequestArguments(method, url.urlString, parameters, nil, headers, timeout)
        return try await finish(
            operationManager.makeOperation(call, body: .stream(stream, length: length)).reporting(to: progress), as: .upload)
    }

    // MARK: Multipart forms

    /// Posts a multipart form (RFC 7578), and returns the value of the response. `constructingBody` appends the parts,
    /// and is called before anything is sent.
    public nonisolated(nonsending) func post<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil, as type: Value.Type = Value.self,
        constructingBody: (inout MultipartFormData) throws -> Void
    ) async throws -> Value {
        let call = RequestArguments(.post, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeMultipartOperation(call, constructingBody).reporting(to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }

    /// Posts a multipart form (RFC 7578), and returns the finished operation. `constructingBody` appends the parts, and
    /// is called before anything is sent.
    @discardableResult
    public nonisolated(nonsending) func post(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil, constructingBody: (inout MultipartFormData) throws -> Void
    ) async throws -> HTTPRequestOperation {
        let call = RequestArguments(.post, url.urlString, parameters, nil, headers, timeout)
        return try await finish(
            operationManager.makeMultipartOperation(call, constructingBody).reporting(to: progress), as: .upload)
    }
}

/// Methods that upload bodies that are produced while they are sent.
extension HTTPManager {
    /// Uploads an asynchronous sequence of byte collections, for example `Data` or `[UInt8]`, and returns the finished
    /// operation.
    ///
    /// ```swift
    /// let (bytes, _) = try await source.bytes(.get, "archive")
    /// try await target.upload("archive", method: .put, from: bytes.chunks)
    /// ```
    ///
    /// Each element is requested when the network accepts it; see `URLRequest.setBody(_:length:)`.
    ///
    /// - Throws: The error thrown by the sequence, or the same errors as other uploads.
    @discardableResult
    public nonisolated(nonsending) func upload<Pieces: AsyncSequence & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .post, from pieces: Pieces, length: Int64? = nil,
        parameters: RequestParameters? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation
    where Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype {
        let call = RequestArguments(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .sequence(pieces, length: length)).reporting(
            to: progress)
        return try await finish(operation, as: .upload)
    }

    /// Uploads an asynchronous sequence of byte collections like the method that returns an operation, and returns the
    /// value of the response.
    public nonisolated(nonsending) func upload<Value: Decodable & Sendable, Pieces: AsyncSequence & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .post, from pieces: Pieces, length: Int64? = nil,
        parameters: RequestParameters? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil, as type: Value.Type = Value.self
    ) async throws -> Value
    where Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype {
        let call = RequestArguments(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .sequence(pieces, length: length)).reporting(
            to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }

    /// Uploads an asynchronous sequence of byte collections, and returns the finished operation. The sequence can be
    /// created again by `make`, and therefore sent again if necessary; see `URLRequest.setBody(length:making:)`.
    @discardableResult
    public nonisolated(nonsending) func upload<Pieces: AsyncSequence & SendableMetatype>(
        _ url: some URLConvertible, method: HTTPMethod = .post, length: Int64? = nil,
        parameters: RequestParameters? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil,
        making make: @escaping @Sendable () throws -> Pieces
    ) async throws -> HTTPRequestOperation
    where Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype {
        let call = RequestArguments(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .sequence(length: length, making: make)).reporting(
            to: progress)
        return try await finish(operation, as: .upload)
    }

    /// Uploads an asynchronous sequence that can be created again, like the method that returns an operation, and
    /// returns the value of the response.
    public nonisolated(nonsending) func upload<Value: Decodable & Sendable, Pieces: AsyncSequence & SendableMetatype>(
        _ url: some URLConvertible, method: HTTPMethod = .post, length: Int64? = nil,
        parameters: RequestParameters? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil, as type: Value.Type = Value.self,
        making make: @escaping @Sendable () throws -> Pieces
    ) async throws -> Value
    where Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype {
        let call = RequestArguments(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: .sequence(length: length, making: make)).reporting(
            to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }
}

/// Methods that read responses while they arrive.
extension HTTPManager {
    /// Sends a request, and returns when the head of the response has arrived. The result consists of the bytes of the
    /// body, which are read as they arrive, and the response.
    ///
    /// ```swift
    /// let (bytes, response) = try await manager.bytes(.get, "events", parameters: ["since": last])
    /// for try await line in bytes.lines { handle(line) }
    /// ```
    ///
    /// A slow reader slows the server down, and leaving the loop ends the transfer; see ``ResponseBytes``. Cancelling
    /// the task cancels the operation. See `makeOperation(_:_:parameters:body:headers:timeout:responseSerializer:)` for
    /// the arguments; a total time limit includes the time for reading the body.
    ///
    /// - Throws: `URLError`, the error of the request serializer or the encoder, or, for an unacceptable status code,
    ///   the response serializer's error.
    public nonisolated(nonsending) func bytes(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: RequestParameters? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil
    ) async throws -> (ResponseBytes, HTTPURLResponse) {
        let call = RequestArguments(method, url.urlString, parameters, body, headers, timeout)
        let operation = adopted(try operationManager.makeOperation(call), as: .data)
        let bytes = try operation.bytes()
        if Task.isCancelled { operation.cancel() }
        begin(operation, success: nil, failure: nil)
        return (bytes, try await bytes.response)
    }
}
