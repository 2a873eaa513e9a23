import Foundation
import FoundationNetworking

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

// MARK: What AFNetworking's subclasses inherit

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

    /// Sends no `Authorization` any more.
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

    /// `URLRequest.timeoutInterval` of new requests: how many seconds a transfer may be without a byte. nil leaves it
    /// alone.
    public var timeoutInterval: TimeInterval? {
        get { http.timeoutInterval }
        set { http.timeoutInterval = newValue }
    }

    /// The methods whose parameters go into the URL: GET, HEAD and DELETE, unless set.
    public var httpMethodsEncodingParametersInURI: Set<HTTPMethod> {
        get { http.httpMethodsEncodingParametersInURI }
        set { http.httpMethodsEncodingParametersInURI = newValue }
    }

    /// How trees become query strings. Setting it removes ``queryStringSerialization``.
    public var queryStringStyle: QueryStringStyle {
        get { http.queryStringStyle }
        set { http.queryStringStyle = newValue }
    }

    /// A way of your own to make the query string. See ``HTTPRequestSerializer/queryStringSerialization``.
    public var queryStringSerialization: (@Sendable (URLRequest, Parameter) throws -> String)? {
        get { http.queryStringSerialization }
        set { http.queryStringSerialization = newValue }
    }

    /// Whether bodies are sent compressed, with `Content-Encoding: gzip`. No, unless set.
    public var compressesBody: Bool {
        get { http.compressesBody }
        set { http.compressesBody = newValue }
    }
}
