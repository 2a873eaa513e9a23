import Foundation
import FoundationNetworking

/// Adds parameters to requests. The counterpart of `AFURLRequestSerialization`.
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
    /// and removals last, which also remove fields that the serializer sets.
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

/// A serializer that wraps an ``HTTPRequestSerializer``, where AFNetworking's are subclasses of it.
///
/// The headers, properties and query rules of ``http`` can be set on the serializer itself.
public protocol HTTPRequestSerialization: URLRequestSerialization {
    /// The wrapped serializer: headers, properties, query style and so on.
    var http: HTTPRequestSerializer { get set }
}

extension HTTPRequestSerialization {
    /// A new request with the headers and properties of ``http``.
    public func request(
        method: HTTPMethod, url: URL, parameters: Parameter?, headers: [String: String?]
    ) throws -> URLRequest {
        try newRequest(
            method: method, url: url, parameters: parameters, headers: headers,
            applyingProperties: http.applyProperties)
    }
}

// MARK: Forwarding to the wrapped serializer

extension HTTPRequestSerialization {
    /// The headers that go into every request that does not have them already.
    public var httpRequestHeaders: [String: String] { http.httpRequestHeaders }

    /// Sets a header for every request; nil removes it. See ``HTTPRequestSerializer/setValue(_:forHTTPHeaderField:)``.
    public mutating func setValue(_ value: String?, forHTTPHeaderField name: String) {
        http.setValue(value, forHTTPHeaderField: name)
    }

    /// The value of a header that was set, by its name in any case.
    public func value(forHTTPHeaderField name: String) -> String? { http.value(forHTTPHeaderField: name) }

    /// Sends `Authorization: Basic …` (RFC 7617) with the UTF-8 of the user name and password.
    public mutating func setAuthorizationHeader(username: String, password: String) {
        http.setAuthorizationHeader(username: username, password: password)
    }

    /// Sends `Authorization: Bearer …` (RFC 6750).
    public mutating func setAuthorizationHeader(bearerToken token: String) {
        http.setAuthorizationHeader(bearerToken: token)
    }

    /// Removes the `Authorization` header.
    public mutating func clearAuthorizationHeader() { http.clearAuthorizationHeader() }

    /// The encoding of form bodies and of the text in multipart forms. UTF-8 by default.
    public var stringEncoding: String.Encoding {
        get { http.stringEncoding }
        set { http.stringEncoding = newValue }
    }

    /// `URLRequest.allowsCellularAccess` of new requests; nil leaves it alone.
    public var allowsCellularAccess: Bool? {
        get { http.allowsCellularAccess }
        set { http.allowsCellularAccess = newValue }
    }

    /// `URLRequest.cachePolicy` of new requests; nil leaves it alone.
    public var cachePolicy: URLRequest.CachePolicy? {
        get { http.cachePolicy }
        set { http.cachePolicy = newValue }
    }

    /// `URLRequest.httpShouldHandleCookies` of new requests; nil leaves it alone.
    public var httpShouldHandleCookies: Bool? {
        get { http.httpShouldHandleCookies }
        set { http.httpShouldHandleCookies = newValue }
    }

    /// `URLRequest.networkServiceType` of new requests; nil leaves it alone.
    public var networkServiceType: URLRequest.NetworkServiceType? {
        get { http.networkServiceType }
        set { http.networkServiceType = newValue }
    }

    /// `URLRequest.timeoutInterval` of new requests: the longest time without a byte, in seconds; nil leaves it alone.
    public var timeoutInterval: TimeInterval? {
        get { http.timeoutInterval }
        set { http.timeoutInterval = newValue }
    }

    /// The methods whose parameters go into the URL: GET, HEAD and DELETE by default.
    public var httpMethodsEncodingParametersInURI: Set<HTTPMethod> {
        get { http.httpMethodsEncodingParametersInURI }
        set { http.httpMethodsEncodingParametersInURI = newValue }
    }

    /// How trees become query strings. Setting it removes ``queryStringSerialization``.
    public var queryStringStyle: QueryStringStyle {
        get { http.queryStringStyle }
        set { http.queryStringStyle = newValue }
    }

    /// A custom closure that makes the query string. See ``HTTPRequestSerializer/queryStringSerialization``.
    public var queryStringSerialization: (@Sendable (URLRequest, Parameter) throws -> String)? {
        get { http.queryStringSerialization }
        set { http.queryStringSerialization = newValue }
    }

    /// Whether bodies are sent compressed, with `Content-Encoding: gzip`. False by default.
    public var compressesBody: Bool {
        get { http.compressesBody }
        set { http.compressesBody = newValue }
    }
}
