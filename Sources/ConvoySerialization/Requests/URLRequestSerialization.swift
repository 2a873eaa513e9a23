import Foundation
import FoundationNetworking

/// Puts parameters into requests. The counterpart of `AFURLRequestSerialization`.
///
/// A serializer is a value. It can be used from several threads at once, and copies are independent. The functions do
/// no I/O, except that multipart forms open the files of their parts.
public protocol URLRequestSerialization: Sendable {
    /// A request with the parameters added.
    ///
    /// Existing headers and properties of the request are kept.
    ///
    /// - Parameters:
    ///   - request: the request to start from; it is not changed.
    ///   - parameters: the parameters to add; nil for none.
    /// - Throws: an `NSError` in ``URLRequestSerializationErrorDomain``, or the error of a custom closure.
    func request(bySerializing request: URLRequest, with parameters: Parameter?) throws -> URLRequest

    /// A new request. The serializer's headers and properties are applied to it.
    ///
    /// - Parameters:
    ///   - method: the method, sent unchanged.
    ///   - url: the URL; absolute, or relative with a base of its own.
    ///   - parameters: the parameters to add; nil for none.
    ///   - headers: headers for this request only. They override the serializer's; a nil value removes the field, even
    ///     one that the serializer would set. No name may be given in two spellings.
    /// - Throws: as ``request(bySerializing:with:)``, and for a method or header that cannot be sent.
    func request(
        method: HTTPMethod, url: URL, parameters: Parameter?, headers: [String: String?]
    ) throws -> URLRequest
}

extension URLRequestSerialization {
    /// A new request without additional headers.
    public func request(method: HTTPMethod, url: URL, parameters: Parameter? = nil) throws -> URLRequest {
        try request(method: method, url: url, parameters: parameters, headers: [:])
    }

    /// A new request, for serializers without headers or properties of their own.
    public func request(
        method: HTTPMethod, url: URL, parameters: Parameter?, headers: [String: String?]
    ) throws -> URLRequest {
        try newRequest(method: method, url: url, parameters: parameters, headers: headers) { _ in }
    }

    /// Builds a new request in the order that all serializers share: properties, headers of this request, parameters,
    /// and removals last, as the serializer may set a field that the caller does not want.
    func newRequest(
        method: HTTPMethod, url: URL, parameters: Parameter?, headers: [String: String?],
        applyingProperties apply: (inout URLRequest) -> Void
    ) throws -> URLRequest {
        guard method.isValid else {
            throw NSError.request(
                .invalidMethod, "The method is not a token (RFC 9110, section 5.6.2).", subject: method.rawValue)
        }
        var request = URLRequest(url: url)
        // The setter is slow, and a new request is already a GET.
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
