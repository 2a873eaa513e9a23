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

    /// Where it goes; nil where that is not an http or https URL.
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

    package var timeoutInterval: TimeInterval {
        switch self {
        case .foundation(let request): request.timeoutInterval
        case .prepared(let request): request.timeoutInterval
        }
    }

    /// The same request with another limit for the time without a byte, in seconds.
    package func with(timeoutInterval: TimeInterval) -> TransferRequest {
        switch self {
        case .foundation(var request):
            request.timeoutInterval = timeoutInterval
            return .foundation(request)
        case .prepared(let request):
            return .prepared(request.with(timeoutInterval: timeoutInterval))
        }
    }

    /// The same request for another URL.
    func with(address: HTTPAddress) throws(URLError) -> TransferRequest {
        switch self {
        case .foundation(var request):
            guard let url = URL(string: address.text) else { throw URLError(.badURL, url: request.url, "It is not a URL.") }
            request.url = url
            return .foundation(request)
        case .prepared(let request):
            return .prepared(request.with(address: address))
        }
    }

    /// The same request with an `Authorization`, in place of its own.
    package func with(authorization value: String) throws(URLError) -> TransferRequest {
        switch self {
        case .foundation(var request):
            request.setValue(value, forHTTPHeaderField: "Authorization")
            return .foundation(request)
        case .prepared(let request):
            return .prepared(request.with(header: try request.header.withToken(value)))
        }
    }

    /// Whether it says of itself who the client is.
    var hasAuthorization: Bool {
        switch self {
        case .foundation(let request): request.value(forHTTPHeaderField: "Authorization") != nil
        case .prepared(let request): request.header.setsAuthorization
        }
    }

    /// What the user has set for the proxy.
    var proxyAuthorization: String? {
        switch self {
        case .foundation(let request): request.value(forHTTPHeaderField: "Proxy-Authorization")
        case .prepared(let request): request.header.ownProxyAuthorization
        }
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

    /// The request as Foundation's type. Making it from a prepared request takes some microseconds.
    package var urlRequest: URLRequest {
        switch self {
        case .foundation(let request): request
        case .prepared(let request): request.urlRequest
        }
    }
}

/// A request that needs no further check, as most requests are.
///
/// Foundation's `URLRequest` is made from it only on demand: making, copying and reading one takes as long as all that
/// the engine does for a small request. An object, because it is passed on a dozen times.
package final class PreparedRequest: Sendable {
    /// The URL, which was read where it entered.
    package let address: HTTPAddress
    /// One that Foundation keeps as it is: a token (RFC 9110, section 5.6.2) in upper case.
    package let method: String
    /// The header of a request with this body.
    package let header: RequestHeader
    package let body: Data?
    /// Seconds without a byte; 0 or less for no limit.
    package let timeoutInterval: TimeInterval

    package init(
        address: HTTPAddress, method: String, header: RequestHeader, body: Data?, timeoutInterval: TimeInterval
    ) {
        self.address = address
        self.method = method
        self.header = header
        self.body = body
        self.timeoutInterval = timeoutInterval
    }

    /// The same request but for what is given.
    func with(
        address: HTTPAddress? = nil, header: RequestHeader? = nil, timeoutInterval: TimeInterval? = nil
    ) -> PreparedRequest {
        PreparedRequest(
            address: address ?? self.address, method: method, header: header ?? self.header, body: body,
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
