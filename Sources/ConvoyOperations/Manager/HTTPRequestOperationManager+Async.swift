import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The verbs, in the form with async/await. Cancelling the task cancels the operation. No queue of the caller's, and
/// not the main queue, is needed for them to go on.
///
/// The value is decoded from JSON by `JSONDecoder`, under the rules of `DecodableResponseSerializer`: on the awaiting
/// task where the response is acceptable and plain JSON, else before the operation finishes.
///
/// All throw `URLError`, what the request serializer throws, or the response serializer's error.
extension HTTPRequestOperationManager {
    /// The value of the response to a GET. Parameters are its query.
    public final func get<Value: Decodable & Sendable>(
        _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:],
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(.get, urlString, parameters: parameters, headers: headers)
    }

    /// The value of the response to a POST. Parameters are its body, as the request serializer writes it.
    public final func post<Value: Decodable & Sendable>(
        _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:],
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(.post, urlString, parameters: parameters, headers: headers)
    }

    /// The value of the response to a PUT. Parameters are its body, as the request serializer writes it.
    public final func put<Value: Decodable & Sendable>(
        _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:],
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(.put, urlString, parameters: parameters, headers: headers)
    }

    /// The value of the response to a PATCH (RFC 5789). Parameters are its body, as the request serializer writes it.
    public final func patch<Value: Decodable & Sendable>(
        _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:],
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(.patch, urlString, parameters: parameters, headers: headers)
    }

    /// The value of the response to a DELETE. Parameters are its query.
    public final func delete<Value: Decodable & Sendable>(
        _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:],
        as type: Value.Type = Value.self
    ) async throws -> Value {
        try await value(.delete, urlString, parameters: parameters, headers: headers)
    }

    /// The head of the response: there is nothing to decode.
    public final func head(
        _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:]
    ) async throws -> HTTPRequestOperation {
        try await response(.head, urlString, parameters: parameters, headers: headers)
    }

    /// Any method, and the value of the response.
    public final func value<Value: Decodable & Sendable>(
        _ method: HTTPMethod, _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:],
        as type: Value.Type = Value.self
    ) async throws -> Value {
        let operation = try makeOperation(
            method, urlString, parameters: parameters, headers: headers, awaiting: type)
        return try await enqueue(operation).decodedValue(as: type)
    }

    /// Any method; the finished operation, whose `responseObject` is what the manager's `responseSerializer` makes.
    @discardableResult
    public final func response(
        _ method: HTTPMethod, _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:]
    ) async throws -> HTTPRequestOperation {
        let operation = try makeOperation(method, urlString, parameters: parameters, headers: headers)
        try await enqueue(operation).finished()
        return operation
    }
}
