import ConvoySerialization
import Foundation
import FoundationNetworking

/// Responses that are read while they come.
extension HTTPManager {
    /// Sends a request, and returns as soon as its response has begun: the bytes of the body, as they come, and the
    /// response.
    ///
    /// ```swift
    /// let (bytes, response) = try await manager.bytes(.get, "events", parameters: ["since": last])
    /// for try await line in bytes.lines { handle(line) }
    /// ```
    ///
    /// A reader that is slow slows the server down, and leaving the loop ends the transfer; ``ResponseBytes`` says the rest.
    /// Cancelling the task cancels the operation. The arguments are those of
    /// `makeOperation(_:_:parameters:body:headers:timeout:)`; a time limit in all covers the reading, too.
    ///
    /// - Throws: `URLError`, what the request serializer or the encoder throws, or, for a status that is not acceptable, the
    ///   response serializer's error.
    public nonisolated(nonsending) func bytes(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: [String: Any?]? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:], timeout: Timeout? = nil
    ) async throws -> (ResponseBytes, HTTPURLResponse) {
        let call = ManagerCall(method, url.urlString, parameters, body, headers, timeout)
        let operation = adopted(try operationManager.makeOperation(call), as: .data)
        let bytes = try operation.bytes()
        if Task.isCancelled { operation.cancel() }
        begin(operation, success: nil, failure: nil)
        return (bytes, try await bytes.response)
    }
}
