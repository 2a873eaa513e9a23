import ConvoySerialization
import Foundation
import FoundationNetworking

/// The request methods with completion handlers.
///
/// Each method starts a request and returns it: an operation, or a task. The handlers run on `completionQueue`, or on
/// the main queue if that is nil. A request that cannot be created (because of an invalid URL, or parameters that
/// cannot be serialized) fails like any other request: `failure` is called for the returned request.
///
/// See `makeOperation(_:_:parameters:body:headers:timeout:responseSerializer:)` for the arguments.
extension HTTPManager {
    /// Sends a GET request. The parameters become the query.
    @discardableResult
    public func get(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil, success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(RequestArguments(.get, url.urlString, parameters, nil, headers, timeout), progress, success, failure)
    }

    /// Sends a POST request. The request serializer encodes the parameters as the body. If `body` is set, it is sent as
    /// JSON instead, and the parameters become the query.
    @discardableResult
    public func post(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(RequestArguments(.post, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// Sends a PUT request. The request serializer encodes the parameters as the body. If `body` is set, it is sent as
    /// JSON instead, and the parameters become the query.
    @discardableResult
    public func put(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(RequestArguments(.put, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// Sends a PATCH request (RFC 5789). The request serializer encodes the parameters as the body. If `body` is set,
    /// it is sent as JSON instead, and the parameters become the query.
    @discardableResult
    public func patch(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(RequestArguments(.patch, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// Sends a DELETE request. The parameters become the query; `body` is sent as JSON.
    @discardableResult
    public func delete(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> Request {
        perform(RequestArguments(.delete, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// Sends a HEAD request. The parameters become the query; `success` receives no object.
    @discardableResult
    public func head(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, success: (@Sendable (Request) -> Void)?, failure: Failure? = nil
    ) -> Request {
        let withObject: Success? = success.map { success in { @Sendable request, _ in success(request) } }
        return perform(
            RequestArguments(.head, url.urlString, parameters, nil, headers, timeout), nil, withObject, failure)
    }

    /// Posts a multipart form (RFC 7578). `constructingBody` runs before this method returns.
    @discardableResult
    public func post(
        _ url: some URLConvertible, parameters: RequestParameters? = nil, headers: [String: String?] = [:],
        timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        constructingBody: (inout MultipartFormData) throws -> Void, success: Success?,
        failure: Failure? = nil
    ) -> Request {
        begin(.upload, success, failure) {
            let call = RequestArguments(.post, url.urlString, parameters, nil, headers, timeout)
            return try operationManager.makeMultipartOperation(call, constructingBody).reporting(to: progress)
        }
    }

    private func perform(
        _ call: RequestArguments, _ progress: TransferProgress.Handler?, _ success: Success?, _ failure: Failure?
    ) -> Request {
        begin(.data, success, failure) { try operationManager.makeOperation(call).reporting(to: progress) }
    }
}

/// The request method with one handler for the result, a value of a given type.
extension HTTPManager {
    /// A handler called with the value or with the operation's error.
    public typealias ResultHandler<Value> = @Sendable (Result<Value, any Error>) -> Void

    /// Starts a request with any method, decodes the response, and returns the request: an operation, or a task. The
    /// handler runs on `completionQueue`, or on the main queue if that is nil. The value is the same as with async/await.
    ///
    /// The parameters of a GET, HEAD or DELETE request become the query; those of other requests become the body. If
    /// `body` is set, it is sent as JSON instead, and the parameters become the query.
    ///
    /// ```swift
    /// manager.value(.get, "users", as: [User].self) { result in … }
    /// ```
    @discardableResult
    public func value<Value: Decodable & Sendable>(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: RequestParameters? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:], timeout: RequestTimeout? = nil,
        progress: TransferProgress.Handler? = nil, as type: Value.Type, completion: @escaping ResultHandler<Value>
    ) -> Request {
        let call = RequestArguments(method, url.urlString, parameters, body, headers, timeout)
        let success: Success = { request, object in
            completion(Result { try request.operation.value(of: object) })
        }
        return begin(.data, success, { _, error in completion(.failure(error)) }) {
            try operationManager.makeOperation(call, decoding: type).reporting(to: progress)
        }
    }
}
