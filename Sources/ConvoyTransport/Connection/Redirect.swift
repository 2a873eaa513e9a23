import ConvoySupport
import Foundation
import FoundationNetworking

/// A redirect (RFC 9110, section 15.4) and the request that follows it. A value without I/O.
public struct Redirect: Sendable {
    /// The response that redirects.
    public let response: ResponseHead
    /// The request to follow with. If the origin (scheme, host, port) changed, it lacks `Authorization`, `Cookie`,
    /// `Proxy-Authorization` and the fields that were marked sensitive.
    public var request: URLRequest

    static let sensitiveHeaders: Set<String> = ["authorization", "cookie", "proxy-authorization"]
    static let limit = 20

    /// The redirect of a response; nil if it is not a redirect that can be followed.
    ///
    /// - Throws: `URLError.httpTooManyRedirects`, `.badServerResponse` for an unreadable `Location`,
    ///   `.unsupportedURL` for one that is neither http nor https.
    init?(
        from request: TransferRequest, response: ResponseHead, followed: Int, sensitiveHeaders: Set<String>
    ) throws(URLError) {
        switch response.statusCode {
        case 301, 302, 303, 307, 308: break
        default: return nil
        }
        guard let location = response["Location"] else { return nil }
        let base = response.url
        guard followed < Self.limit else {
            throw URLError(.httpTooManyRedirects, url: base, "More than \(Self.limit) redirects.")
        }
        guard !location.isEmpty,
            let target = URLReference.url(location, relativeTo: base)
        else {
            throw URLError(
                .badServerResponse, url: base, "The redirect's Location \(location.debugDescription) is not a URL.")
        }
        do {
            try RequestRules.check(target)
        } catch {
            throw URLError(.unsupportedURL, url: target, "A redirect leads to a URL that is neither http nor https.")
        }
        let request = request.urlRequest
        var next = request
        // RFC 9110, section 10.2.2: a fragment is inherited if the new reference has none.
        next.url =
            target.fragment == nil
            ? base.fragment.flatMap { URLReference.url("#\($0)", relativeTo: target) } ?? target : target
        let method = request.httpMethod ?? "GET"
        let becomesGet =
            response.statusCode == 303 ? method != "HEAD" : response.statusCode < 303 && method == "POST"
        if becomesGet, method != "GET" {
            next.httpMethod = "GET"
            next.httpBody = nil
            next.httpBodyStream = nil
            for name in ["Content-Type", "Content-Length", "Content-Encoding", "Content-Language", "Content-Location"] {
                next.setValue(nil, forHTTPHeaderField: name)
            }
        }
        if Origin(base) != Origin(target) {
            let leavesBehind = Self.sensitiveHeaders.union(sensitiveHeaders.map { $0.lowercased() })
            for name in (next.allHTTPHeaderFields ?? [:]).keys where leavesBehind.contains(name.lowercased()) {
                next.setValue(nil, forHTTPHeaderField: name)
            }
            // A `Host` set by the user is meant for the first origin.
            next.setValue(nil, forHTTPHeaderField: "Host")
        }
        self.response = response
        self.request = next
    }
}

/// Scheme, host and port (RFC 6454, section 4).
package struct Origin: Hashable, Sendable {
    let scheme: String
    let host: String
    let port: Int

    package init(_ url: URL) {
        scheme = url.scheme?.lowercased() ?? ""
        host = url.host?.lowercased() ?? ""
        port = url.port ?? (scheme == "https" ? 443 : 80)
    }
}
