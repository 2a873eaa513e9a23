import Foundation
import FoundationNetworking

/// What a request must keep to before a byte of it is sent. A value without I/O.
enum RequestRules {
    /// A request in the form that libcurl takes.
    struct Lines {
        var headers: [String]
        /// Only for a proxy: an origin never sees them (RFC 9110, section 11.7.2).
        var proxyHeaders: [String]
        /// The length that the user announced for a body from a stream.
        var announcedLength: Int64?
        var asksForRange: Bool
        /// Whether the user chose the encodings himself, and wants to see what comes as it is.
        var setsAcceptEncoding: Bool
        /// Whether the user lets the server refuse the body before it is sent.
        var setsExpect: Bool
    }

    /// Checks the request and writes down its header lines.
    ///
    /// - Throws: `URLError.badURL` for a URL, a method or a header field that HTTP does not allow, `.unsupportedURL`
    ///   for another scheme, `.resourceUnavailable` where only a cache may answer.
    ///
    /// - Parameter address: the URL's text.
    static func lines(
        for request: URLRequest, _ url: URL, _ address: String, hasBody: Bool, isStreamed: Bool
    ) throws(URLError) -> Lines {
        if !isPlainlyHTTP(address) { try check(url) }
        let method = request.httpMethod ?? "GET"
        guard isToken(method) else {
            throw URLError(.badURL, url: url, "The method \(method.debugDescription) is not a token (RFC 9110, 5.6.2).")
        }
        if request.cachePolicy == .returnCacheDataDontLoad {
            throw URLError(.resourceUnavailable, url: url, "There is no cached response, and loading is forbidden.")
        }
        var lines = Lines(
            headers: [], proxyHeaders: [], announcedLength: nil, asksForRange: false, setsAcceptEncoding: false,
            setsExpect: false)
        var setsCacheControl = false
        for (name, value) in request.allHTTPHeaderFields ?? [:] {
            guard isToken(name) else {
                throw URLError(.badURL, url: url, "The header name \(name.debugDescription) is not a token (RFC 9110, 5.6.2).")
            }
            guard isFieldValue(value) else {
                throw URLError(.badURL, url: url, "The value of the header \(name) holds a control character.")
            }
            switch KnownField(name) {
            case .contentLength:
                // Ours to say, but for a stream, whose length only the user knows.
                guard isStreamed else { continue }
                guard let length = Int64(value.trimmingCharacters(in: .whitespaces)), length >= 0 else {
                    throw URLError(.badURL, url: url, "The Content-Length \(value.debugDescription) is not a length.")
                }
                lines.announcedLength = length
                continue
            case .transferEncoding: continue
            case .proxyAuthorization:
                lines.proxyHeaders.append(line(name, value))
                continue
            case .range: lines.asksForRange = true
            case .acceptEncoding: lines.setsAcceptEncoding = true
            case .expect: lines.setsExpect = true
            case .cacheControl: setsCacheControl = true
            case nil: break
            }
            lines.headers.append(line(name, value))
        }
        if hasBody {
            // libcurl would wait a second for a 100 that many servers never send.
            if !lines.setsExpect { lines.headers.append("Expect:") }
        }
        if !lines.setsAcceptEncoding {
            // The byte positions of a range are those of the body as sent: it must not be encoded on the way.
            lines.headers.append(lines.asksForRange ? "Accept-Encoding: identity" : acceptedEncodings)
        }
        if request.cachePolicy.forbidsReuse, !setsCacheControl {
            lines.headers.append("Cache-Control: no-cache")
            lines.headers.append("Pragma: no-cache")
        }
        return lines
    }

    private static let acceptedEncodings = "Accept-Encoding: gzip, deflate, br, zstd"

    /// The fields that mean something here. Most are told apart by their length alone.
    private enum KnownField {
        case contentLength, transferEncoding, proxyAuthorization, range, acceptEncoding, expect, cacheControl

        init?(_ name: String) {
            func isName(_ other: String) -> Bool { ASCII.equalIgnoringCase(name.utf8, other.utf8) }
            switch name.utf8.count {
            case 14 where isName("content-length"): self = .contentLength
            case 17 where isName("transfer-encoding"): self = .transferEncoding
            case 19 where isName("proxy-authorization"): self = .proxyAuthorization
            case 5 where isName("range"): self = .range
            case 15 where isName("accept-encoding"): self = .acceptEncoding
            case 6 where isName("expect"): self = .expect
            case 6 where isName("pragma"), 13 where isName("cache-control"): self = .cacheControl
            default: return nil
            }
        }
    }

    /// Whether the text of a URL has one of the two schemes and a host, at a glance; false is no verdict.
    private static func isPlainlyHTTP(_ address: String) -> Bool {
        var rest = address.utf8[...]
        guard rest.starts(with: "http".utf8) else { return false }
        rest = rest.dropFirst(4)
        if rest.first == UInt8(ascii: "s") { rest = rest.dropFirst() }
        guard rest.starts(with: "://".utf8), let first = rest.dropFirst(3).first else { return false }
        return (first >= UInt8(ascii: "0") && first <= UInt8(ascii: "9"))
            || (first >= UInt8(ascii: "a") && first <= UInt8(ascii: "z"))
    }

    static func check(_ url: URL) throws(URLError) {
        guard let scheme = url.scheme?.lowercased() else { throw URLError(.badURL, url: url, "The URL has no scheme.") }
        guard scheme == "http" || scheme == "https" else {
            throw URLError(.unsupportedURL, url: url, "The scheme \(scheme) is neither http nor https.")
        }
        guard let host = url.host, !host.isEmpty else { throw URLError(.badURL, url: url, "The URL has no host.") }
    }

    private static func line(_ name: String, _ value: String) -> String {
        value.utf8.allSatisfy(ASCII.isWhitespace) ? "\(name);" : "\(name): \(value)"
    }

    /// Whether the environment names a proxy for https, as libcurl will read it.
    static var environmentNamesProxy: Bool {
        (["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] as [String]).contains { getenv($0) != nil }
    }

    /// Whether sending a request twice does what sending it once does (RFC 9110, section 9.2.2).
    static func isIdempotent(_ method: String) -> Bool {
        ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"].contains(method)
    }

    /// RFC 9110, section 5.6.2.
    static func isToken(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { $0 < 128 && isTokenByte[Int($0)] }
    }

    private static let isTokenByte: [Bool] = (0..<128).map { byte in
        let character = Character(UnicodeScalar(UInt8(byte)))
        return character.isLetter || character.isNumber || "!#$%&'*+-.^_`|~".contains(character)
    }

    /// RFC 9110, section 5.5: no control character but the tab.
    static func isFieldValue(_ text: String) -> Bool {
        text.utf8.allSatisfy { ($0 >= 0x20 && $0 != 0x7F) || $0 == 0x09 }
    }
}

extension URLRequest.CachePolicy {
    /// Whether a stored response, anywhere on the way, must not answer.
    var forbidsReuse: Bool {
        switch self {
        case .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData, .reloadRevalidatingCacheData: true
        default: false
        }
    }
}
