import ConvoySupport
import Foundation

/// Which proxy a request travels through.
public enum ProxySelection: Sendable, Hashable {
    /// The one that the environment names for the URL's scheme and host, read anew for each request: `http_proxy`,
    /// `https_proxy`, `HTTPS_PROXY`, `all_proxy`, `ALL_PROXY`, and for the exceptions `no_proxy` or `NO_PROXY`, as in
    /// curl.
    case environment
    /// None, whatever the environment names.
    case none
    /// This one, whatever the environment names.
    ///
    /// The exceptions are the patterns of hosts that are reached without it, as curl's `no_proxy` has them: a name
    /// stands for itself and all names below it, an address or a network such as `10.0.0.0/8` for itself, and `*` alone
    /// for every host.
    case proxy(Proxy, except: [String] = [])

    /// The proxy on the way to a target; nil for none.
    ///
    /// - Throws: `URLError.badURL` or `.unsupportedURL` for a proxy in the environment that is none.
    package func proxy(for target: Target) throws(URLError) -> Proxy? {
        try proxy(isSecure: target.isSecure, host: target.host)
    }

    /// - Parameter host: as it is sent; nil for any, which no exception names.
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
