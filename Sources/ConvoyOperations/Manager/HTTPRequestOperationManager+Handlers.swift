import ConvoySerialization
import Foundation
import FoundationNetworking

/// The verbs, in the form with handlers.
///
/// Each makes an operation, enqueues it and returns it. The handlers run on `completionQueue`, or on the main queue
/// where there is none. A request that cannot be made (a bad URL, parameters that cannot be serialized) fails in the
/// same way as one that the network refuses: through the operation, to `failure`.
///
/// `makeOperation(_:_:parameters:body:headers:timeout:)` says what the arguments are.
extension HTTPRequestOperationManager {
    /// Called with the operation and its `responseObject`.
    public typealias Success = HTTPRequestOperation.Success
    /// Called with the operation and its `error`.
    public typealias Failure = HTTPRequestOperation.Failure

    /// A GET. Its parameters are its query.
    @discardableResult
    public final func get(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, headers: [String: String?] = [:],
        timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil, success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.get, url.urlString, parameters, nil, headers, timeout), progress, success, failure)
    }

    /// A GET with parameters of any type that can be encoded.
    @discardableResult
    public final func get(
        _ url: some URLConvertible, parameters: some Encodable, headers: [String: String?] = [:],
        timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil, success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.get, url.urlString, parameters, nil, headers, timeout), progress, success, failure)
    }

    /// A POST. Its parameters are its body, as the request serializer writes it; `body` is sent as JSON in their
    /// place.
    @discardableResult
    public final func post(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.post, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A POST with parameters of any type that can be encoded.
    @discardableResult
    public final func post(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.post, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A PUT. Its parameters are its body, as the request serializer writes it; `body` is sent as JSON in their
    /// place.
    @discardableResult
    public final func put(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.put, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A PUT with parameters of any type that can be encoded.
    @discardableResult
    public final func put(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.put, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A PATCH (RFC 5789). Its parameters are its body, as the request serializer writes it; `body` is sent as JSON
    /// in their place.
    @discardableResult
    public final func patch(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.patch, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A PATCH (RFC 5789) with parameters of any type that can be encoded.
    @discardableResult
    public final func patch(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.patch, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A DELETE. Its parameters are its query; `body` is sent as JSON.
    @discardableResult
    public final func delete(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.delete, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A DELETE with parameters of any type that can be encoded.
    @discardableResult
    public final func delete(
        _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.delete, url.urlString, parameters, body, headers, timeout), progress, success, failure)
    }

    /// A GET with a tree of parameters, which may be a literal of any depth.
    @discardableResult @_disfavoredOverload
    public final func get(
        _ urlString: String, parameters: Parameters?, headers: [String: String?] = [:], success: Success?,
        failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.get, urlString, parameters, nil, headers, nil), nil, success, failure)
    }

    /// A POST with a tree of parameters, which may be a literal of any depth.
    @discardableResult @_disfavoredOverload
    public final func post(
        _ urlString: String, parameters: Parameters?, headers: [String: String?] = [:], success: Success?,
        failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.post, urlString, parameters, nil, headers, nil), nil, success, failure)
    }

    /// A PUT with a tree of parameters, which may be a literal of any depth.
    @discardableResult @_disfavoredOverload
    public final func put(
        _ urlString: String, parameters: Parameters?, headers: [String: String?] = [:], success: Success?,
        failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.put, urlString, parameters, nil, headers, nil), nil, success, failure)
    }

    /// A PATCH (RFC 5789) with a tree of parameters, which may be a literal of any depth.
    @discardableResult @_disfavoredOverload
    public final func patch(
        _ urlString: String, parameters: Parameters?, headers: [String: String?] = [:], success: Success?,
        failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.patch, urlString, parameters, nil, headers, nil), nil, success, failure)
    }

    /// A DELETE with a tree of parameters, which may be a literal of any depth.
    @discardableResult @_disfavoredOverload
    public final func delete(
        _ urlString: String, parameters: Parameters?, headers: [String: String?] = [:], success: Success?,
        failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(ManagerCall(.delete, urlString, parameters, nil, headers, nil), nil, success, failure)
    }

    /// A HEAD. Its parameters are its query; there is no object for `success`.
    @discardableResult
    public final func head(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, headers: [String: String?] = [:],
        timeout: Timeout? = nil, success: (@Sendable (HTTPRequestOperation) -> Void)?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        let withObject: Success? = success.map { success in { @Sendable operation, _ in success(operation) } }
        return perform(
            ManagerCall(.head, url.urlString, parameters, nil, headers, timeout), nil, withObject, failure)
    }

    /// A HEAD with parameters of any type that can be encoded.
    @discardableResult
    public final func head(
        _ url: some URLConvertible, parameters: some Encodable, headers: [String: String?] = [:],
        timeout: Timeout? = nil, success: (@Sendable (HTTPRequestOperation) -> Void)?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        let withObject: Success? = success.map { success in { @Sendable operation, _ in success(operation) } }
        return perform(
            ManagerCall(.head, url.urlString, parameters, nil, headers, timeout), nil, withObject, failure)
    }

    /// A POST of a form with parts (RFC 7578). `constructingBody` runs before this returns.
    @discardableResult
    public final func post(
        _ url: some URLConvertible, parameters: [String: Any?]? = nil, headers: [String: String?] = [:],
        timeout: Timeout? = nil, progress: TransferProgress.Handler? = nil,
        constructingBody: (inout MultipartFormData) throws -> Void, success: Success?,
        failure: Failure? = nil
    ) -> HTTPRequestOperation {
        enqueue(success, failure) {
            let call = ManagerCall(.post, url.urlString, parameters, nil, headers, timeout)
            return try makeMultipartOperation(call, constructingBody).reporting(to: progress)
        }
    }

    private func perform(
        _ call: ManagerCall, _ progress: TransferProgress.Handler?, _ success: Success?, _ failure: Failure?
    ) -> HTTPRequestOperation {
        enqueue(success, failure) { try makeOperation(call).reporting(to: progress) }
    }
}
