import CZlib
import ConvoySupport
import Foundation
import FoundationNetworking

/// A serializer that adds parameters as a query string or a form. The counterpart of `AFHTTPRequestSerializer`.
///
/// For methods in ``httpMethodsEncodingParametersInURI``, the query is added to the URL. For all other methods, it
/// becomes the body, with the content type `application/x-www-form-urlencoded` unless the request already has one. As
/// in AFNetworking, nil parameters result in an empty body.
///
/// A serializer is a value: copies are independent. Creating one is cheap, because the default headers are computed
/// once per process.
public struct HTTPRequestSerializer: HTTPRequestSerialization {
    /// The encoding of form bodies and of text in multipart forms. The default is UTF-8. Percent-escapes always use
    /// UTF-8.
    public var stringEncoding = String.Encoding.utf8

    /// `URLRequest.allowsCellularAccess` of new requests; nil leaves it unchanged.
    public var allowsCellularAccess: Bool?
    /// `URLRequest.cachePolicy` of new requests; nil leaves it unchanged.
    public var cachePolicy: URLRequest.CachePolicy?
    /// `URLRequest.httpShouldHandleCookies` of new requests; nil leaves it unchanged.
    public var httpShouldHandleCookies: Bool?
    /// `URLRequest.networkServiceType` of new requests; nil leaves it unchanged.
    public var networkServiceType: URLRequest.NetworkServiceType?
    /// `URLRequest.timeoutInterval` of new requests, in seconds; nil leaves it unchanged.
    public var timeoutInterval: TimeInterval?

    /// The methods whose parameters are added to the URL (case-insensitive). The default is GET, HEAD and DELETE.
    ///
    /// For a DELETE with a body, set this to `[.get, .head]`.
    public var httpMethodsEncodingParametersInURI: Set<HTTPMethod> = [.get, .head, .delete]

    /// The way parameters are converted to query strings. Setting this property removes ``queryStringSerialization``.
    public var queryStringStyle = QueryStringStyle.brackets {
        didSet { queryStringSerialization = nil }
    }

    /// A custom closure that creates the query string, for URLs and form bodies. It is called on the thread that builds
    /// the request, if the parameters are not nil. Errors thrown by the closure are rethrown unchanged.
    public var queryStringSerialization: (@Sendable (URLRequest, ParameterValue) throws -> String)?

    /// Whether bodies are sent compressed, with `Content-Encoding: gzip` (RFC 9110, section 8.4.1.3). The default is
    /// false.
    ///
    /// Bodies that would not become smaller, streams, and requests that already have a `Content-Encoding` are not
    /// changed. HTTP does not let a client determine in advance whether a server can decompress a body.
    public var compressesBody = false

    var headers: HeaderFields = DefaultHeaders.fields

    /// Creates a serializer with the default headers and without other settings. The headers are `User-Agent` and, if
    /// the locale specifies a language, `Accept-Language`.
    public init() {}

    /// This serializer itself, for code that configures any serializer through this property.
    public var http: HTTPRequestSerializer {
        get { self }
        set { self = newValue }
    }

    // MARK: Headers

    /// The headers that are added to every request that does not already have them.
    public var httpRequestHeaders: [String: String] { headers.fields }

    // MARK: Serializing

    /// Returns the request with the parameters as its query or as its form body, which replaces an existing body.
    ///
    /// - Throws: An error in ``URLRequestSerializationErrorDomain``, or the error of ``queryStringSerialization``.
    public func request(bySerializing request: URLRequest, with parameters: ParameterValue?) throws -> URLRequest {
        var request = try requestWithHeaders(request)
        if encodesParametersInURI(HTTPMethod(request.httpMethod ?? "GET")) {
            try appendQuery(of: parameters, to: &request)
            return request
        }
        let query = try queryString(for: request, parameters: parameters) ?? ""
        guard let body = query.data(using: stringEncoding) else {
            throw NSError.request(.invalidText, "The form cannot be represented in the serializer's string encoding.")
        }
        try setBody(body, contentType: Self.formContentType, of: &request)
        return request
    }
}

extension HTTPRequestSerializer: CustomStringConvertible {
    /// The headers, without secret values.
    public var description: String {
        let secrets = SecretClassifier.standard
        let fields = httpRequestHeaders.sorted { $0.key < $1.key }.map { "\($0.key): \(secrets.shown($0.key, $0.value))" }
        return "HTTPRequestSerializer(\(fields.joined(separator: ", ")))"
    }
}

extension HTTPRequestSerializer: OpaqueReflectable {}

/// The steps shared by all request serializers.
extension HTTPRequestSerializer {
    /// Applies only the properties that have been set, so that other defaults are kept.
    func applyProperties(to request: inout URLRequest) {
        if let allowsCellularAccess { request.allowsCellularAccess = allowsCellularAccess }
        if let cachePolicy { request.cachePolicy = cachePolicy }
        if let httpShouldHandleCookies { request.httpShouldHandleCookies = httpShouldHandleCookies }
        if let networkServiceType { request.networkServiceType = networkServiceType }
        if let timeoutInterval { request.timeoutInterval = timeoutInterval }
    }

    /// Validates the request, and adds the serializer's headers unless the request already has them.
    func requestWithHeaders(_ request: URLRequest) throws -> URLRequest {
        guard request.url != nil else { throw NSError.badURL(nil) }
        guard HTTPSyntax.isToken(request.httpMethod ?? "GET") else {
            throw NSError.request(
                .invalidMethod, "The method is not a token (RFC 9110, section 5.6.2).", subject: request.httpMethod)
        }
        try headers.check()
        var request = request
        // A single assignment is cheaper than even one call that sets a field.
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

    /// The headers of every request; nil if the serializer sets any property other than the timeout, or a header that
    /// cannot be sent.
    package var fieldsOfPlainRequests: [String: String]? {
        guard allowsCellularAccess == nil, cachePolicy == nil, httpShouldHandleCookies == nil, networkServiceType == nil,
            (try? headers.check()) != nil
        else { return nil }
        return headers.fields
    }

    /// Returns the query and the body of a request that is sent without creating a `URLRequest`; nil if the
    /// serializer's settings require one.
    ///
    /// - Parameters:
    ///   - method: The method, which determines whether the parameters become the query or the body.
    ///   - body: The body, in which case the parameters become the query. If nil, the parameters may become the body.
    ///   - json: The serializer that encodes the parameters as the body; nil for a form.
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

    /// Returns the query string; nil if the parameters are nil.
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

    /// Returns the request with its parameters as a query or, depending on the method, as a body with the given content
    /// type. Nil parameters result in neither a body nor a content type.
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

    /// Sets the body of a request, and its content type unless it already has one, and compresses the body if enabled.
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
        // Remove a length that was set for the uncompressed body.
        request.setValue(nil, forHTTPHeaderField: "Content-Length")
    }
}

/// A request body that is sent as given rather than created from parameters.
package enum RequestBody {
    /// Bytes, and the content type to set unless the request already has one.
    case data(Data, contentType: String)
    /// A file, which is read while it is sent.
    case file(URL)
    /// A stream of known length, which is read while it is sent. It can be read only once, unless it is a
    /// ``ReplayableBodyStream``.
    case stream(InputStream, length: Int64)
    /// A stream created by this library. It is sent in chunks if its length is nil.
    case ownStream(InputStream, length: Int64?)
}

/// Compression in the gzip format (RFC 1952).
enum Gzip {
    /// Returns the compressed data; nil for empty data.
    static func compress(_ data: Data) throws -> Data? {
        if data.isEmpty { return nil }
        var stream = z_stream()
        // The window has 15 bits. Adding 16 selects gzip's header and trailer instead of zlib's.
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
                // zlib counts with 32 bits, so a large body is passed in slices.
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
        .request(.compressionFailed, "The body cannot be compressed.")
    }
}
