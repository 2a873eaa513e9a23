import ConvoySerialization
import Foundation
import FoundationNetworking

/// The verbs, in the form with handlers.
///
/// Each begins a request, and returns it: an operation, or a task. The handlers run on `completionQueue`, or on the
/// main queue where there is none. A request that cannot be made (a bad URL, parameters that cannot be serialized)
/// fails like one that the network refuses: through the returned request, with a call of `failure`.
///
/// `makeOperation(_:_:parameters:body:headers:timeout:responseSerializer:)` says what the arguments are.
extension HTTPManager {
    /// A GET. Its parameters are its query.
    @discardableResult
    public func get(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil, success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.get, url.urlString, parameters, nil, headers, timeout), progress, success, failure)
    }

    /// A GET with parameters of any type that can be encoded.
    @discardableResult
    public func get(
        _ url: some URLConvertible, parameters: some Encodable, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil, success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.get, url.urlString, parameters, nil, headers, timeout), progress, success, failure)
    }

    /// A POST. Its parameters are its body, as the request serializer writes it; `body` is sent as JSON in their
    /// place.
    @discardableResult
    public func post(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.post, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A POST with parameters of any type that can be encoded.
    @discardableResult
    public func post(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.post, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A PUT. Its parameters are its body, as the request serializer writes it; `body` is sent as JSON in their
    /// place.
    @discardableResult
    public func put(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.put, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A PUT with parameters of any type that can be encoded.
    @discardableResult
    public func put(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.put, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A PATCH (RFC 5789). Its parameters are its body, as the request serializer writes it; `body` is sent as JSON
    /// in their place.
    @discardableResult
    public func patch(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.patch, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A PATCH (RFC 5789) with parameters of any type that can be encoded.
    @discardableResult
    public func patch(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.patch, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A DELETE. Its parameters are its query; `body` is sent as JSON.
    @discardableResult
    public func delete(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.delete, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A DELETE with parameters of any type that can be encoded.
    @discardableResult
    public func delete(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.delete, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A GET with a tree of parameters, which may be a literal of any depth.
    @discardableResult @_disfavoredOverload
    public func get(
        _ urlString: String, parameters: ParameterValue?, headers: [String: String?] = [:], success: Success?,
        failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.get, urlString, parameters, nil, headers, nil), nil, success, failure)
    }

    /// A POST with a tree of parameters, which may be a literal of any depth.
    @discardableResult @_disfavoredOverload
    public func post(
        _ urlString: String, parameters: ParameterValue?, headers: [String: String?] = [:], success: Success?,
        failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.post, urlString, parameters, nil, headers, nil), nil, success, failure)
    }

    /// A PUT with a tree of parameters, which may be a literal of any depth.
    @discardableResult @_disfavoredOverload
    public func put(
        _ urlString: String, parameters: ParameterValue?, headers: [String: String?] = [:], success: Success?,
        failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.put, urlString, parameters, nil, headers, nil), nil, success, failure)
    }

    /// A PATCH (RFC 5789) with a tree of parameters, which may be a literal of any depth.
    @discardableResult @_disfavoredOverload
    public func patch(
        _ urlString: String, parameters: ParameterValue?, headers: [String: String?] = [:], success: Success?,
        failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.patch, urlString, parameters, nil, headers, nil), nil, success, failure)
    }

    /// A DELETE with a tree of parameters, which may be a literal of any depth.
    @discardableResult @_disfavoredOverload
    public func delete(
        _ urlString: String, parameters: ParameterValue?, headers: [String: String?] = [:], success: Success?,
        failure: Failure? = nil
    ) -> Request {
        perform(ManagerCall(.delete, urlString, parameters, nil, headers, nil), nil, success, failure)
    }

    /// A HEAD. Its parameters are its query; there is no object for `success`.
    @discardableResult
    public func head(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, success: (@Sendable (Request) -> Void)?, failure: Failure? = nil
    ) -> Request {
        let withObject: Success? = success.map { success in { @Sendable request, _ in success(request) } }
        return perform(
            ManagerCall(.head, url.urlString, parameters, nil, headers, timeout), nil, withObject, failure)
    }

    /// A HEAD with parameters of any type that can be encoded.
    @discardableResult
    public func head(
        _ url: some URLConvertible, parameters: some Encodable, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, success: (@Sendable (Request) -> Void)?, failure: Failure? = nil
    ) -> Request {
        let withObject: Success? = success.map { success in { @Sendable request, _ in success(request) } }
        return perform(
            ManagerCall(.head, url.urlString, parameters, nil, headers, timeout), nil, withObject, failure)
    }

    /// A POST of a form with parts (RFC 7578). `constructingBody` runs before this returns.
    @discardableResult
    public func post(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        constructingBody: (inout MultipartFormData) throws -> Void, success: Success?,
        failure: Failure? = nil
    ) -> Request {
        begin(.upload, success, failure) {
            let call = ManagerCall(.post, url.urlString, parameters, nil, headers, timeout)
            return try operationManager.makeMultipartOperation(call, constructingBody).reporting(to: progress)
        }
    }

    private func perform(
        _ call: ManagerCall, _ progress: TransferProgress.Handler?, _ success: Success?, _ failure: Failure?
    ) -> Request {
        begin(.data, success, failure) { try operationManager.makeOperation(call).reporting(to: progress) }
    }
}

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
        timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil, as type: Value.Type,
        completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.get, url.urlString, parameters, nil, headers, timeout), progress, type, completion)
    }

    /// A GET with parameters of any type that can be encoded, whose response becomes a value.
    @discardableResult
    public func get<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil, as type: Value.Type,
        completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.get, url.urlString, parameters, nil, headers, timeout), progress, type, completion)
    }

    /// A POST, whose response becomes a value. Its parameters are its body, as the request serializer writes it;
    /// `body` is sent as JSON in their place.
    @discardableResult
    public func post<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.post, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    /// A POST with parameters of any type that can be encoded, whose response becomes a value.
    @discardableResult
    public func post<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.post, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    /// A PUT, whose response becomes a value. Its parameters are its body, as the request serializer writes it;
    /// `body` is sent as JSON in their place.
    @discardableResult
    public func put<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.put, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    /// A PUT with parameters of any type that can be encoded, whose response becomes a value.
    @discardableResult
    public func put<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.put, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    /// A PATCH (RFC 5789), whose response becomes a value. Its parameters are its body, as the request serializer
    /// writes it; `body` is sent as JSON in their place.
    @discardableResult
    public func patch<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.patch, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    /// A PATCH (RFC 5789) with parameters of any type that can be encoded, whose response becomes a value.
    @discardableResult
    public func patch<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.patch, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    /// A DELETE, whose response becomes a value. Its parameters are its query; `body` is sent as JSON.
    @discardableResult
    public func delete<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        perform(ManagerCall(.delete, url.urlString, parameters, body, headers, timeout), progress, type, completion)
    }

    /// A DELETE with parameters of any type that can be encoded, whose response becomes a value.
    @discardableResult
    public func delete<Value: Decodable & Sendable>(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
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
