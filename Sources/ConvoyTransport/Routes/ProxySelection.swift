import CCurl
import ConvoySupport
import Foundation

/// Which proxy a request travels through.
public enum ProxySelection: Sendable, Hashable {
    /// The environment's proxy for the URL's scheme and host, read anew for each request: `http_proxy`, `https_proxy`,
    /// `HTTPS_PROXY`, `all_proxy`, `ALL_PROXY`, and for the exceptions `no_proxy` or `NO_PROXY`, as in curl.
    case environment
    /// None, whatever the environment says.
    case none
    /// This one, whatever the environment says.
    ///
    /// The exceptions are the patterns of hosts that are reached without it, as curl's `no_proxy` has them: a name
    /// stands for itself and all names below it, an address or a network such as `10.0.0.0/8` for itself, and `*` alone
    /// for every host.
    case proxy(Proxy, except: [String] = [])

    /// The proxy for a target; nil for none.
    ///
    /// - Throws: `URLError.badURL` or `.unsupportedURL` for an invalid proxy in the environment.
    package func proxy(for target: Target) throws(URLError) -> Proxy? {
        try proxy(isSecure: target.isSecure, host: target.host)
    }

    /// - Parameter host: as it is sent; nil for any host, which matches no exception.
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

/// The proxies that the environment names, by libcurl's rules.
///
/// `http_proxy` counts in lower case only: a web server hands its client's `Proxy` field to programs as `HTTP_PROXY`. For
/// https there are `https_proxy` and `HTTPS_PROXY`; after these `all_proxy` and `ALL_PROXY`. `no_proxy`, or else
/// `NO_PROXY`, names the exceptions. A variable that is empty is none.
enum EnvironmentProxies {
    /// The proxy for a host; nil for none.
    ///
    /// Called for each request, so it is quick for a program without any of the variables.
    ///
    /// - Parameter host: as it is sent; nil for any host, which matches no exception.
    /// - Throws: what `Proxy.init(_:)` throws about a variable.
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

    /// The last parsed text, as it rarely changes.
    private static let last = Locked<(text: String, proxy: Proxy)?>(nil)

    private static func proxy(in text: String) throws(URLError) -> Proxy {
        if let known = last.withLock({ $0?.text == text ? $0?.proxy : nil }) { return known }
        let proxy: Proxy
        do throws(URLError) {
            proxy = try Proxy(text)
        } catch {
            throw URLError(
                error.code, url: nil, "The proxy in the environment cannot be used. \(error.localizedDescription)")
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

/// The hosts that are reached without a proxy: the patterns of `no_proxy`, as libcurl matches them.
///
/// Patterns are divided by commas or blanks. `*` alone stands for every host. A name stands for itself and for all names
/// that end in a dot and it; a dot before or after it does not matter, and neither does case. An address stands for itself, and
/// with `/8` and the like for its network; 0 bits stand for the whole address. IPv6 may be in brackets. (libcurl 7.88
/// compares IPv6 addresses only as text, and its networks not at all; here they count.)
struct ProxyExceptions {
    private let text: String

    init(_ text: String) { self.text = text }

    /// - Parameter host: of a URL, with or without brackets.
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
