import ConvoySupport
import Foundation
import FoundationNetworking

/// The checks on a request before any byte of it is sent. Without I/O.
package enum RequestRules {
    /// Checks a request except for its header, and reads its URL.
    ///
    /// - Parameter hasCache: whether a cache will be asked.
    /// - Throws: `URLError.badURL` for a URL or a method that HTTP does not allow, `.unsupportedURL` for another
    ///   scheme, and `.resourceUnavailable` if only a cache may answer.
    static func address(of request: TransferRequest, hasCache: Bool) throws(URLError) -> HTTPAddress {
        switch request {
        case .prepared(let request): return request.address
        case .foundation(let request):
            guard let url = request.url else { throw URLError(.badURL, url: nil, "The request has no URL.") }
            let address = try address(of: url)
            try check(request, url, hasCache: hasCache)
            return address
        }
    }

    private static func check(_ request: URLRequest, _ url: URL, hasCache: Bool) throws(URLError) {
        let method = request.httpMethod ?? "GET"
        guard method == "GET" || HTTPSyntax.isToken(method) else {
            throw URLError(.badURL, url: url, "The method \(method.debugDescription) is not a token (RFC 9110, 5.6.2).")
        }
        if request.cachePolicy == .returnCacheDataDontLoad, !hasCache {
            throw URLError(.resourceUnavailable, url: url, "There is no cached response, and loading is forbidden.")
        }
    }

    private static func address(of url: URL) throws(URLError) -> HTTPAddress {
        let address: HTTPAddress
        do throws(HTTPAddress.Problem) {
            address = try HTTPAddress.reading(url.absoluteString)
        } catch {
            switch error {
            case .noScheme: throw URLError(.badURL, url: url, "The URL has no scheme.")
            case .otherScheme(let scheme):
                throw URLError(.unsupportedURL, url: url, "The scheme \(scheme) is neither http nor https.")
            case .noHost: throw URLError(.badURL, url: url, "The URL has no host, or an invalid host or port.")
            }
        }
        guard !address.hasUserInfo else {
            // RFC 9110, section 4.2.4. libcurl would send them, and whoever logs the URL would log them.
            throw URLError(
                .badURL, url: url,
                "The URL contains a user name or a password. Set the operation's credential, or an Authorization header, "
                    + "instead.")
        }
        return address
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
