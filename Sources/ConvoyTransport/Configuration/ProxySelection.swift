import CCurl
import ConvoySupport
import Foundation

/// The selection of the proxy for a request.
public enum ProxySelection: Sendable, Hashable {
    /// The environment's proxy for the URL's scheme and host, read again for each request: `http_proxy`, `https_proxy`,
    /// `HTTPS_PROXY`, `all_proxy` and `ALL_PROXY`, with exceptions in `no_proxy` or `NO_PROXY`, as in curl.
    case environment
    /// No proxy, regardless of the environment.
    case none
    /// The given proxy, regardless of the environment.
    ///
    /// The exceptions are patterns for hosts that are accessed directly, in the format of curl's `no_proxy`: a name
    /// matches itself and all its subdomains, an address or a network such as `10.0.0.0/8` matches addresses, and `*`
    /// alone matches every host.
    case proxy(Proxy, except: [String] = [])

    /// Returns the proxy for a target; nil for none.
    ///
    /// - Throws: `URLError.badURL` or `.unsupportedURL` for an invalid proxy in the environment.
    package func proxy(for target: Target) throws(URLError) -> Proxy? {
        try proxy(isSecure: target.isSecure, host: target.host)
    }

    /// - Parameter host: The host as sent; nil for any host, so that no exception applies.
    func proxy(isSecure: Bool, host: String?) throws(URLError) -> Proxy? {
        switch self {
        case .none: nil
        case .environment: try EnvironmentProxies.proxy(isSecure: isSecure, host: host)
        case .proxy(let proxy, let exceptions):
            if !exceptions.isEmpty, let host,
                ProxyExceptions(exceptions.joined(separator: ",")).contains(host)
            {
                nil
            } else {
                proxy
            }
        }
    }
}

/// The proxies specified by environment variables, by libcurl's rules.
///
/// `http_proxy` is read only in lowercase, because web servers pass a client's `Proxy` field to programs as
/// `HTTP_PROXY`. `https_proxy` and `HTTPS_PROXY` apply to https. `all_proxy` and `ALL_PROXY` apply to both schemes if
/// no other variable does. `no_proxy`, or else `NO_PROXY`, lists the exceptions. Empty variables are ignored.
enum EnvironmentProxies {
    /// Returns the proxy for a host; nil for none.
    ///
    /// This function is called for each request, so it returns quickly if no variable is set.
    ///
    /// - Parameter host: The host as sent; nil for any host, so that no exception applies.
    /// - Throws: The errors of `Proxy.init(_:)` for the value of a variable.
    static func proxy(isSecure: Bool, host: String?) throws(URLError) -> Proxy? {
        guard convoy_environment_names_proxy() != 0 else { return nil }
        let own = isSecure ? value("https_proxy") ?? value("HTTPS_PROXY") : value("http_proxy")
        guard let text = own ?? value("all_proxy") ?? value("ALL_PROXY") else { return nil }
        if let exceptions = value("no_proxy") ?? value("NO_PROXY"), let host,
            ProxyExceptions(String(cString: exceptions)).contains(host)
        {
            return nil
        }
        return try proxy(in: String(cString: text))
    }

    /// The last parsed text, which rarely changes, and its proxy.
    private static let last = Locked<(text: String, proxy: Proxy)?>(nil)

    private static func proxy(in text: String) throws(URLError) -> Proxy {
        if let known = last.withLock({ $0?.text == text ? $0?.proxy : nil }) { return known }
        let proxy: Proxy
        do throws(URLError) {
            proxy = try Proxy(text)
        } catch {
            throw URLError(
                error.code, url: nil, "The proxy in the environment is invalid. \(error.localizedDescription)")
        }
        last.withLock { $0 = (text, proxy) }
        return proxy
    }

    private static func value(_ name: StaticString) -> UnsafeMutablePointer<CChar>? {
        name.utf8Start.withMemoryRebound(to: CChar.self, capacity: name.utf8CodeUnitCount + 1) { name in
            guard let value = getenv(name), value.pointee != 0 else { return nil }
            return value
        }
    }
}

/// The hosts that are accessed without a proxy: the patterns of `no_proxy`, matched as libcurl matches them.
///
/// Patterns are separated by commas or whitespace. `*` alone matches every host. A name matches itself and its
/// subdomains, ignoring case and a dot before or after it. An address matches itself, or its network if it has a suffix
/// such as `/8`; 0 bits mean the complete address. IPv6 addresses may be in brackets. (libcurl 7.88 compares IPv6
/// addresses only as text, and ignores IPv6 networks; here, both are supported.)
struct ProxyExceptions {
    private let text: String

    init(_ text: String) { self.text = text }

    /// - Parameter host: The host of a URL, with or without brackets.
    func contains(_ host: String) -> Bool {
        guard !text.isEmpty, !host.isEmpty else { return false }
        if text == "*" { return true }
        let address = HostName.address(host)
        let name = HostName.normalized(host) ?? HostName.spelling(of: host)
        return text.split { $0 == "," || $0 == " " || $0 == "\t" }.contains { pattern in
            if let address { return Self.matches(pattern, address) }
            return Self.matches(pattern, name: name)
        }
    }

    private static func matches(_ pattern: Substring, name: String) -> Bool {
        let pattern = String(pattern.first == "." ? pattern.dropFirst() : pattern)
        let domain = HostName.normalized(pattern) ?? HostName.spelling(of: pattern)
        return HostName.isName(name, equalToOrBelow: domain)
    }

    private static func matches(_ pattern: Substring, _ address: [UInt8]) -> Bool {
        let parts = pattern.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let network = HostName.address(String(parts[0])), network.count == address.count else { return false }
        // Text that is not a number counts as 0, as in C.
        var bits = parts.count == 2 ? Int(parts[1].prefix { ("0"..."9").contains($0) }) ?? 0 : 0
        if bits == 0 { bits = address.count * 8 }
        guard bits <= address.count * 8 else { return false }
        for (index, pair) in zip(address, network).enumerated() {
            let left = bits - index * 8
            if left <= 0 { break }
            let mask: UInt8 = left >= 8 ? 0xFF : ~(0xFF >> UInt8(left))
            if (pair.0 ^ pair.1) & mask != 0 { return false }
        }
        return true
    }
}
