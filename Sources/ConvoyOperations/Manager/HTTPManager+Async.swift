import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The verbs, in the form with async/await. Cancelling the task cancels the operation. They need neither the main queue
/// nor another queue of the caller.
///
/// With a type, the response becomes a value of it: `Data` and `String` of any content type, `JSON` of any shape, and
/// everything else as JSON by the manager's `decoder`. Status codes, content types and limits are those of the
/// manager's `responseSerializer`. Without a type the finished operation is returned, whose `responseObject` is what
/// that serializer makes: for a response that is empty, or of no interest.
///
/// All throw `URLError`, what the request serializer or the encoder throws, or the response serializer's error.
/// `makeOperation(_:_:parameters:body:headers:timeout:responseSerializer:)` says what the arguments are.
extension HTTPManager {
    /// The value of the response to a GET. Its parameters are its query.
    public nonisolated(nonsending) func get<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil, as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(ManagerCall(.get, url.urlString, parameters, nil, headers, timeout), progress)
    }

    /// The value of the response to a GET with parameters of any type that can be encoded.
    public nonisolated(nonsending) func get<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil, as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(ManagerCall(.get, url.urlString, parameters, nil, headers, timeout), progress)
    }

    /// The finished operation of a GET. Its parameters are its query.
    @discardableResult
    public nonisolated(nonsending) func get(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(ManagerCall(.get, url.urlString, parameters, nil, headers, timeout), progress)
    }

    /// The finished operation of a GET with parameters of any type that can be encoded.
    @discardableResult
    public nonisolated(nonsending) func get(
        _ url: some URLConvertible, parameters: some Encodable, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(ManagerCall(.get, url.urlString, parameters, nil, headers, timeout), progress)
    }

    /// The value of the response to a POST. Its parameters are its body, as the request serializer writes it; `body`
    /// is sent as JSON in their place.
    public nonisolated(nonsending) func post<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(ManagerCall(.post, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The value of the response to a POST with parameters of any type that can be encoded.
    public nonisolated(nonsending) func post<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(ManagerCall(.post, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The finished operation of a POST. Its parameters are its body, as the request serializer writes it; `body` is
    /// sent as JSON in their place.
    @discardableResult
    public nonisolated(nonsending) func post(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(ManagerCall(.post, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The finished operation of a POST with parameters of any type that can be encoded.
    @discardableResult
    public nonisolated(nonsending) func post(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(ManagerCall(.post, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The value of the response to a PUT. Its parameters are its body, as the request serializer writes it; `body`
    /// is sent as JSON in their place.
    public nonisolated(nonsending) func put<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(ManagerCall(.put, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The value of the response to a PUT with parameters of any type that can be encoded.
    public nonisolated(nonsending) func put<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(ManagerCall(.put, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The finished operation of a PUT. Its parameters are its body, as the request serializer writes it; `body` is
    /// sent as JSON in their place.
    @discardableResult
    public nonisolated(nonsending) func put(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(ManagerCall(.put, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The finished operation of a PUT with parameters of any type that can be encoded.
    @discardableResult
    public nonisolated(nonsending) func put(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(ManagerCall(.put, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The value of the response to a PATCH (RFC 5789). Its parameters are its body, as the request serializer writes
    /// it; `body` is sent as JSON in their place.
    public nonisolated(nonsending) func patch<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(ManagerCall(.patch, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The value of the response to a PATCH (RFC 5789) with parameters of any type that can be encoded.
    public nonisolated(nonsending) func patch<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(ManagerCall(.patch, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The finished operation of a PATCH (RFC 5789). Its parameters are its body, as the request serializer writes
    /// it; `body` is sent as JSON in their place.
    @discardableResult
    public nonisolated(nonsending) func patch(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(ManagerCall(.patch, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The finished operation of a PATCH (RFC 5789) with parameters of any type that can be encoded.
    @discardableResult
    public nonisolated(nonsending) func patch(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(ManagerCall(.patch, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The value of the response to a DELETE. Its parameters are its query; `body` is sent as JSON.
    public nonisolated(nonsending) func delete<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(ManagerCall(.delete, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The value of the response to a DELETE with parameters of any type that can be encoded.
    public nonisolated(nonsending) func delete<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(ManagerCall(.delete, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The finished operation of a DELETE. Its parameters are its query; `body` is sent as JSON.
    @discardableResult
    public nonisolated(nonsending) func delete(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(ManagerCall(.delete, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The finished operation of a DELETE with parameters of any type that can be encoded.
    @discardableResult
    public nonisolated(nonsending) func delete(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(ManagerCall(.delete, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The finished operation of a HEAD, with the head of the response: there is nothing to decode.
    @discardableResult
    public nonisolated(nonsending) func head(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(ManagerCall(.head, url.urlString, parameters, nil, headers, timeout), nil)
    }

    /// The finished operation of a HEAD with parameters of any type that can be encoded.
    @discardableResult
    public nonisolated(nonsending) func head(
        _ url: some URLConvertible, parameters: some Encodable, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(ManagerCall(.head, url.urlString, parameters, nil, headers, timeout), nil)
    }

    /// The value of the response to a request of any method.
    public nonisolated(nonsending) func value<Value: Decodable & Sendable>(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: [String: Any?]? = nil,
        body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(ManagerCall(method, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The value of the response to a request of any method with parameters of any type that can be encoded.
    public nonisolated(nonsending) func value<Value: Decodable & Sendable>(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(ManagerCall(method, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The finished operation of a request of any method.
    @discardableResult
    public nonisolated(nonsending) func response(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: [String: Any?]? = nil,
        body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(ManagerCall(method, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The finished operation of a request of any method with parameters of any type that can be encoded.
    @discardableResult
    public nonisolated(nonsending) func response(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> HTTPRequestOperation {
        try await response(ManagerCall(method, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The value of the response to a request of any method, and the head of the response: for its status and fields.
    ///
    /// ```swift
    /// let (users, response) = try await manager.response(.get, "users", as: [User].self)
    /// let next = response.value(forHTTPHeaderField: "Link")
    /// ```
    public nonisolated(nonsending) func response<Value: Decodable & Sendable>(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: [String: Any?]? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Report? = nil, as type: Value.Type
    ) async throws -> (Value, HTTPURLResponse) {
        try await valueAndHead(ManagerCall(method, url.urlString, parameters, body, headers, timeout), progress)
    }

    /// The value and the head of the response to a request of any method with parameters of any type that can be encoded.
    public nonisolated(nonsending) func response<Value: Decodable & Sendable>(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil,
        as type: Value.Type
    ) async throws -> (Value, HTTPURLResponse) {
        try await valueAndHead(ManagerCall(method, url.urlString, parameters, body, headers, timeout), progress)
    }

    private nonisolated(nonsending) func valueAndHead<Value: Decodable & Sendable>(
        _ call: ManagerCall, _ progress: TransferProgress.Report?
    ) async throws -> (Value, HTTPURLResponse) {
        let operation = try operationManager.makeOperation(call, awaiting: Value.self).reporting(to: progress)
        let value: Value = try await value(of: operation, as: .data)
        guard let response = operation.response else {
            throw URLError(.badServerResponse, url: operation.request.url, "The response has no head.")
        }
        return (value, response)
    }

    private nonisolated(nonsending) func value<Value: Decodable & Sendable>(
        _ call: ManagerCall, _ progress: TransferProgress.Report?
    ) async throws -> Value {
        try await value(of: operationManager.makeOperation(call, awaiting: Value.self).reporting(to: progress), as: .data)
    }

    private nonisolated(nonsending) func response(
        _ call: ManagerCall, _ progress: TransferProgress.Report?
    ) async throws -> HTTPRequestOperation {
        try await finish(operationManager.makeOperation(call).reporting(to: progress), as: .data)
    }
}
