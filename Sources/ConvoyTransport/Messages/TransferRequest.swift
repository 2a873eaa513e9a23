import CCurl
import ConvoySupport
import Foundation
import FoundationNetworking

/// A request for a transfer: Foundation's type, or a prepared request.
package enum TransferRequest: Sendable {
    case foundation(URLRequest)
    case prepared(PreparedRequest)

    package var url: URL? {
        switch self {
        case .foundation(let request): request.url
        case .prepared(let request): request.url
        }
    }

    /// The target; nil if the scheme of the URL is neither http nor https.
    package var target: Target? {
        switch self {
        case .foundation(let request): request.url.flatMap { Target($0) }
        case .prepared(let request): request.address.target
        }
    }

    package var method: String {
        switch self {
        case .foundation(let request): request.httpMethod ?? "GET"
        case .prepared(let request): request.method
        }
    }

    /// The service type of the request's traffic; the default for a prepared request.
    var serviceType: NetworkServiceType {
        switch self {
        case .foundation(let request): NetworkServiceType(request.networkServiceType)
        case .prepared: .default
        }
    }

    package var timeoutInterval: TimeInterval {
        switch self {
        case .foundation(let request): request.timeoutInterval
        case .prepared(let request): request.timeoutInterval
        }
    }

    /// Returns the same request with a different idle timeout, in seconds.
    package func with(timeoutInterval: TimeInterval) -> TransferRequest {
        switch self {
        case .foundation(var request):
            request.timeoutInterval = timeoutInterval
            return .foundation(request)
        case .prepared(let request):
            return .prepared(request.with(timeoutInterval: timeoutInterval))
        }
    }

    /// Returns the same request for a different URL.
    func with(address: HTTPAddress) throws(URLError) -> TransferRequest {
        switch self {
        case .foundation(var request):
            guard let url = URL(string: address.text) else { throw URLError(.badURL, url: request.url, "Invalid URL.") }
            request.url = url
            return .foundation(request)
        case .prepared(let request):
            return .prepared(request.with(address: address))
        }
    }

    /// Returns the same request with an `Authorization` that replaces its own.
    package func with(authorization value: String) throws(URLError) -> TransferRequest {
        switch self {
        case .foundation(var request):
            request.setValue(value, forHTTPHeaderField: "Authorization")
            return .foundation(request)
        case .prepared(let request):
            return .prepared(request.with(header: try request.header.withToken(value)))
        }
    }

    /// Whether the request has its own `Authorization`.
    var hasAuthorization: Bool {
        switch self {
        case .foundation(let request): request.value(forHTTPHeaderField: "Authorization") != nil
        case .prepared(let request): request.header.setsAuthorization
        }
    }

    /// The `Proxy-Authorization` that the user set.
    var proxyAuthorization: String? {
        switch self {
        case .foundation(let request): request.value(forHTTPHeaderField: "Proxy-Authorization")
        case .prepared(let request): request.header.ownProxyAuthorization
        }
    }

    /// Whether the path and the query are sent as written.
    var isSentAsWritten: Bool {
        guard case .prepared(let request) = self else { return false }
        return request.isSentAsWritten
    }

    package var bodyStream: InputStream? {
        guard case .foundation(let request) = self else { return nil }
        return request.httpBodyStream
    }

    package var body: Data? {
        switch self {
        case .foundation(let request): request.httpBody
        case .prepared(let request): request.body
        }
    }

    /// The request as Foundation's type. Creating it from a prepared request takes some microseconds.
    package var urlRequest: URLRequest {
        switch self {
        case .foundation(let request): request
        case .prepared(let request): request.urlRequest
        }
    }
}

/// A request that needs no further validation, like most requests.
///
/// Foundation's `URLRequest` is created from it only on demand: creating, copying and reading one takes as long as all
/// other work for a small request. This type is a class, because a request is passed on a dozen times.
package final class PreparedRequest: Sendable {
    /// The URL, parsed when the request was created.
    package let address: HTTPAddress
    /// Whether the path and the query are sent as written, because libcurl has nothing to resolve or encode in them.
    let isSentAsWritten: Bool
    /// A method that Foundation does not modify: a token (RFC 9110, section 5.6.2) in uppercase.
    package let method: String
    /// The header of a request with this body.
    package let header: RequestHeader
    package let body: Data?
    /// The idle timeout in seconds; 0 or less for no limit.
    package let timeoutInterval: TimeInterval

    package init(
        address: HTTPAddress, isSentAsWritten: Bool, method: String, header: RequestHeader, body: Data?,
        timeoutInterval: TimeInterval
    ) {
        self.address = address
        self.isSentAsWritten = isSentAsWritten
        self.method = method
        self.header = header
        self.body = body
        self.timeoutInterval = timeoutInterval
    }

    /// Returns the same request with the given changes.
    func with(
        address: HTTPAddress? = nil, header: RequestHeader? = nil, timeoutInterval: TimeInterval? = nil
    ) -> PreparedRequest {
        PreparedRequest(
            address: address ?? self.address, isSentAsWritten: isSentAsWritten, method: method,
            header: header ?? self.header, body: body,
            timeoutInterval: timeoutInterval ?? self.timeoutInterval)
    }

    package var url: URL? { URL(string: address.text) }

    package var urlRequest: URLRequest {
        var request = URLRequest(url: url ?? URL(fileURLWithPath: "/"), timeoutInterval: timeoutInterval)
        if method != "GET" { request.httpMethod = method }
        request.allHTTPHeaderFields = header.source.fields
        if let value = header.source.authorization { request.setValue(value, forHTTPHeaderField: "Authorization") }
        request.httpBody = body
        return request
    }
}

/// The validation of a request before any byte of it is sent. Without I/O.
package enum RequestRules {
    /// Validates a request except for its header, and parses its URL.
    ///
    /// - Parameter hasCache: Whether a cache will be consulted.
    /// - Throws: `URLError.badURL` for a URL or a method that HTTP does not allow, `.unsupportedURL` for a scheme other
    ///   than http and https, and `.resourceUnavailable` if the request allows only cached responses and `hasCache` is
    ///   false.
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
            throw URLError(
                .resourceUnavailable, url: url,
                "The response is not cached, and the cache policy does not allow a request to the server.")
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
            // libcurl would send the user information, and logs of the URL would contain it (RFC 9110, section 4.2.4).
            throw URLError(
                .badURL, url: url,
                "The URL contains a user name or a password. Set the operation's credential, or an Authorization header, "
                    + "instead.")
        }
        return address
    }

    /// Returns whether sending a request with this method twice has the same effect as sending it once (RFC 9110,
    /// section 9.2.2).
    package static func isIdempotent(_ method: String) -> Bool {
        ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"].contains(method)
    }

    /// Returns whether a request with this method only reads (RFC 9110, section 9.2.1).
    package static func isSafe(_ method: String) -> Bool {
        switch method {
        case "GET", "HEAD", "OPTIONS", "TRACE": true
        default: false
        }
    }
}

extension URLRequest.CachePolicy {
    /// Whether no cache, local or intermediate, may use a stored response.
    package var forbidsReuse: Bool {
        switch self {
        case .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData: true
        default: false
        }
    }

    /// Whether caches must revalidate stored responses with the server.
    package var demandsValidation: Bool { self == .reloadRevalidatingCacheData }
}

/// The forms in which a request specifies its URL (RFC 9112, section 3.2), as libcurl sends them: it resolves dot
/// segments and encodes characters as needed.
package enum RequestTarget {
    /// Returns the path and the query; nil for a URL that libcurl rejects.
    package static func originForm(of address: HTTPAddress) -> String? {
        withParts(of: address) { parts in
            (part(CURLUPART_PATH, of: parts) ?? "/") + (part(CURLUPART_QUERY, of: parts).map { "?\($0)" } ?? "")
        }
    }

    /// Returns the complete URL, as sent to a proxy.
    static func absoluteForm(of address: HTTPAddress) -> String {
        let text = withParts(of: address) { parts in
            guard curl_url_set(parts, CURLUPART_FRAGMENT, nil, 0) == CURLUE_OK else { return String?.none }
            return part(CURLUPART_URL, of: parts, CURLU_NO_DEFAULT_PORT)
        }
        return (text ?? nil) ?? address.text
    }

    private static func withParts<Result>(of address: HTTPAddress, _ body: (OpaquePointer) -> Result) -> Result? {
        guard let parts = curl_url() else { return nil }
        defer { curl_url_cleanup(parts) }
        guard curl_url_set(parts, CURLUPART_URL, address.text, 0) == CURLUE_OK else { return nil }
        return body(parts)
    }

    private static func part(_ part: CURLUPart, of parts: OpaquePointer, _ flags: Int32 = 0) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(parts, part, &text, UInt32(flags)) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }
}
