import ConvoySecurity
import ConvoySupport
import Foundation

/// Proxies and network routing, evaluated again for each request and each redirect.
extension ConnectionConfiguration {
    /// The proxy selection. Defaults to the proxies of the environment.
    ///
    /// Proxy credentials are sent only to that proxy, and a connection authenticated with them serves only requests
    /// with the same credentials. An invalid proxy in the environment fails the request with `URLError.badURL` or
    /// `.unsupportedURL`.
    public var proxy: ProxySelection {
        get { routing.settings.proxy }
        set { routing.settings.proxy = newValue }
    }

    /// The guard that decides to which addresses connections may be made. If nil, the default, all addresses are
    /// allowed.
    ///
    /// The guard is evaluated on the network thread before a socket is opened, and again before an existing connection
    /// is reused. Nothing is therefore sent to a rejected address, even after a redirect or if the address of a name
    /// has changed. (The name server is still queried.) If a name has several addresses, rejected ones are skipped. If
    /// none is left, the transfer fails with `URLError.dataNotAllowed` and an `AddressRefusal`
    /// (`URLError.addressRefusal`), and is not retried.
    ///
    /// Behind a proxy, the guard checks only the proxy's address, which the refusal mentions; the proxy decides where
    /// it connects to. Unix sockets have no address and are always allowed.
    public var addressGuard: AddressGuard? {
        get { routing.settings.addressGuard }
        set { routing.settings.addressGuard = newValue }
    }

    /// The addresses that replace those from DNS for the given hosts. Empty by default.
    ///
    /// A key is a host, a host with a port such as `api.example.com:443`, which takes precedence, or `*` for all other
    /// hosts. A value is an address or a name, optionally with a port: `127.0.0.1`, `[::1]:8443`. `Host` and TLS still
    /// use the URL's host, and the `addressGuard` checks the address that is connected to. An HTTP proxy must open a
    /// tunnel to the address. The resulting connections serve only requests with the same overrides. An invalid value
    /// fails the request with `URLError.badURL`.
    public var addressOverrides: [String: String] {
        get { routing.settings.addressOverrides }
        set { routing.settings.addressOverrides = newValue }
    }

    /// The local interface or address from which connections are made, including those to a proxy; nil, the default,
    /// for the system's choice.
    ///
    /// A connection serves only requests with the same setting. If no connection can be made from this source,
    /// transfers fail with `URLError.cannotConnectToHost`.
    public var connectionSource: ConnectionSource? {
        get { routing.settings.source }
        set { routing.settings.source = newValue }
    }

    /// The type of the traffic, by which networks can prioritize it. The default is `.default`.
    ///
    /// With `.default`, the request's own `networkServiceType` applies. A connection serves only requests of the same
    /// type. If the system does not permit marking, connections are made without marks. Unix sockets are not marked.
    public var networkServiceType: NetworkServiceType {
        get { routing.settings.serviceType }
        set { routing.settings.serviceType = newValue }
    }

    /// The time, in seconds, for which DNS results are cached, rounded up; 0 disables caching, a negative number caches
    /// forever, and nil, the default, means one minute.
    ///
    /// All transfers of a `NetworkThread` share the cached results, and each transfer's own setting limits their age.
    /// Reusing a connection requires no lookup.
    public var dnsCacheTime: TimeInterval? {
        get { routing.settings.nameCacheTime }
        set { routing.settings.nameCacheTime = newValue }
    }

    /// The store of hosts that must be accessed over TLS only (RFC 6797); nil, the default, for none.
    ///
    /// Requests and redirects to such a host are upgraded to https before they are sent, which is visible in the
    /// response's URL. Port 80 becomes 443; other ports are unchanged. The `Strict-Transport-Security` field is
    /// honoured only over TLS, and only if the certificate was validated and not merely tolerated by `securityPolicy`.
    public var hsts: HSTSStore? {
        get { routing.settings.hsts }
        set { routing.settings.hsts = newValue }
    }

    /// The path of a Unix socket to which all connections are made instead of the URL's host; nil, the default, for
    /// none.
    ///
    /// `Host` and TLS still use the URL's host and port. A leading `@` denotes an abstract name, as shown by `ss`; a
    /// connection to such a name serves only one request. Proxies are not used. An empty path, or one longer than 107
    /// bytes, fails the request with `URLError.badURL`.
    public var unixSocket: String? {
        get { routing.settings.unixSocket }
        set { routing.settings.unixSocket = newValue }
    }

    /// Returns the address to connect to for a target, in the format of `curl --connect-to`; nil for the target itself.
    package func fixedAddress(for target: Target) -> String? {
        guard !addressOverrides.isEmpty else { return nil }
        return try? AddressOverrides.connectTo(target, in: addressOverrides)
    }
}
