import CCurl
import ConvoySupport
import Foundation
import FoundationNetworking

/// The validated header of a request, in libcurl's form, and the values of its relevant fields.
///
/// It is immutable and shared by requests with the same fields: validating and formatting the fields takes longer than
/// all other work before a request is sent.
package final class RequestHeader: @unchecked Sendable {
    /// The values from which a header is created.
    struct Source: Equatable {
        var fields: [String: String]
        var hasBody = false
        var isStreamed = false
        /// Whether caches must not respond with a stored response.
        var forbidsReuse = false
        /// Whether caches must revalidate stored responses with the server.
        var demandsValidation = false
        /// Whether to send the standard `User-Agent`, unless the fields contain one.
        var addsUserAgent = false
        /// Whether to request the body without an encoding, unless the fields contain an `Accept-Encoding`.
        var asksForIdentity = false
        /// Whether to omit the `Expect` of the fields, which HTTP/1.0 does not have.
        var omitsExpect = false
        /// The value of `Authorization`, which replaces that of the fields.
        var authorization: String?
        /// The value of `Proxy-Authorization`, which replaces that of the fields.
        var proxyAuthorization: String?
        /// The value of `Cookie`, unless the fields contain one.
        var cookie: [UInt8]?
        /// The conditions for serving a stored response, which replace those of the fields.
        var conditions: [String: [UInt8]] = [:]

        /// Compares the fields by bytes, so that one user's fields never match another's.
        static func == (one: Source, other: Source) -> Bool {
            func areExact(_ one: [String: String], _ other: [String: String]) -> Bool {
                one.count == other.count && one.allSatisfy { name, value in other[name]?.isExactly(value) == true }
            }
            return one.hasBody == other.hasBody && one.isStreamed == other.isStreamed
                && one.forbidsReuse == other.forbidsReuse && one.demandsValidation == other.demandsValidation
                && one.addsUserAgent == other.addsUserAgent && one.asksForIdentity == other.asksForIdentity
                && one.omitsExpect == other.omitsExpect && one.cookie == other.cookie
                && one.authorization.map(ExactString.init) == other.authorization.map(ExactString.init)
                && one.proxyAuthorization.map(ExactString.init) == other.proxyAuthorization.map(ExactString.init)
                && one.conditions == other.conditions && areExact(one.fields, other.fields)
        }
    }

    let source: Source
    /// The entries, of the form `Name: value`, `Name;` for an empty value, or `Name:` to remove a field that libcurl
    /// would add. Several fields of the first form may share an entry, separated by line endings.
    private(set) var lines: UnsafeMutablePointer<curl_slist>?
    /// The lines that are sent only to a proxy, never to an origin (RFC 9110, section 11.7.2).
    private(set) var proxyLines: UnsafeMutablePointer<curl_slist>?
    /// The length that the user specified for a streamed body.
    private(set) var announcedLength: Int64?
    private(set) var asksForRange = false
    /// Whether an `Authorization` field is sent.
    private(set) var setsAuthorization = false
    /// Whether the user set `Host`, so that the response may belong to a different host.
    private(set) var setsHost = false
    /// The `Proxy-Authorization` that the user set.
    private(set) var ownProxyAuthorization: String?
    /// Whether the user set `Accept-Encoding`, and therefore expects the body undecoded.
    private(set) var setsAcceptEncoding = false
    /// Whether the user set `Expect`, so that the server can reject the body before it is sent.
    private(set) var setsExpect = false
    /// Whether a `Cache-Control` was added for intermediate caches. The cache of this process does not need it.
    private(set) var addsCacheControl = false
    /// Whether the user set `Cookie`, so that no other cookies are sent.
    private var setsCookie = false
    /// Whether cookies from a store are sent.
    var sendsStoredCookies: Bool { source.cookie != nil && !setsCookie }
    /// The view created for the last cache.
    let cacheView = Locked<CacheView?>(nil)

    /// Creates the header of a request without a stream, for which caches may use stored responses.
    ///
    /// - Throws: `URLError.badURL` for a field name or value that HTTP does not allow.
    package convenience init(fields: [String: String], hasBody: Bool = false) throws(URLError) {
        try self.init(Source(fields: fields, hasBody: hasBody), url: nil)
    }

    /// The last header derived from this one with a token.
    private let withToken = Locked<RequestHeader?>(nil)

    /// Returns the same header with an `Authorization` that many requests share.
    func withToken(_ value: String) throws(URLError) -> RequestHeader {
        if let made = withToken.withLock({ $0 }), made.source.authorization == value { return made }
        var source = source
        source.authorization = value
        let made = try RequestHeader(source, url: nil)
        withToken.withLock { $0 = made }
        return made
    }

    /// - Parameter url: The request's URL, for errors.
    init(_ source: Source, url: URL?) throws(URLError) {
        self.source = source
        var setsCacheControl = false
        var setsUserAgent = false
        let fields =
            source.conditions.isEmpty
            ? source.fields
            : source.fields.filter { field in
                !source.conditions.keys.contains { ASCII.equalIgnoringCase($0.utf8, field.key.utf8) }
            }
        // These fields are combined into one entry of libcurl's list, because libcurl formats each entry separately,
        // and searches the list for each field that it might add itself.
        var inert: [String] = []
        for (name, value) in fields {
            guard HTTPSyntax.isToken(name) else {
                throw URLError(
                    .badURL, url: url, "The header name \(name.debugDescription) is not a token (RFC 9110, 5.6.2).")
            }
            guard HTTPSyntax.isFieldValue(value) else {
                throw URLError(.badURL, url: url, "The value of the header \(name) contains a control character.")
            }
            let known = KnownField(name)
            switch known {
            case .contentLength:
                // libcurl sets this field itself, except for a stream, whose length only the user can specify.
                guard source.isStreamed else { continue }
                guard let length = Int64(value.trimmingCharacters(in: .whitespaces)), length >= 0 else {
                    throw URLError(.badURL, url: url, "The Content-Length \(value.debugDescription) is invalid.")
                }
                announcedLength = length
                continue
            case .transferEncoding: continue
            case .proxyAuthorization:
                ownProxyAuthorization = value
                if source.proxyAuthorization == nil { try Self.append(Self.line(name, value), to: &proxyLines) }
                continue
            case .authorization:
                setsAuthorization = true
                if source.authorization != nil { continue }
            case .range: asksForRange = true
            case .acceptEncoding: setsAcceptEncoding = true
            case .expect:
                if source.omitsExpect { continue }
                setsExpect = true
            case .cacheControl: setsCacheControl = true
            case .userAgent: setsUserAgent = true
            case .cookie: setsCookie = true
            case .host: setsHost = true
            case .echo where SafeFieldValue.isEscaped(value):
                try Self.append(Array("\(name): ".utf8) + SafeFieldValue.bytes(of: value), to: &lines)
                continue
            case .echo, .acceptLanguage, nil: break
            }
            let line = Self.line(name, value)
            if known?.isInert == true, line.utf8.last != UInt8(ascii: ";") {
                inert.append(line)
            } else {
                try Self.append(line, to: &lines)
            }
        }
        for (name, value) in source.conditions {
            if case .cacheControl = KnownField(name) { setsCacheControl = true }
            try Self.append(Array("\(name): ".utf8) + value, to: &lines)
        }
        if let value = source.authorization {
            setsAuthorization = true
            try Self.append("Authorization: \(value)", to: &lines)
        }
        if let value = source.proxyAuthorization {
            try Self.append("Proxy-Authorization: \(value)", to: &proxyLines)
        }
        if let cookie = source.cookie, !setsCookie { try Self.append(Array("Cookie: ".utf8) + cookie, to: &lines) }
        // libcurl would wait one second for a 100 response, which many servers never send.
        if source.hasBody, !setsExpect { try Self.append("Expect:", to: &lines) }
        if !setsAcceptEncoding {
            // The byte positions of a range refer to the encoded body, so the body must not be encoded.
            inert.append(asksForRange || source.asksForIdentity ? "Accept-Encoding: identity" : Self.acceptedEncodings)
        }
        // Treat the request as if the user had set the field.
        if source.asksForIdentity { setsAcceptEncoding = true }
        if source.addsUserAgent, !setsUserAgent { inert.append("User-Agent: \(UserAgent.standard)") }
        if !inert.isEmpty { try Self.append(inert.joined(separator: "\r\n"), to: &lines) }
        if source.forbidsReuse, !setsCacheControl {
            try Self.append("Cache-Control: no-cache", to: &lines)
            try Self.append("Pragma: no-cache", to: &lines)
        } else if source.demandsValidation, !setsCacheControl {
            addsCacheControl = true
            try Self.append("Cache-Control: max-age=0", to: &lines)
        }
    }

    /// Returns the fields that are sent, including those added automatically, without those for a proxy. They are
    /// computed on each call.
    package func makeSentFields() -> [(name: String, value: String)] {
        var fields: [(name: String, value: String)] = []
        var next = lines
        while let line = next?.pointee {
            next = line.next
            let entry = UnsafeRawBufferPointer(start: line.data, count: strlen(line.data))
            for bytes in entry.split(whereSeparator: { $0 == UInt8(ascii: "\r") || $0 == UInt8(ascii: "\n") }) {
                // An entry `Name;` has an empty value, and an entry `Name:` is not sent.
                guard let end = bytes.firstIndex(where: { $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ";") }),
                    bytes[end] == UInt8(ascii: ";") || end + 1 < bytes.endIndex
                else { continue }
                let value = bytes[end] == UInt8(ascii: ";") ? [] : ASCII.trimmed(Array(bytes[(end + 1)...]))
                fields.append((ASCII.text(Array(bytes[..<end])[...]), ASCII.text(value)))
            }
        }
        return fields
    }

    deinit {
        curl_slist_free_all(lines)
        curl_slist_free_all(proxyLines)
    }

    private static func append(
        _ line: [UInt8], to list: inout UnsafeMutablePointer<curl_slist>?
    ) throws(URLError) {
        try append((line + [0]).map(CChar.init(bitPattern:)), to: &list)
    }

    private static func append(
        _ line: UnsafePointer<CChar>, to list: inout UnsafeMutablePointer<curl_slist>?
    ) throws(URLError) {
        guard let longer = curl_slist_append(list, line) else {
            throw URLError(.cannotLoadFromNetwork, url: nil, "There is not enough memory for the request header.")
        }
        list = longer
    }

    private static func line(_ name: String, _ value: String) -> String {
        value.utf8.allSatisfy(ASCII.isWhitespace) ? "\(name);" : "\(name): \(value)"
    }

    /// The default `Accept-Encoding`. It excludes deflate, which servers send in two forms, and which no server prefers
    /// to gzip. Responses with deflate are still decoded.
    private static let acceptedEncodings = "Accept-Encoding: gzip, br, zstd"

    /// The fields that need special treatment. Most names differ in length.
    private enum KnownField {
        case contentLength, transferEncoding, proxyAuthorization, range, acceptEncoding, expect, cacheControl
        case userAgent, authorization, cookie, host, acceptLanguage
        /// A field that echoes a value from the server, whose bytes may be escaped. See `SafeFieldValue`.
        case echo

        /// Whether libcurl ignores the field with the options used.
        var isInert: Bool { self == .userAgent || self == .acceptEncoding || self == .acceptLanguage }

        init?(_ name: String) {
            func isName(_ other: String) -> Bool { ASCII.equalIgnoringCase(name.utf8, other.utf8) }
            switch name.utf8.count {
            case 14 where isName("content-length"): self = .contentLength
            case 13 where isName("authorization"): self = .authorization
            case 17 where isName("transfer-encoding"): self = .transferEncoding
            case 19 where isName("proxy-authorization"): self = .proxyAuthorization
            case 5 where isName("range"): self = .range
            case 15 where isName("accept-encoding"): self = .acceptEncoding
            case 15 where isName("accept-language"): self = .acceptLanguage
            case 6 where isName("expect"): self = .expect
            case 6 where isName("cookie"): self = .cookie
            case 4 where isName("host"): self = .host
            case 10 where isName("user-agent"): self = .userAgent
            case 6 where isName("pragma"), 13 where isName("cache-control"): self = .cacheControl
            case 8 where isName("if-range") || isName("if-match"), 13 where isName("if-none-match"),
                13 where isName("last-event-id"), 17 where isName("if-modified-since"),
                19 where isName("if-unmodified-since"):
                self = .echo
            default: return nil
            }
        }
    }
}

/// The head of a request as it is sent: the method, the URL, and the header fields including those added during
/// sending, without those for a proxy. The counterpart of ``ResponseHead``.
///
/// It contains the request's secrets; its description does not.
public struct RequestHead: Sendable {
    /// The method, such as `GET`.
    public let method: String
    /// The length of the body in bytes: 0 without a body, nil if the length is unknown in advance.
    public let bodyLength: Int64?
    /// The URL as a string.
    package let address: String
    private let header: RequestHeader
    /// The classifier that determines which values are secret.
    package let secrets: SecretClassifier

    /// The highest version with which the request may be sent.
    package let maximumVersion: HTTPVersion

    init(
        method: String, address: String, header: RequestHeader, bodyLength: Int64?, secrets: SecretClassifier,
        maximumVersion: HTTPVersion = .http2
    ) {
        self.method = method
        self.address = address
        self.header = header
        self.bodyLength = bodyLength
        self.secrets = secrets
        self.maximumVersion = maximumVersion
    }

    /// The URL; nil if Foundation cannot parse it.
    public var url: URL? { URL(string: address) }

    /// The header fields, with `Host` and the length of a body of known length. HTTP/2 sends some of them under other
    /// names (RFC 9113, section 8.3.1).
    public var fields: [(name: String, value: String)] {
        var fields = header.makeSentFields()
        if !fields.contains(where: { ASCII.equalIgnoringCase($0.name.utf8, "host".utf8) }),
            let host = Target(address)?.authority
        {
            fields.insert(("Host", host), at: 0)
        }
        // Include the fields that libcurl adds.
        if !fields.contains(where: { ASCII.equalIgnoringCase($0.name.utf8, "accept".utf8) }) {
            fields.append(("Accept", "*/*"))
        }
        if let bodyLength, bodyLength > 0 || ["POST", "PUT", "PATCH"].contains(method) {
            fields.append(("Content-Length", "\(bodyLength)"))
        } else if bodyLength == nil {
            fields.append(("Transfer-Encoding", "chunked"))
        }
        return fields
    }

    /// The value of a header field; nil if the field is not sent. Names are case-insensitive.
    public subscript(name: String) -> String? {
        fields.first { ASCII.equalIgnoringCase($0.name.utf8, name.utf8) }?.value
    }

}

extension RequestHead: CustomStringConvertible {
    /// The method and the URL, without secrets.
    public var description: String { "\(method) \(Redaction.url(address, secrets))" }
}

extension RequestHead: OpaqueReflectable {}
