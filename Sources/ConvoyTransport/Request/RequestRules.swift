import ConvoySupport
import Foundation
import FoundationNetworking

/// The checks on a request before any byte of it is sent. Without I/O.
package enum RequestRules {
    /// Checks a request except for its header.
    ///
    /// - Parameters:
    ///   - address: the URL's text.
    ///   - hasCache: whether a cache will be asked.
    /// - Throws: `URLError.badURL` for a URL or a method that HTTP does not allow, `.unsupportedURL` for another
    ///   scheme, and `.resourceUnavailable` if only a cache may answer.
    static func check(_ request: URLRequest, _ address: String, hasCache: Bool) throws(URLError) {
        guard let url = request.url else { throw URLError(.badURL, url: nil, "The request has no URL.") }
        if !isPlainlyHTTP(address) { try check(url) }
        let method = request.httpMethod ?? "GET"
        guard method == "GET" || HTTPSyntax.isToken(method) else {
            throw URLError(.badURL, url: url, "The method \(method.debugDescription) is not a token (RFC 9110, 5.6.2).")
        }
        if request.cachePolicy == .returnCacheDataDontLoad, !hasCache {
            throw URLError(.resourceUnavailable, url: url, "There is no cached response, and loading is forbidden.")
        }
    }

    /// Whether the text of a URL obviously has one of the two schemes, a host and no user information; false if a full
    /// check is needed.
    private static func isPlainlyHTTP(_ address: String) -> Bool {
        guard !address.utf8.contains(UInt8(ascii: "@")) else { return false }
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
        let address = url.absoluteString
        guard !URLUserInfo.isPresent(in: address) else {
            // RFC 9110, section 4.2.4. libcurl would send them, and whoever logs the URL would log them.
            throw URLError(
                .badURL, url: url,
                "The URL contains a user name or a password. Set the operation's credential, or an Authorization header, "
                    + "instead.")
        }
    }

    /// Whether a request with this method can be sent twice with the same effect as once (RFC 9110, section 9.2.2).
    static func isIdempotent(_ method: String) -> Bool {
        ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"].contains(method)
    }

    /// Whether a request with this method only reads (RFC 9110, section 9.2.1).
    package static func isSafe(_ method: String) -> Bool {
        switch method {
        case "GET", "HEAD", "OPTIONS", "TRACE": true
        default: false
        }
    }
}

extension URLRequest.CachePolicy {
    /// Whether no cache, local or on the way, may answer with a stored response.
    package var forbidsReuse: Bool {
        switch self {
        case .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData: true
        default: false
        }
    }

    /// Whether caches must ask the server before they answer.
    package var demandsValidation: Bool { self == .reloadRevalidatingCacheData }
}
