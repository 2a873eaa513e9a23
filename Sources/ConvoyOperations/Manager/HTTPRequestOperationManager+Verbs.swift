import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The verbs, in the form with handlers.
///
/// Each makes an operation, enqueues it and returns it. The handlers run on `completionQueue`, or on the main queue
/// where there is none. A request that cannot be made (a bad URL, parameters that cannot be serialized) fails in the
/// same way as one that the network refuses: through the operation, to `failure`.
extension HTTPRequestOperationManager {
    /// Called with the operation and its `responseObject`.
    public typealias Success = HTTPRequestOperation.Success
    /// Called with the operation and its `error`.
    public typealias Failure = HTTPRequestOperation.Failure

    /// A GET. Parameters are its query.
    @discardableResult
    public final func get(
        _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:],
        success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(.get, urlString, parameters, headers, success, failure)
    }

    /// A HEAD. Parameters are its query; there is no object for `success`.
    @discardableResult
    public final func head(
        _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:],
        success: (@Sendable (HTTPRequestOperation) -> Void)?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        let withObject: Success? = success.map { success in { @Sendable operation, _ in success(operation) } }
        return perform(.head, urlString, parameters, headers, withObject, failure)
    }

    /// A POST. Parameters are its body, as the request serializer writes it.
    @discardableResult
    public final func post(
        _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:],
        success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(.post, urlString, parameters, headers, success, failure)
    }

    /// A POST of a form with parts (RFC 7578). `constructingBody` runs before this returns.
    @discardableResult
    public final func post(
        _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:],
        constructingBody: (inout MultipartFormData) throws -> Void, success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        enqueue(success, failure) {
            try makeMultipartOperation(
                urlString, parameters: parameters, headers: headers, constructingBody: constructingBody)
        }
    }

    /// A PUT. Parameters are its body, as the request serializer writes it.
    @discardableResult
    public final func put(
        _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:],
        success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(.put, urlString, parameters, headers, success, failure)
    }

    /// A PATCH (RFC 5789). Parameters are its body, as the request serializer writes it.
    @discardableResult
    public final func patch(
        _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:],
        success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(.patch, urlString, parameters, headers, success, failure)
    }

    /// A DELETE. Parameters are its query.
    @discardableResult
    public final func delete(
        _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:],
        success: Success?, failure: Failure? = nil
    ) -> HTTPRequestOperation {
        perform(.delete, urlString, parameters, headers, success, failure)
    }

    /// An operation that posts a form with parts. Not enqueued.
    ///
    /// - Throws: `URLError.badURL`, the serializer's error, or what `constructingBody` throws.
    public final func makeMultipartOperation(
        _ urlString: String, method: HTTPMethod = .post, parameters: Parameters? = nil,
        headers: [String: String?] = [:], constructingBody: (inout MultipartFormData) throws -> Void
    ) throws -> HTTPRequestOperation {
        makeOperation(
            request: try requestSerializer.multipartFormRequest(
                method: method, url: try url(for: urlString), parameters: parameters, headers: headers,
                constructingBody: constructingBody))
    }

    private func perform(
        _ method: HTTPMethod, _ urlString: String, _ parameters: Parameters?, _ headers: [String: String?],
        _ success: Success?, _ failure: Failure?
    ) -> HTTPRequestOperation {
        enqueue(success, failure) {
            try makeOperation(method, urlString, parameters: parameters, headers: headers)
        }
    }

    private func enqueue(
        _ success: Success?, _ failure: Failure?, _ make: () throws -> HTTPRequestOperation
    ) -> HTTPRequestOperation {
        let operation: HTTPRequestOperation
        do {
            operation = try make()
        } catch {
            // A request that could not be made has no URL of its own.
            var request = URLRequest(url: baseURL ?? URL(fileURLWithPath: "/"))
            request.httpMethod = nil
            operation = makeOperation(request: request)
            operation.fail(with: error)
        }
        operation.setCompletionHandler(success: success, failure: failure)
        return enqueue(operation)
    }
}
