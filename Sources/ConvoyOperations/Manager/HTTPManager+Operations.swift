import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Operations that are made and not enqueued: to give them dependencies, handlers, a stream, or a place in a batch.
extension HTTPManager {
    /// An operation for a method, a URL and parameters. Not enqueued.
    ///
    /// - Parameters:
    ///   - method: the method.
    ///   - url: absolute, or relative to `baseURL`.
    ///   - parameters: by their keys, as `Parameter.converting(_:)` takes them: nil leaves its key out. They become
    ///     the query of a GET, HEAD and DELETE, and the body of the others, as the request serializer writes it: a form,
    ///     or JSON with a `JSONRequestSerializer`.
    ///   - body: sent as JSON, by ``encoder``; `Data` as it is. The parameters then become the query.
    ///   - headers: win over the serializer's; nil takes one of those away.
    ///   - timeout: limits for this operation alone; a number is the seconds that it may take in all.
    /// - Throws: `URLError.badURL`, the request serializer's error, or the encoder's.
    public func makeOperation(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: [String: Any?]? = nil,
        body: (any Encodable)? = nil, headers: [String: String?] = [:], timeout: Timeout? = nil
    ) throws -> HTTPRequestOperation {
        adopted(
            try operationManager.makeOperation(ManagerCall(method, url.urlString, parameters, body, headers, timeout)),
            as: .data)
    }

    /// An operation for a method, a URL and parameters of any type that can be encoded. Not enqueued. The rest is as with
    /// parameters by their keys.
    public func makeOperation(
        _ method: HTTPMethod, _ url: some URLConvertible, parameters: some Encodable, body: (any Encodable)? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil
    ) throws -> HTTPRequestOperation {
        adopted(
            try operationManager.makeOperation(ManagerCall(method, url.urlString, parameters, body, headers, timeout)),
            as: .data)
    }

    /// An operation for a method, a URL and a tree of parameters, which may be a literal of any depth. Not enqueued.
    @_disfavoredOverload
    public func makeOperation(
        _ method: HTTPMethod, _ urlString: String, parameters: Parameters?, headers: [String: String?] = [:]
    ) throws -> HTTPRequestOperation {
        adopted(try operationManager.makeOperation(ManagerCall(method, urlString, parameters, nil, headers, nil)), as: .data)
    }

    /// An operation that sends a form with parts (RFC 7578). Not enqueued.
    ///
    /// - Parameters:
    ///   - url: absolute, or relative to `baseURL`.
    ///   - method: the method; POST, unless given.
    ///   - parameters: fields that are sent before the parts.
    ///   - headers: win over the serializer's; nil takes one of those away.
    ///   - timeout: limits for this operation alone.
    ///   - constructingBody: appends the parts; called before this returns.
    /// - Throws: `URLError.badURL`, the serializer's error, or what `constructingBody` throws.
    public func makeMultipartOperation(
        _ url: some URLConvertible, method: HTTPMethod = .post, parameters: [String: Any?]? = nil,
        headers: [String: String?] = [:], timeout: Timeout? = nil,
        constructingBody: (inout MultipartFormData) throws -> Void
    ) throws -> HTTPRequestOperation {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        return adopted(try operationManager.makeMultipartOperation(call, constructingBody), as: .upload)
    }

    /// An operation that sends a form with parts, and with parameters of any type that can be encoded. Not enqueued.
    public func makeMultipartOperation(
        _ url: some URLConvertible, method: HTTPMethod = .post, parameters: some Encodable,
        headers: [String: String?] = [:], timeout: Timeout? = nil,
        constructingBody: (inout MultipartFormData) throws -> Void
    ) throws -> HTTPRequestOperation {
        let call = ManagerCall(method, url.urlString, parameters, nil, headers, timeout)
        return adopted(try operationManager.makeMultipartOperation(call, constructingBody), as: .upload)
    }
}
