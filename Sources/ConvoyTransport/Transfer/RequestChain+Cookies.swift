import ConvoySupport
import Foundation
import FoundationNetworking

/// Cookies (RFC 6265bis) of each request and response, including redirects.
extension RequestChain {
    /// Returns the value of the `Cookie` field for a request; nil for none.
    func cookies(for request: TransferRequest, _ address: HTTPAddress) -> [UInt8]? {
        guard let keeper = configuration.cookies?.keeper, !keeper.isEmpty, request.handlesCookies,
            let target = CookieTarget(address, keepingDotSegments: configuration.keepsDotSegments)
        else { return nil }
        return keeper.field(for: target, site: request.site, isSafeMethod: RequestRules.isSafe(request.method))
    }

    /// Stores the cookies of a response. Returns false if the acceptance handler must decide first; the response is
    /// then held back.
    func takesCookies(of response: ResponseHead) -> Bool {
        guard let keeper = configuration.cookies?.keeper, step.request.handlesCookies,
            // A 407 response comes from the proxy itself.
            response.statusCode != 407, let address = step.address,
            let target = CookieTarget(address, keepingDotSegments: configuration.keepsDotSegments)
        else { return true }
        let fields = response.bytes(of: "Set-Cookie", limit: keeper.fieldLimit)
        let url = response.url
        guard keeper.asksBeforeAccepting else {
            keeper.take(fields, from: target, url: url)
            return true
        }
        phase = .askingCookies(response)
        updateFlow(.hold(.cookies))
        BlockingWorkers.shared.perform { [weak self] in
            keeper.takeAsking(fields, from: target, url: url)
            guard let self else { return }
            thread.perform { self.didAskAboutCookies(of: response) }
        }
        return false
    }

    /// Continues with the response that was held back.
    private func didAskAboutCookies(of response: ResponseHead) {
        guard case .askingCookies(let current) = phase, current === response else { return }
        phase = .loading
        goOn(isAccepted: evaluate(response), lifting: .cookies)
    }
}

extension CookieTarget {
    /// Creates the target for a URL, with the path that libcurl sends; nil if libcurl rejects the URL.
    package init?(_ address: HTTPAddress, keepingDotSegments: Bool) {
        let path =
            Self.plainPath(of: address)
            ?? RequestTarget.originForm(of: address, keepingDotSegments: keepingDotSegments)?.prefix { $0 != "?" }
        guard let path else { return nil }
        self.init(host: address.target.host, path: String(path), isSecure: address.target.isSecure)
    }

    /// Returns the path if libcurl always sends it unchanged: ASCII without segments that begin with a dot.
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
