import CCurl
import ConvoySupport
import Foundation
import FoundationNetworking

/// The request of one transfer.
///
/// It is created once, from a `URLRequest` or from a manager's arguments. Foundation's form is created only if somebody
/// reads it: creating, copying and reading one takes as long as all other work for a small request. This type is a class,
/// because a request is passed on a dozen times.
package final class TransferRequest: Sendable {
    /// The parsed URL; nil for a URL that HTTP does not allow. See `RequestRules`.
    package let address: HTTPAddress?
    /// Whether the path and the query are sent as written, because libcurl has nothing to resolve or encode in them.
    let isSentAsWritten: Bool
    package let method: String
    /// The header, if it has been validated already.
    package let header: RequestHeader?
    package let body: Data?
    /// The idle timeout in seconds; 0 or less for no limit.
    package let timeoutInterval: TimeInterval
    /// Foundation's form, if it exists. It contains the options that only it has, such as the cache policy.
    private let foundationRequest: URLRequest?

    private init(
        address: HTTPAddress?, isSentAsWritten: Bool, method: String, header: RequestHeader?, body: Data?,
        timeoutInterval: TimeInterval, foundationRequest: URLRequest?
    ) {
        self.address = address
        self.isSentAsWritten = isSentAsWritten
        self.method = method
        self.header = header
        self.body = body
        self.timeoutInterval = timeoutInterval
        self.foundationRequest = foundationRequest
    }

    /// Creates a request from validated parts.
    ///
    /// - Parameters:
    ///   - method: A method that Foundation does not modify: a token (RFC 9110, section 5.6.2) in uppercase.
    ///   - header: The header of a request with this body.
    package convenience init(
        address: HTTPAddress, isSentAsWritten: Bool, method: String, header: RequestHeader, body: Data?,
        timeoutInterval: TimeInterval
    ) {
        self.init(
            address: address, isSentAsWritten: isSentAsWritten, method: method, header: header, body: body,
            timeoutInterval: timeoutInterval, foundationRequest: nil)
    }

    /// Creates a request from Foundation's form. `RequestRules` validates it before it is sent.
    package convenience init(_ request: URLRequest) {
        self.init(
            address: request.url.flatMap { RequestRules.address(of: $0) }, isSentAsWritten: false,
            method: request.httpMethod ?? "GET", header: nil, body: request.httpBody,
            timeoutInterval: request.timeoutInterval, foundationRequest: request)
    }

    // MARK: Changes

    /// Returns the same request with a different idle timeout, in seconds.
    package func with(timeoutInterval: TimeInterval) -> TransferRequest {
        changed(timeoutInterval: timeoutInterval) { $0.timeoutInterval = timeoutInterval }
    }

    /// Returns the same request for a different URL.
    func with(address: HTTPAddress) throws(URLError) -> TransferRequest {
        guard let url = URL(string: address.text) else { throw URLError(.badURL, url: url, "Invalid URL.") }
        return changed(address: address) { $0.url = url }
    }

    /// Returns the same request with an `Authorization` that replaces its own.
    package func with(authorization value: String) throws(URLError) -> TransferRequest {
        changed(header: try header?.withToken(value)) { $0.setValue(value, forHTTPHeaderField: "Authorization") }
    }

    /// Returns the same request, which keeps its Foundation form for later readers.
    package func keeping(_ request: URLRequest) -> TransferRequest { changed(foundationRequest: request) { _ in } }

    private func changed(
        address: HTTPAddress? = nil, header: RequestHeader? = nil, timeoutInterval: TimeInterval? = nil,
        foundationRequest: URLRequest? = nil, _ change: (inout URLRequest) -> Void
    ) -> TransferRequest {
        var foundationRequest = foundationRequest ?? self.foundationRequest
        if var request = foundationRequest {
            change(&request)
            foundationRequest = request
        }
        return TransferRequest(
            address: address ?? self.address, isSentAsWritten: isSentAsWritten, method: method,
            header: header ?? self.header, body: body, timeoutInterval: timeoutInterval ?? self.timeoutInterval,
            foundationRequest: foundationRequest)
    }

    // MARK: Parts

    /// The URL; nil if the request has none.
    package var url: URL? {
        if let foundationRequest { return foundationRequest.url }
        return address.flatMap { URL(string: $0.text) }
    }

    /// The target; nil if the scheme of the URL is neither http nor https.
    package var target: Target? { address?.target ?? foundationRequest?.url.flatMap { Target($0) } }

    /// Whether the request has its own `Authorization`.
    var hasAuthorization: Bool { header?.setsAuthorization ?? (field("Authorization") != nil) }

    /// The `Proxy-Authorization` that the user set.
    var proxyAuthorization: String? { header?.ownProxyAuthorization ?? field("Proxy-Authorization") }

    private func field(_ name: String) -> String? { foundationRequest?.value(forHTTPHeaderField: name) }

    package var bodyStream: InputStream? { foundationRequest?.httpBodyStream }

    /// The values from which the header of the request is created.
    func headerSource(addingUserAgent: Bool) -> RequestHeader.Source {
        if let header { return header.source }
        let stream = bodyStream
        return RequestHeader.Source(
            fields: foundationRequest?.allHTTPHeaderFields ?? [:], hasBody: stream != nil || body?.isEmpty == false,
            isStreamed: stream != nil, forbidsReuse: foundationCachePolicy.forbidsReuse,
            demandsValidation: foundationCachePolicy.demandsValidation, addsUserAgent: addingUserAgent)
    }

    // MARK: Foundation's options

    /// The request as Foundation's type. If it does not exist yet, creating it takes some microseconds.
    package var urlRequest: URLRequest {
        if let foundationRequest { return foundationRequest }
        var request = URLRequest(url: url ?? URL(fileURLWithPath: "/"), timeoutInterval: timeoutInterval)
        if method != "GET" { request.httpMethod = method }
        if let source = header?.source {
            request.allHTTPHeaderFields = source.fields
            if let value = source.authorization { request.setValue(value, forHTTPHeaderField: "Authorization") }
        }
        request.httpBody = body
        return request
    }

    /// Whether Foundation's form exists.
    package var isFoundationRequest: Bool { foundationRequest != nil }

    /// The service type of the request's traffic.
    var serviceType: NetworkServiceType { foundationRequest.map { NetworkServiceType($0.networkServiceType) } ?? .default }

    /// Whether the request must not use a cellular network.
    package var barsCellularAccess: Bool { foundationRequest?.allowsCellularAccess == false }

    /// Whether cookies are sent and stored.
    var handlesCookies: Bool { foundationRequest?.httpShouldHandleCookies ?? true }

    /// The site that makes the request; nil if it is the site of the URL itself.
    var site: URL? { foundationRequest?.mainDocumentURL }

    private var foundationCachePolicy: URLRequest.CachePolicy {
        foundationRequest?.cachePolicy ?? .useProtocolCachePolicy
    }

    /// The cache policy of the request.
    var cachePolicy: CachePolicy {
        switch foundationCachePolicy {
        case .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData: .reload
        case .returnCacheDataElseLoad: .storedElseLoad
        case .returnCacheDataDontLoad: .storedOnly
        case .reloadRevalidatingCacheData: .reloadRevalidating
        default: .protocolPolicy
        }
    }

    /// The same request with revalidation forced in every cache, unless the request has its own `Cache-Control`.
    package var revalidating: TransferRequest {
        guard foundationCachePolicy == .useProtocolCachePolicy else { return self }
        var request = urlRequest
        request.cachePolicy = .reloadRevalidatingCacheData
        return TransferRequest(request)
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
        guard let address = request.address else { throw problem(of: request.url) }
        let method = request.method
        guard method == "GET" || HTTPSyntax.isToken(method) else {
            throw URLError(
                .badURL, url: request.url, "The method \(method.debugDescription) is not a token (RFC 9110, 5.6.2).")
        }
        if request.cachePolicy == .storedOnly, !hasCache {
            throw URLError(
                .resourceUnavailable, url: request.url,
                "The response is not cached, and the cache policy does not allow a request to the server.")
        }
        return address
    }

    /// Returns the parsed URL; nil for a URL that HTTP does not allow.
    static func address(of url: URL) -> HTTPAddress? {
        guard let address = try? HTTPAddress.reading(url.absoluteString), !address.hasUserInfo else { return nil }
        return address
    }

    /// The error for a URL that HTTP does not allow.
    private static func problem(of url: URL?) -> URLError {
        guard let url else { return URLError(.badURL, url: nil, "The request has no URL.") }
        do throws(HTTPAddress.Problem) {
            _ = try HTTPAddress.reading(url.absoluteString)
        } catch {
            switch error {
            case .noScheme: return URLError(.badURL, url: url, "The URL has no scheme.")
            case .otherScheme(let scheme):
                return URLError(.unsupportedURL, url: url, "The scheme \(scheme) is neither http nor https.")
            case .noHost: return URLError(.badURL, url: url, "The URL has no host, or an invalid host or port.")
            }
        }
        // libcurl would send the user information, and logs of the URL would contain it (RFC 9110, section 4.2.4).
        return URLError(
            .badURL, url: url,
            "The URL contains a user name or a password. Set the operation's credential, or an Authorization header, "
                + "instead.")
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

/// The forms in which a request specifies its URL (RFC 9112, section 3.2), as libcurl sends them: it encodes characters
/// as needed, and resolves dot segments unless they are kept.
package enum RequestTarget {
    /// Returns the path and the query; nil for a URL that libcurl rejects.
    package static func originForm(of address: HTTPAddress, keepingDotSegments: Bool) -> String? {
        withParts(of: address, keepingDotSegments) { parts in
            (part(CURLUPART_PATH, of: parts) ?? "/") + (part(CURLUPART_QUERY, of: parts).map { "?\($0)" } ?? "")
        }
    }

    /// Returns the complete URL, as sent to a proxy.
    static func absoluteForm(of address: HTTPAddress, keepingDotSegments: Bool) -> String {
        let text = withParts(of: address, keepingDotSegments) { parts in
            guard curl_url_set(parts, CURLUPART_FRAGMENT, nil, 0) == CURLUE_OK else { return String?.none }
            return part(CURLUPART_URL, of: parts, CURLU_NO_DEFAULT_PORT)
        }
        return (text ?? nil) ?? address.text
    }

    private static func withParts<Result>(
        of address: HTTPAddress, _ keepsDotSegments: Bool, _ body: (OpaquePointer) -> Result
    ) -> Result? {
        guard let parts = curl_url() else { return nil }
        defer { curl_url_cleanup(parts) }
        let flags = keepsDotSegments ? UInt32(CURLU_PATH_AS_IS) : 0
        guard curl_url_set(parts, CURLUPART_URL, address.text, flags) == CURLUE_OK else { return nil }
        return body(parts)
    }

    private static func part(_ part: CURLUPart, of parts: OpaquePointer, _ flags: Int32 = 0) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(parts, part, &text, UInt32(flags)) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }
}
