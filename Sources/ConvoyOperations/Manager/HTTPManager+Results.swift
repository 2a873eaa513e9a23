import ConvoySerialization
import Foundation

/// The verbs, in the form with one handler for the result, a value of a type.
///
/// Each makes an operation, enqueues it and returns it. The handler runs on `completionQueue`, or on the main queue
/// where there is none. The value is what the async form delivers.
extension HTTPManager {
    /// Called with the value, or with the operation's error.
    public typealias ResultHandler<Value> = @Sendable (Result<Value, any Error>) -> Void

    /// A GET, whose response becomes a value. Its parameters are its query.
    @discardableResult
    public func get<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, headers: [String: String?] = [:],
        timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil, as type: Value.Type,
        completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.get, url.urlString, parameters, nil, headers, timeout), progress, type, completion)
    }

    /// A GET with parameters of any type that can be encoded, whose response becomes a value.
    @discardableResult
    public func get<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, headers: [String: String?] = [:],
        timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil, as type: Value.Type,
        completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.get, url.urlString, parameters, nil, headers, timeout), progress, type, completion)
    }

    /// A POST, whose response becomes a value. Its parameters are its body, as the request serializer writes it;
    /// `body` is sent as JSON in their place.
    @discardableResult
    public func post<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.post, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    /// A POST with parameters of any type that can be encoded, whose response becomes a value.
    @discardableResult
    public func post<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.post, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    /// A PUT, whose response becomes a value. Its parameters are its body, as the request serializer writes it;
    /// `body` is sent as JSON in their place.
    @discardableResult
    public func put<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.put, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    /// A PUT with parameters of any type that can be encoded, whose response becomes a value.
    @discardableResult
    public func put<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.put, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    /// A PATCH (RFC 5789), whose response becomes a value. Its parameters are its body, as the request serializer
    /// writes it; `body` is sent as JSON in their place.
    @discardableResult
    public func patch<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.patch, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    /// A PATCH (RFC 5789) with parameters of any type that can be encoded, whose response becomes a value.
    @discardableResult
    public func patch<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.patch, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    /// A DELETE, whose response becomes a value. Its parameters are its query; `body` is sent as JSON.
    @discardableResult
    public func delete<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.delete, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    /// A DELETE with parameters of any type that can be encoded, whose response becomes a value.
    @discardableResult
    public func delete<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.delete, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    private func perform<Value: Decodable & Sendable>(
        _ call: ManagerCall, _ progress: TransferProgress.Handler?, _ type: Value.Type,
        _ completion: @escaping ResultHandler<Value>
    ) -> Request {
        let success: Success = { request, object in
            completion(Result { try request.operation.value(of: object) })
        }
        return begin(.data, success, { _, error in completion(.failure(error)) }) {
            try operationManager.makeOperation(call, decoding: type).reporting(to: progress)
        }
    }
}
