import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Methods that upload bodies and multipart forms with async/await. Cancelling the task cancels the operation.
extension HTTPManager {
    /// Uploads a body, and returns the value of the response.
    ///
    /// - Throws: The same errors as the other async methods, and the error thrown by an asynchronous sequence.
    public nonisolated(nonsending) func upload<Value: Decodable & Sendable>(
        _ url: some URLConvertible, method: HTTPMethod = .post, from body: UploadBody,
        parameters: RequestParameters? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil, as type: Value.Type = Value.self
    ) async throws -> Value {
        let call = RequestArguments(method, url.urlString, parameters, nil, headers, timeout)
        let operation = try operationManager.makeOperation(call, body: body.make()).reporting(to: progress)
        operationManager.setAwaited(type, of: operation)
        return try await value(of: operation, as: .upload)
    }

    /// Uploads a body like the method that returns a value, and returns the finished operation.
    @discardableResult
    public nonisolated(nonsending) func upload(
        _ url: some URLConvertible, method: HTTPMethod = .post, from body: UploadBody,
        parameters: RequestParameters? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        let call = RequestArguments(method, url.urlString, parameters, nil, headers, timeout)
        return try await finish(
            operationManager.makeOperation(call, body: body.make()).reporting(to: progress), as: .upload)
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
