import Foundation
import FoundationNetworking

/// Serializes parameters as a query string or a form. The counterpart of `AFHTTPRequestSerializer`.
///
/// For methods in ``httpMethodsEncodingParametersInURI`` the query goes into the URL. For others it is the body, with
/// the type `application/x-www-form-urlencoded` unless the request has a type already; nil parameters give an empty
/// body, as in AFNetworking.
///
/// A value: copies are independent. Making one is cheap; the default headers are computed once per process.
public struct HTTPRequestSerializer: HTTPRequestSerialization {
    /// The encoding of form bodies and of the text in multipart forms. UTF-8 by default. Percent-escapes are always
    /// UTF-8.
    public var stringEncoding = String.Encoding.utf8

    /// `URLRequest.allowsCellularAccess` of new requests; nil leaves it alone.
    public var allowsCellularAccess: Bool?
    /// `URLRequest.cachePolicy` of new requests; nil leaves it alone.
    public var cachePolicy: URLRequest.CachePolicy?
    /// `URLRequest.httpShouldHandleCookies` of new requests; nil leaves it alone.
    public var httpShouldHandleCookies: Bool?
    /// `URLRequest.networkServiceType` of new requests; nil leaves it alone.
    public var networkServiceType: URLRequest.NetworkServiceType?
    /// `URLRequest.timeoutInterval` of new requests, in seconds; nil leaves it alone.
    public var timeoutInterval: TimeInterval?

    /// The methods whose parameters go into the URL (case-insensitive). GET, HEAD and DELETE by default.
    ///
    /// For a DELETE with a body, set this to `[.get, .head]`.
    public var httpMethodsEncodingParametersInURI: Set<HTTPMethod> = [.get, .head, .delete]

    /// How parameters become query strings. Setting it removes ``queryStringSerialization``.
    public var queryStringStyle = QueryStringStyle.brackets {
        didSet { queryStringSerialization = nil }
    }

    /// A custom closure that makes the query string, for URLs and form bodies. It is called on the thread that builds
    /// the request, if the parameters are not nil. Its errors are passed on unchanged.
    public var queryStringSerialization: (@Sendable (URLRequest, Parameter) throws -> String)?

    /// Whether bodies are sent compressed, with `Content-Encoding: gzip` (RFC 9110, section 8.4.1.3). False by default.
    ///
    /// Bodies that would not become smaller, streams, and requests that already have a `Content-Encoding` are left
    /// unchanged. HTTP has no way to ask a server beforehand whether it can decompress.
    public var compressesBody = false

    var headers: HeaderFields = DefaultHeaders.fields

    /// A serializer with the default headers, `Accept-Language` and `User-Agent`, and no property set.
    public init() {}

    /// This serializer, so that all serializers can be set up alike.
    public var http: HTTPRequestSerializer {
        get { self }
        set { self = newValue }
    }

    // MARK: Headers

    /// The headers that are added to every request that does not have them already.
    public var httpRequestHeaders: [String: String] { headers.fields }

    /// Sets a header for every request; nil removes it.
    ///
    /// Names are case-insensitive. Anything can be stored; a name or value that cannot be sent makes every
    /// serialization throw.
    public mutating func setValue(_ value: String?, forHTTPHeaderField name: String) {
        headers.set(value, for: name)
    }

    /// The value of a header that was set. Names are case-insensitive.
    public func value(forHTTPHeaderField name: String) -> String? {
        headers.value(for: name)
    }

    /// Sets `Authorization: Basic …` (RFC 7617) with the UTF-8 of the user name and password.
    ///
    /// A user name with a colon makes every serialization throw, as the server would split it there.
    public mutating func setAuthorizationHeader(username: String, password: String) {
        let credentials = Data("\(username):\(password)".utf8).base64EncodedString()
        headers.set("Basic \(credentials)", for: "Authorization")
        if username.utf8.contains(UInt8(ascii: ":")) { headers.reject("Authorization", because: .invalidUserName) }
    }

    /// Sets `Authorization: Bearer …` (RFC 6750).
    ///
    /// The serializer adds it to each request that it makes. A manager with a base URL sends it only to that origin and to
    /// its `authorizationOrigins`; one without a base URL sends it wherever a call leads.
    public mutating func setAuthorizationHeader(bearerToken token: String) {
        headers.set("Bearer \(token)", for: "Authorization")
    }

    /// Removes `Authorization`.
    public mutating func clearAuthorizationHeader() {
        headers.set(nil, for: "Authorization")
    }

    // MARK: Serializing

    /// The request with the parameters as its query or as its form body, which replaces an existing body.
    ///
    /// - Throws: an error in ``URLRequestSerializationErrorDomain``, or the error of ``queryStringSerialization``.
    public func request(bySerializing request: URLRequest, with parameters: Parameter?) throws -> URLRequest {
        var request = try requestWithHeaders(request)
        if encodesParametersInURI(HTTPMethod(request.httpMethod ?? "GET")) {
            try appendQuery(of: parameters, to: &request)
            return request
        }
        let query = try queryString(for: request, parameters: parameters) ?? ""
        guard let body = query.data(using: stringEncoding) else {
            throw NSError.request(.invalidText, "The form cannot be expressed in the serializer's string encoding.")
        }
        try setBody(body, contentType: Self.formContentType, of: &request)
        return request
    }
}
