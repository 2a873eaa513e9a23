import ConvoySupport
import Foundation
import FoundationNetworking

/// A type that adds parameters to requests. The counterpart of `AFURLRequestSerialization`.
///
/// A serializer is a value: copies are independent, and it can be used from several threads. The methods perform no
/// I/O, except that multipart forms open the files of their parts.
public protocol URLRequestSerialization: Sendable {
    /// Returns a request with the parameters added.
    ///
    /// Existing headers and properties of the request are kept.
    ///
    /// - Parameters:
    ///   - request: The original request, which is not changed.
    ///   - parameters: The parameters to add; nil for none.
    /// - Throws: An `NSError` in ``URLRequestSerializationErrorDomain``, or the error of a custom closure.
    func request(bySerializing request: URLRequest, with parameters: ParameterValue?) throws -> URLRequest

    /// Creates a request with the serializer's headers and properties.
    ///
    /// - Parameters:
    ///   - method: The method, which is sent unchanged.
    ///   - url: The URL, which is absolute or has a base URL.
    ///   - parameters: The parameters to add; nil for none.
    ///   - headers: Headers for this request only. They override the serializer's. A nil value removes the field, even
    ///     if the serializer would set it. A name must not be given in two spellings.
    /// - Throws: The errors of ``request(bySerializing:with:)``, and an error if the method or a header cannot be sent.
    func request(
        method: HTTPMethod, url: URL, parameters: ParameterValue?, headers: [String: String?]
    ) throws -> URLRequest
}

extension URLRequestSerialization {
    /// Creates a request without additional headers.
    public func request(method: HTTPMethod, url: URL, parameters: ParameterValue? = nil) throws -> URLRequest {
        try request(method: method, url: url, parameters: parameters, headers: [:])
    }

    /// Creates a request, for serializers without their own headers or properties.
    public func request(
        method: HTTPMethod, url: URL, parameters: ParameterValue?, headers: [String: String?]
    ) throws -> URLRequest {
        try newRequest(method: method, url: url, parameters: parameters, headers: headers) { _ in }
    }

    /// Creates a request in the order shared by all serializers: properties, headers of this request, parameters, and
    /// finally the removal of fields, including those set by the serializer.
    func newRequest(
        method: HTTPMethod, url: URL, parameters: ParameterValue?, headers: [String: String?],
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

/// A serializer that wraps an ``HTTPRequestSerializer``. AFNetworking uses subclasses instead.
///
/// The headers, properties and query rules of ``http`` can be set on the serializer itself.
public protocol HTTPRequestSerialization: URLRequestSerialization {
    /// The wrapped serializer, with the headers, properties, query style and so on.
    var http: HTTPRequestSerializer { get set }
}

extension HTTPRequestSerialization {
    /// Creates a request with the headers and properties of ``http``.
    public func request(
        method: HTTPMethod, url: URL, parameters: ParameterValue?, headers: [String: String?]
    ) throws -> URLRequest {
        try newRequest(
            method: method, url: url, parameters: parameters, headers: headers,
            applyingProperties: http.applyProperties)
    }
}

// MARK: Forwarding to the wrapped serializer

extension HTTPRequestSerialization {
    /// The headers that are added to every request that does not already have them.
    public var httpRequestHeaders: [String: String] { http.httpRequestHeaders }

    /// Sets a header for every request; nil removes it.
    ///
    /// Names are case-insensitive. A name or value that cannot be sent is stored, but every serialization then throws
    /// an error.
    public mutating func setValue(_ value: String?, forHTTPHeaderField name: String) {
        http.headers.set(value, for: name)
    }

    /// Returns the value of a header that has been set. Names are case-insensitive.
    public func value(forHTTPHeaderField name: String) -> String? {
        http.headers.value(for: name)
    }

    /// Sets `Authorization: Basic …` (RFC 7617), using UTF-8 for the user name and password.
    ///
    /// If the user name contains a colon, every serialization throws an error, because the server would split the name
    /// there.
    public mutating func setAuthorizationHeader(username: String, password: String) {
        let credentials = Data("\(username):\(password)".utf8).base64EncodedString()
        http.headers.set("Basic \(credentials)", for: "Authorization")
        if username.utf8.contains(UInt8(ascii: ":")) { http.headers.reject("Authorization", because: .invalidUserName) }
    }

    /// Sets `Authorization: Bearer …` (RFC 6750).
    ///
    /// The serializer adds the header to each request that it creates. A manager with a base URL sends the header only
    /// to that origin and to its `authorizationOrigins`. A manager without a base URL sends it to every server that is
    /// called.
    public mutating func setAuthorizationHeader(bearerToken token: String) {
        http.headers.set("Bearer \(token)", for: "Authorization")
    }

    /// Removes `Authorization`.
    public mutating func clearAuthorizationHeader() {
        http.headers.set(nil, for: "Authorization")
    }

    /// The encoding of form bodies and of text in multipart forms. The default is UTF-8.
    public var stringEncoding: String.Encoding {
        get { http.stringEncoding }
        set { http.stringEncoding = newValue }
    }

    /// `URLRequest.allowsCellularAccess` of new requests; nil leaves it unchanged.
    public var allowsCellularAccess: Bool? {
        get { http.allowsCellularAccess }
        set { http.allowsCellularAccess = newValue }
    }

    /// `URLRequest.cachePolicy` of new requests; nil leaves it unchanged.
    public var cachePolicy: URLRequest.CachePolicy? {
        get { http.cachePolicy }
        set { http.cachePolicy = newValue }
    }

    /// `URLRequest.httpShouldHandleCookies` of new requests; nil leaves it unchanged.
    public var httpShouldHandleCookies: Bool? {
        get { http.httpShouldHandleCookies }
        set { http.httpShouldHandleCookies = newValue }
    }

    /// `URLRequest.networkServiceType` of new requests; nil leaves it unchanged.
    public var networkServiceType: URLRequest.NetworkServiceType? {
        get { http.networkServiceType }
        set { http.networkServiceType = newValue }
    }

    /// `URLRequest.timeoutInterval` of new requests, the maximum time without data, in seconds; nil leaves it
    /// unchanged.
    public var timeoutInterval: TimeInterval? {
        get { http.timeoutInterval }
        set { http.timeoutInterval = newValue }
    }

    /// The methods whose parameters are added to the URL. The default is GET, HEAD and DELETE.
    public var httpMethodsEncodingParametersInURI: Set<HTTPMethod> {
        get { http.httpMethodsEncodingParametersInURI }
        set { http.httpMethodsEncodingParametersInURI = newValue }
    }

    /// The way parameters are converted to query strings. Setting this property removes ``queryStringSerialization``.
    public var queryStringStyle: QueryStringStyle {
        get { http.queryStringStyle }
        set { http.queryStringStyle = newValue }
    }

    /// A custom closure that creates the query string. See ``HTTPRequestSerializer/queryStringSerialization``.
    public var queryStringSerialization: (@Sendable (URLRequest, ParameterValue) throws -> String)? {
        get { http.queryStringSerialization }
        set { http.queryStringSerialization = newValue }
    }

    /// Whether bodies are sent compressed, with `Content-Encoding: gzip`. The default is false.
    public var compressesBody: Bool {
        get { http.compressesBody }
        set { http.compressesBody = newValue }
    }
}

/// The method of an HTTP request (RFC 9110, section 9).
///
/// The raw value is sent unchanged, because methods are case-sensitive. It must be a token (RFC 9110, section 5.6.2);
/// otherwise serializers throw.
public struct HTTPMethod: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The method's name as it is sent.
    public let rawValue: String

    /// Creates a method from its name, without validation; see ``isValid``.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// Creates a method from its name, without validation; see ``isValid``.
    public init(_ rawValue: String) { self.rawValue = rawValue }
    /// Creates a method from its name, without validation; see ``isValid``.
    public init(stringLiteral value: String) { self.rawValue = value }

    /// The name of the method.
    public var description: String { rawValue }

    /// The GET method (RFC 9110, section 9.3.1).
    public static let get = HTTPMethod("GET")
    /// The HEAD method (RFC 9110, section 9.3.2).
    public static let head = HTTPMethod("HEAD")
    /// The POST method (RFC 9110, section 9.3.3).
    public static let post = HTTPMethod("POST")
    /// The PUT method (RFC 9110, section 9.3.4).
    public static let put = HTTPMethod("PUT")
    /// The PATCH method (RFC 5789).
    public static let patch = HTTPMethod("PATCH")
    /// The DELETE method (RFC 9110, section 9.3.5).
    public static let delete = HTTPMethod("DELETE")
    /// The OPTIONS method (RFC 9110, section 9.3.7).
    public static let options = HTTPMethod("OPTIONS")
    /// The TRACE method (RFC 9110, section 9.3.8).
    public static let trace = HTTPMethod("TRACE")
    /// The CONNECT method (RFC 9110, section 9.3.6).
    public static let connect = HTTPMethod("CONNECT")

    /// Whether the name is a token, as a request line requires.
    public var isValid: Bool { HTTPSyntax.isToken(rawValue) }
}

/// The reason why a request cannot be created.
public enum RequestSerializationFailure: String, Sendable, Hashable {
    /// The method is not a token (RFC 9110, section 5.6.2), or is not allowed for this kind of request.
    case invalidMethod
    /// A header name is not a token.
    case invalidHeaderName
    /// A header value contains a control character, for example a line break.
    case invalidHeaderValue
    /// A header is given twice, in spellings that differ only in case.
    case repeatedHeader
    /// A user name with a colon cannot be sent with Basic authorization (RFC 7617, section 2).
    case invalidUserName
    /// The URL is missing, or is invalid with the query added.
    case invalidURL
    /// The parameters cannot be represented in this format.
    case invalidParameters
    /// The parameters are nested deeper than ``ParameterValue/maximumDepth``.
    case parametersTooDeep
    /// A string cannot be represented in the serializer's string encoding.
    case invalidText
    /// A URL is not a file URL, or its file cannot be read.
    case unusableFile
    /// A part of a multipart form has a name, type or length that cannot be sent.
    case invalidPart
    /// The body cannot be compressed.
    case compressionFailed
}

extension NSError {
    static func request(
        _ failure: RequestSerializationFailure, _ reason: String, subject: String? = nil,
        code: Int = NSURLErrorCannotDecodeContentData, underlying: (any Error)? = nil
    ) -> NSError {
        var userInfo: [String: Any] = [
            NSLocalizedFailureReasonErrorKey: reason,
            NSLocalizedDescriptionKey: reason,
            URLRequestSerializationErrorKey.reason: failure,
        ]
        userInfo[URLRequestSerializationErrorKey.subject] = subject
        userInfo[NSUnderlyingErrorKey] = underlying.map { $0 as NSError }
        return DescribedError(domain: URLRequestSerializationErrorDomain, code: code, userInfo: userInfo)
    }

    static func badURL(_ url: URL?) -> NSError {
        request(
            .invalidURL, url == nil ? "The request has no URL." : "The URL is invalid.",
            subject: url.map { Redaction.url($0.absoluteString) }, code: NSURLErrorBadURL)
    }
}

/// The domain of all errors of Convoy's request serializers. The counterpart of `AFURLRequestSerializationErrorDomain`.
///
/// The codes are those of `NSURLErrorDomain`: `NSURLErrorBadURL` (-1000) for an invalid URL, and
/// `NSURLErrorCannotDecodeContentData` (-1016) for all other errors. The `userInfo` contains a description under
/// `NSLocalizedFailureReasonErrorKey` and a ``RequestSerializationFailure`` under
/// ``URLRequestSerializationErrorKey/reason``.
public let URLRequestSerializationErrorDomain = "com.alamofire.error.serialization.request"

/// The keys in the `userInfo` of errors in ``URLRequestSerializationErrorDomain``.
public enum URLRequestSerializationErrorKey {
    /// The key of the ``RequestSerializationFailure``.
    public static let reason = "com.convoy.serialization.request.error.reason"
    /// The key of the invalid method, header name, file path or similar, as a `String`. The value of a header is never
    /// included, because it can be secret.
    public static let subject = "com.convoy.serialization.request.error.subject"
    /// The key of the `URLRequest` that failed, if an operation provides it. The same key as
    /// `AFNetworkingOperationFailingURLRequestErrorKey`.
    public static let failingURLRequest = "com.alamofire.serialization.request.error.response"
}
