import CZlib
import ConvoySupport
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
    public var queryStringSerialization: (@Sendable (URLRequest, ParameterValue) throws -> String)?

    /// Whether bodies are sent compressed, with `Content-Encoding: gzip` (RFC 9110, section 8.4.1.3). False by default.
    ///
    /// Bodies that would not become smaller, streams, and requests that already have a `Content-Encoding` are left
    /// unchanged. HTTP has no way to ask a server beforehand whether it can decompress.
    public var compressesBody = false

    var headers: HeaderFields = DefaultHeaders.fields

    /// A serializer with the default headers, and no property set: `User-Agent`, and `Accept-Language` where the locale names
    /// a language.
    public init() {}

    /// This serializer itself, for code that configures any serializer through this property.
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
    public func request(bySerializing request: URLRequest, with parameters: ParameterValue?) throws -> URLRequest {
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

extension HTTPRequestSerializer: CustomStringConvertible {
    /// The headers, without the values of secret ones.
    public var description: String {
        let secrets = SecretClassifier.standard
        let fields = httpRequestHeaders.sorted { $0.key < $1.key }.map { "\($0.key): \(secrets.shown($0.key, $0.value))" }
        return "HTTPRequestSerializer(\(fields.joined(separator: ", ")))"
    }
}

extension HTTPRequestSerializer: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// The steps that all request serializers share.
extension HTTPRequestSerializer {
    /// Applies only the properties that were set, so that other defaults are kept.
    func applyProperties(to request: inout URLRequest) {
        if let allowsCellularAccess { request.allowsCellularAccess = allowsCellularAccess }
        if let cachePolicy { request.cachePolicy = cachePolicy }
        if let httpShouldHandleCookies { request.httpShouldHandleCookies = httpShouldHandleCookies }
        if let networkServiceType { request.networkServiceType = networkServiceType }
        if let timeoutInterval { request.timeoutInterval = timeoutInterval }
    }

    /// The checked request, with the serializer's headers added unless it has them already.
    func requestWithHeaders(_ request: URLRequest) throws -> URLRequest {
        guard request.url != nil else { throw NSError.badURL(nil) }
        guard HTTPSyntax.isToken(request.httpMethod ?? "GET") else {
            throw NSError.request(
                .invalidMethod, "The method is not a token (RFC 9110, section 5.6.2).", subject: request.httpMethod)
        }
        try headers.check()
        var request = request
        // One assignment, as that is cheaper than even a single call for one field.
        if var fields = request.allHTTPHeaderFields, !fields.isEmpty {
            try HeaderFields.checkNames(fields.keys)
            for (name, value) in headers.fields where request.value(forHTTPHeaderField: name) == nil {
                fields[name] = value
            }
            request.allHTTPHeaderFields = fields
        } else {
            request.allHTTPHeaderFields = headers.fields
        }
        return request
    }

    /// The headers of every request; nil if the serializer sets another property than the timeout, or a header that
    /// cannot be sent.
    package var fieldsOfPlainRequests: [String: String]? {
        guard allowsCellularAccess == nil, cachePolicy == nil, httpShouldHandleCookies == nil, networkServiceType == nil,
            (try? headers.check()) != nil
        else { return nil }
        return headers.fields
    }

    /// The query and the body of a request that is sent without making a `URLRequest`; nil if the serializer's settings
    /// need one.
    ///
    /// - Parameters:
    ///   - method: decides whether the parameters go into the query or the body.
    ///   - body: the body; the parameters are then the query. Nil if the parameters may be the body.
    ///   - json: writes the parameters as the body; nil for a form.
    package func plainParts(
        _ method: HTTPMethod, _ parameters: ParameterValue?, body: RequestBody?, json: JSONRequestSerializer?
    ) throws -> (query: String, body: (data: Data, contentType: String)?)? {
        if parameters != nil, queryStringSerialization != nil { return nil }
        func query() throws -> String { try parameters.map(queryStringStyle.queryString) ?? "" }
        if body == nil, encodesParametersInURI(method) { return (try query(), nil) }
        guard !compressesBody else { return nil }
        switch body {
        case .data(let data, let contentType): return (try query(), (data, contentType))
        case .file, .stream, .ownStream: return nil
        case nil: break
        }
        if let json { return ("", try parameters.map { (try json.body(of: $0), JSONRequestSerializer.contentType) }) }
        guard stringEncoding == .utf8 else { return nil }
        return ("", (Data(try query().utf8), Self.formContentType))
    }

    static let formContentType = "application/x-www-form-urlencoded"

    package func encodesParametersInURI(_ method: HTTPMethod) -> Bool {
        if httpMethodsEncodingParametersInURI.contains(method) { return true }
        return httpMethodsEncodingParametersInURI.contains { HTTPSyntax.isSameField($0.rawValue, method.rawValue) }
    }

    /// The query string, or nil if there are no parameters.
    func queryString(for request: URLRequest, parameters: ParameterValue?) throws -> String? {
        guard let parameters else { return nil }
        if let queryStringSerialization { return try queryStringSerialization(request, parameters) }
        return try queryStringStyle.queryString(from: parameters)
    }

    func appendQuery(of parameters: ParameterValue?, to request: inout URLRequest) throws {
        guard let query = try queryString(for: request, parameters: parameters), !query.isEmpty else { return }
        guard let url = request.url, let extended = url.appendingQuery(query) else {
            throw NSError.badURL(request.url)
        }
        request.url = extended
    }

    /// The request with its parameters as a query or, depending on the method, as a body of the given type. Nil
    /// parameters give neither body nor type.
    func request(
        _ request: URLRequest, with parameters: ParameterValue?, contentType: String,
        makingBody make: (ParameterValue) throws -> Data
    ) throws -> URLRequest {
        var request = try requestWithHeaders(request)
        if encodesParametersInURI(HTTPMethod(request.httpMethod ?? "GET")) {
            try appendQuery(of: parameters, to: &request)
        } else if let parameters {
            try setBody(try make(parameters), contentType: contentType, of: &request)
        }
        return request
    }

    /// Sets the body of a request, and its type unless it has one, and compresses the body if that is enabled.
    func setBody(_ body: Data, contentType: String, of request: inout URLRequest) throws {
        if request.value(forHTTPHeaderField: "Content-Type") == nil {
            request.setValue(contentType, forHTTPHeaderField: "Content-Type")
        }
        request.httpBody = body
        if compressesBody { try compressBody(of: &request) }
    }

    private func compressBody(of request: inout URLRequest) throws {
        guard let body = request.httpBody, request.value(forHTTPHeaderField: "Content-Encoding") == nil else { return }
        guard let compressed = try Gzip.compress(body), compressed.count < body.count else { return }
        request.httpBody = compressed
        request.setValue("gzip", forHTTPHeaderField: "Content-Encoding")
        // A length that was set for the uncompressed body would now be wrong.
        request.setValue(nil, forHTTPHeaderField: "Content-Length")
    }
}

/// A request body that is sent as it is, rather than made from parameters.
package enum RequestBody {
    /// Bytes, and the content type that is set unless the request has one.
    case data(Data, contentType: String)
    /// A file, read while it is sent.
    case file(URL)
    /// A stream of known length, read while it is sent. It can be read once, unless it is a ``ReplayableBodyStream``.
    case stream(InputStream, length: Int64)
    /// A stream made by this library, sent in chunks if its length is nil.
    case ownStream(InputStream, length: Int64?)
}

/// Compresses data in the gzip format (RFC 1952).
enum Gzip {
    /// The compressed data, or nil for empty data.
    static func compress(_ data: Data) throws -> Data? {
        if data.isEmpty { return nil }
        var stream = z_stream()
        // 15 bits of window; adding 16 selects gzip's header and trailer instead of zlib's.
        guard
            deflateInit2_(
                &stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
                Int32(MemoryLayout<z_stream>.size)) == Z_OK
        else { throw failure }
        defer { deflateEnd(&stream) }

        var output = Data()
        var block = [UInt8](repeating: 0, count: 64 * 1024)
        try data.withUnsafeBytes { (input: UnsafeRawBufferPointer) in
            var offset = 0
            var status = Z_OK
            repeat {
                // zlib counts in 32 bits, so a large body is passed in slices.
                let slice = min(input.count - offset, 1 << 30)
                stream.next_in = UnsafeMutableRawPointer(mutating: input.baseAddress)?
                    .assumingMemoryBound(to: Bytef.self).advanced(by: offset)
                stream.avail_in = uInt(slice)
                offset += slice
                let flush = offset == input.count ? Z_FINISH : Z_NO_FLUSH
                repeat {
                    try block.withUnsafeMutableBufferPointer { buffer in
                        stream.next_out = buffer.baseAddress
                        stream.avail_out = uInt(buffer.count)
                        status = deflate(&stream, flush)
                        guard status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR else { throw failure }
                        output.append(contentsOf: buffer[..<(buffer.count - Int(stream.avail_out))])
                    }
                } while stream.avail_out == 0
            } while status != Z_STREAM_END && offset < input.count
        }
        return output
    }

    private static var failure: NSError {
        .request(.compressionFailed, "The body could not be compressed.")
    }
}
