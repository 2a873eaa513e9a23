import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// Hosts that are to be reached over TLS only (RFC 6797).
extension URLConnection {
    /// The same request over https, if its host is one of those that the store knows (RFC 6797, section 8.3).
    func upgraded(_ request: TransferRequest) -> TransferRequest {
        guard let store = configuration.routing.hsts, let address = request.address,
            address.utf8.prefix(5).elementsEqual("http:".utf8, by: { ASCII.lowercased($0) == $1 }),
            let target = RequestTarget(address), store.requiresTLS(forHost: target.host)
        else { return request }
        let secure = Self.securing(address, port: target.port)
        switch request {
        case .foundation(var request):
            guard let url = URL(string: secure) else { return .foundation(request) }
            request.url = url
            return .foundation(request)
        case .prepared(let request):
            return .prepared(request.with(address: secure))
        }
    }

    /// The target of a redirect that leads to such a host, before anybody judges it.
    func upgraded(_ target: URL) -> URL {
        upgraded(.foundation(URLRequest(url: target))).url ?? target
    }

    /// A URL with the scheme https. Port 80 becomes 443, whether it is written there or not; another one stays.
    static func securing(_ address: String, port: Int) -> String {
        let rest = address.utf8.dropFirst("http".utf8.count)
        guard port == 80, let start = rest.dropFirst(3).firstIndex(where: { $0 != UInt8(ascii: "/") }) else {
            return "https" + String(Substring(rest))
        }
        let authority = rest[start...].prefix { !"/?#".utf8.contains($0) }
        guard let colon = authority.lastIndex(of: UInt8(ascii: ":")),
            authority[colon...].dropFirst().allSatisfy(ASCII.isDigit), authority[colon...].count > 1
        else { return "https" + String(Substring(rest)) }
        return "https" + String(Substring(rest[..<colon])) + ":443" + String(Substring(rest[authority.endIndex...]))
    }

    /// Takes what a response says about its host. It counts only where the server was trusted for its certificate, not
    /// because the policy trusts anybody (RFC 6797, section 8.1).
    func noteStrictTransportSecurity(in response: ResponseHead) {
        guard let store = configuration.routing.hsts, let address = currentRequest.address,
            !address.utf8.starts(with: "http:".utf8), let host = RequestTarget(address)?.host,
            let value = response.values(of: "Strict-Transport-Security").first
        else { return }
        let policy = configuration.securityPolicy.policy(forHost: host)
        guard !policy.allowInvalidCertificates, policy.validatesDomainName else { return }
        store.note(value, fromHost: host)
    }
}
