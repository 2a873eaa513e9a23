import ConvoySupport
import Foundation
import FoundationNetworking

/// Cookies (RFC 6265bis): those of each request, those of redirects too, and those of each response.
extension URLConnection {
    /// The value of the `Cookie` field of a request; nil where it has none.
    func cookies(for request: TransferRequest, _ address: HTTPAddress) -> [UInt8]? {
        guard let keeper = configuration.cookies?.keeper, !keeper.isEmpty, request.handlesCookies,
            let target = CookieTarget(address)
        else { return nil }
        return keeper.field(for: target, site: request.site, isSafeMethod: RequestRules.isSafe(request.method))
    }

    /// Takes the cookies of a response. False if somebody must be asked first: the response waits meanwhile.
    func takesCookies(of response: ResponseHead) -> Bool {
        guard let keeper = configuration.cookies?.keeper, exchange.request.handlesCookies,
            // It is the proxy's own.
            response.statusCode != 407, response.hasField("set-cookie"), let address = exchange.address,
            let target = CookieTarget(address)
        else { return true }
        let fields = response.bytes(of: "Set-Cookie", limit: keeper.fieldLimit)
        let url = response.url
        guard keeper.asksBeforeAccepting else {
            keeper.take(fields, from: target, url: url)
            return true
        }
        phase = .askingAboutCookies(response)
        updateFlow(.hold(.cookies))
        BlockingWorkers.shared.perform { [weak self] in
            keeper.takeAsking(fields, from: target, url: url)
            guard let self else { return }
            thread.perform { self.didAskAboutCookies(of: response) }
        }
        return false
    }

    /// Goes on with the response that has waited.
    private func didAskAboutCookies(of response: ResponseHead) {
        guard case .askingAboutCookies(let current) = phase, current === response else { return }
        phase = .loading
        goOn(isAccepted: judge(response), lifting: .cookies)
    }
}

extension TransferRequest {
    var handlesCookies: Bool {
        switch self {
        case .foundation(let request): request.httpShouldHandleCookies
        case .prepared: true
        }
    }

    /// On whose behalf the request is made; nil for the server's own.
    var site: URL? {
        switch self {
        case .foundation(let request): request.mainDocumentURL
        case .prepared: nil
        }
    }
}

extension CookieTarget {
    /// The place of a URL, with the path that libcurl sends; nil for what libcurl refuses.
    package init?(_ address: HTTPAddress) {
        guard let path = Self.plainPath(of: address) ?? RequestTarget.originForm(of: address)?.prefix(while: { $0 != "?" })
        else { return nil }
        self.init(host: address.target.host, path: String(path), isSecure: address.target.isSecure)
    }

    /// The same for a path that libcurl sends as it is: one without dot segments and other characters than those of ASCII.
    private static func plainPath(of address: HTTPAddress) -> Substring? {
        let rest = address.afterAuthority
        var (end, previous) = (rest.startIndex, UInt8(0))
        while end < rest.endIndex {
            let byte = rest.utf8[end]
            if byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#") { break }
            guard byte > 0x20, byte < 0x7F, !(byte == UInt8(ascii: ".") && previous == UInt8(ascii: "/")) else { return nil }
            previous = byte
            rest.utf8.formIndex(after: &end)
        }
        return rest[..<end]
    }
}
