import ConvoySupport
import Foundation
import FoundationNetworking

/// Cookies (RFC 6265bis): those of each request, those of redirects too, and those of each response.
extension URLConnection {
    /// The value of the `Cookie` field of a request; nil where it has none.
    func cookies(for request: TransferRequest, _ address: String) -> [UInt8]? {
        guard let keeper = configuration.cookies?.keeper, !keeper.isEmpty, request.handlesCookies,
            let target = CookieTarget(address: address)
        else { return nil }
        return keeper.field(for: target, site: request.site, isSafeMethod: RequestRules.isSafe(request.method))
    }

    /// Takes the cookies of a response. False if somebody must be asked first: the response waits meanwhile.
    func takesCookies(of response: ResponseHead) -> Bool {
        guard let keeper = configuration.cookies?.keeper, currentRequest.handlesCookies,
            // It is the proxy's own.
            response.statusCode != 407, response.hasField("set-cookie"), let address = currentRequest.address,
            let target = CookieTarget(address: address)
        else { return true }
        let fields = response.bytes(of: "Set-Cookie")
        let url = response.url
        guard keeper.asksBeforeAccepting else {
            keeper.take(fields, from: target, url: url)
            return true
        }
        phase = .askingAboutCookies(response)
        BlockingWorkers.shared.perform { [weak self] in
            keeper.takeAsking(fields, from: target, url: url)
            guard let self else { return }
            thread.perform { self.didAskAboutCookies() }
        }
        return false
    }

    /// Goes on with the response that has waited.
    private func didAskAboutCookies() {
        guard case .askingAboutCookies(let response) = phase else { return }
        phase = .loading
        goOn(isAccepted: judge(response))
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
    /// The place of a URL as libcurl reads it; nil for what it cannot read.
    package init?(address: String) {
        if let plain = Self.plain(address) {
            self = plain
            return
        }
        guard let target = RequestTarget(address) else { return nil }
        let path = target.uri.utf8.prefix { $0 != UInt8(ascii: "?") }
        self.init(
            host: target.host, path: String(Substring(path)),
            isSecure: ASCII.equalIgnoringCase(address.utf8.prefix(6), "https:".utf8))
    }

    /// The same for an address that nobody could read otherwise: one with a plain name, and without dot segments.
    private static func plain(_ address: String) -> CookieTarget? {
        var address = address
        return address.withUTF8 { bytes in
            guard let start = bytes.baseAddress, bytes.count > 8, memcmp(start, "http", 4) == 0 else { return nil }
            let isSecure = bytes[4] == UInt8(ascii: "s")
            let colon = isSecure ? 5 : 4
            guard memcmp(start + colon, "://", 3) == 0 else { return nil }
            var rest = bytes[(colon + 3)...]
            let host = rest.prefix { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."),
                    UInt8(ascii: "-"):
                    true
                default: false
                }
            }
            // What ends in a number may be an address in one of many spellings.
            let last = host.lastIndex(of: UInt8(ascii: ".")).map { host[($0 + 1)...] } ?? host
            guard let first = last.first, first >= UInt8(ascii: "a") || isCommonAddress(host) else { return nil }
            rest = rest[host.endIndex...]
            if rest.first == UInt8(ascii: ":") { rest = rest.dropFirst().drop { ASCII.isDigit($0) } }
            guard rest.isEmpty || rest.first == UInt8(ascii: "/") else { return nil }
            let path = rest.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
            var previous: UInt8 = 0
            for byte in path {
                guard byte > 0x20, byte < 0x7F, !(byte == UInt8(ascii: ".") && previous == UInt8(ascii: "/")) else {
                    return nil
                }
                previous = byte
            }
            return CookieTarget(
                host: String(decoding: host, as: UTF8.self), path: String(decoding: path, as: UTF8.self), isSecure: isSecure)
        }
    }

    /// Whether it is an IPv4 address as it is commonly written: four decimal numbers.
    private static func isCommonAddress(_ host: Slice<UnsafeBufferPointer<UInt8>>) -> Bool {
        var (numbers, value, digits) = (1, 0, 0)
        for byte in host {
            if byte == UInt8(ascii: ".") {
                guard digits > 0 else { return false }
                (numbers, value, digits) = (numbers + 1, 0, 0)
            } else {
                // One that begins with a zero is octal.
                guard ASCII.isDigit(byte), digits == 0 || value > 0 else { return false }
                (value, digits) = (value * 10 + Int(byte - UInt8(ascii: "0")), digits + 1)
                guard value <= 255 else { return false }
            }
        }
        return numbers == 4 && digits > 0
    }
}
