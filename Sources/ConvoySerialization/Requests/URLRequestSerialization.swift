import Foundation
import FoundationNetworking

/// Puts parameters into requests; AFNetworking's protocol of the same name.
///
/// A serializer is a value. It can be used from many threads at once, and changing a copy changes nothing else.
/// The functions do no I/O, except that parts of a multipart form look at the files that they are made from.
public protocol URLRequestSerialization: Sendable {
    /// The given request with the parameters in it.
    ///
    /// Headers and properties that the request has already are kept.
    ///
    /// - Parameters:
    ///   - request: what to start from; not changed.
    ///   - parameters: what to put into it; nil for nothing.
    /// - Throws: an `NSError` in ``URLRequestSerializationErrorDomain``, or what a custom closure throws.
    func request(bySerializing request: URLRequest, with parameters: Parameter?) throws -> URLRequest

    /// A new request. The serializer's headers and properties are applied to it.
    ///
    /// - Parameters:
    ///   - method: the method, sent as it is spelled.
    ///   - url: where to; absolute, or relative to a base of its own.
    ///   - parameters: what to put into it; nil for nothing.
    ///   - headers: headers for this request alone. They win over the serializer's own; a nil value removes the
    ///     field, also one that the serializer would set. No name may be there in two spellings.
    /// - Throws: as ``request(bySerializing:with:)``, and for a method or header that cannot be sent.
    func request(
        method: HTTPMethod, url: URL, parameters: Parameter?, headers: [String: String?]
    ) throws -> URLRequest
}

extension URLRequestSerialization {
    /// A new request with no headers of its own.
    public func request(method: HTTPMethod, url: URL, parameters: Parameter? = nil) throws -> URLRequest {
        try request(method: method, url: url, parameters: parameters, headers: [:])
    }

    /// A new request, for a serializer that has no headers or properties of its own to apply.
    public func request(
        method: HTTPMethod, url: URL, parameters: Parameter?, headers: [String: String?]
    ) throws -> URLRequest {
        try newRequest(method: method, url: url, parameters: parameters, headers: headers) { _ in }
    }

    /// The order of things that every serializer shares: properties, then per-request headers, then the parameters,
    /// and removals last, because the serializer may set a field that the caller does not want.
    func newRequest(
        method: HTTPMethod, url: URL, parameters: Parameter?, headers: [String: String?],
        applyingProperties apply: (inout URLRequest) -> Void
    ) throws -> URLRequest {
        guard method.isValid else {
            throw NSError.request(
                .invalidMethod, "The method is not a token (RFC 9110, section 5.6.2).", subject: method.rawValue)
        }
        var request = URLRequest(url: url)
        // The setter normalizes and copies; a new request is a GET.
        if method != .get { request.httpMethod = method.rawValue }
        apply(&request)
        if headers.isEmpty { return try self.request(bySerializing: request, with: parameters) }
        for (name, value) in headers { try HeaderFields.check(name: name, value: value ?? "") }
        try HeaderFields.checkNames(headers.keys)
        request.allHTTPHeaderFields = headers.compactMapValues { $0 }
        request = try self.request(bySerializing: request, with: parameters)
        for (name, value) in headers where value == nil {
            request.setValue(nil, forHTTPHeaderField: name)
        }
        return request
    }
}
