import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The request methods with async/await. Cancelling the task cancels the operation. The methods need neither the main
/// queue nor another queue of the caller.
///
/// With a type, the response is converted to a value of that type: `Data` and `String` from any content type, `JSON` of
/// any shape, and everything else decoded as JSON by the manager's `decoder`. Status codes, content types and limits
/// are those of the manager's `responseSerializer`. Without a type, the methods return the finished operation, for
/// responses that are empty or not needed; its `responseObject` is the object created by the response serializer.
///
/// All methods throw `URLError`, the error of the request serializer or the encoder, or the response serializer's
/// error. See `makeOperation(_:_:parameters:body:headers:timeout:responseSerializer:)` for the arguments.
extension HTTPManager {
    /// Sends a GET request and returns the value of the response. The parameters become the query.
    public nonisolated(nonsending) func get<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil, as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(RequestArguments(.get, url.urlString, parameters, nil, headers, timeout), progress)
    }

    /// Sends a GET request and returns the finished operation. The parameters become the query.
    @discardableResult
    public nonisolated(nonsending) func get(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(RequestArguments(.get, url.urlString, parameters, nil, headers, timeout), progress)
    }

    /// Sends a POST request and returns the value of the response. The request serializer encodes the parameters as the
    /// body. If `body` is set, it is sent as JSON instead, and the parameters become the query.
    public nonisolated(nonsending) func post<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(RequestArguments(.post, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// Sends a POST request and returns the finished operation. The request serializer encodes the parameters as the
    /// body. If `body` is set, it is sent as JSON instead, and the parameters become the query.
    @discardableResult
    public nonisolated(nonsending) func post(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(RequestArguments(.post, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// Sends a PUT request and returns the value of the response. The request serializer encodes the parameters as the
    /// body. If `body` is set, it is sent as JSON instead, and the parameters become the query.
    public nonisolated(nonsending) func put<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(RequestArguments(.put, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// Sends a PUT request and returns the finished operation. The request serializer encodes the parameters as the
    /// body. If `body` is set, it is sent as JSON instead, and the parameters become the query.
    @discardableResult
    public nonisolated(nonsending) func put(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(RequestArguments(.put, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// Sends a PATCH request (RFC 5789) and returns the value of the response. The request serializer encodes the
    /// parameters as the body. If `body` is set, it is sent as JSON instead, and the parameters become the query.
    public nonisolated(nonsending) func patch<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(RequestArguments(.patch, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// Sends a PATCH request (RFC 5789) and returns the finished operation. The request serializer encodes the
    /// parameters as the body. If `body` is set, it is sent as JSON instead, and the parameters become the query.
    @discardableResult
    public nonisolated(nonsending) func patch(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(RequestArguments(.patch, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// Sends a DELETE request and returns the value of the response. The parameters become the query; `body` is sent as
    /// JSON.
    public nonisolated(nonsending) func delete<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(RequestArguments(.delete, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// Sends a DELETE request and returns the finished operation. The parameters become the query; `body` is sent as
    /// JSON.
    @discardableResult
    public nonisolated(nonsending) func delete(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(RequestArguments(.delete, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// Sends a HEAD request and returns the finished operation with the head of the response. The parameters become the
    /// query.
    @discardableResult
    public nonisolated(nonsending) func head(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(RequestArguments(.head, url.urlString, parameters, nil, headers, timeout), nil)
    }

    /// Sends a request with any method and returns the value of the response.
    public nonisolated(nonsending) func value<Value: Decodable & Sendable>(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: RequestParameters? = nil,
        body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(RequestArguments(method, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// Sends a request with any method and returns the finished operation.
    @discardableResult
    public nonisolated(nonsending) func response(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: RequestParameters? = nil,
        body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(RequestArguments(method, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// Sends a request with any method and returns both the value and the head of the response, for its status and
    /// header fields.
    ///
    /// ```swift
    /// let (users, response) = try await manager.response(.get, "users", as: [User].self)
    /// let next = response.value(forHTTPHeaderField: "Link")
    /// ```
    public nonisolated(nonsending) func response<Value: Decodable & Sendable>(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: RequestParameters? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil, as type: Value.Type
    ) async throws -> (Value, HTTPURLResponse) {
        try await valueAndHead(RequestArguments(method, url.urlString, parameters, body, headers, timeout), progress)
    }

    private nonisolated(nonsending) func valueAndHead<Value: Decodable & Sendable>(
        _ call: RequestArguments, _ progress: TransferProgress.Report?
    ) async throws -> (Value, HTTPURLResponse) {
        let operation = try operationManager.makeOperation(call, awaiting: Value.self).reporting(to: progress)
        let value: Value = try await value(of: operation, as: .data)
        guard let response = operation.response else {
            throw URLError(.badServerResponse, url: operation.request.url, "The response head is missing.")
        }
        return (value, response)
    }

    private nonisolated(nonsending) func value<Value: Decodable & Sendable>(
        _ call: RequestArguments, _ progress: TransferProgress.Report?
    ) async throws -> Value {
        try await value(of: operationManager.makeOperation(call, awaiting: Value.self).reporting(to: progress), as: .data)
    }

    private nonisolated(nonsending) func response(
        _ call: RequestArguments, _ progress: TransferProgress.Report?
    ) async throws -> HTTPRequestOperation {
        try await finish(operationManager.makeOperation(call).reporting(to: progress), as: .data)
    }
}
