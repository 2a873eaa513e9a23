import ConvoySecurity
import ConvoySupport
import Foundation

/// Where connections are made to. Decided anew for each request and each redirect.
extension ConnectionConfiguration {
    /// Through which proxy requests travel; that of the environment by default.
    ///
    /// A proxy's credential is sent to that proxy only, and a connection that it was used for serves only requests with
    /// the same. A proxy of the environment that cannot be one fails with `URLError.badURL` or `.unsupportedURL`.
    public var proxy: ProxySelection {
        get { routing.settings.proxy }
        set { routing.settings.proxy = newValue }
    }

    /// Which addresses may be connected to; nil, the default, for all.
    ///
    /// It is evaluated on the network thread, before a socket is opened, and again before an existing connection is
    /// used. So nothing is sent to an address that it refuses, after a redirect or for a name that has changed its
    /// address neither. (The name server is asked for the name.) Of a name with several addresses, those that are
    /// refused are passed over as if the name did not have them. If none is left, the transfer fails with
    /// `URLError.dataNotAllowed` and an `AddressRefusal` (`URLError.addressRefusal`), and is not retried.
    ///
    /// Behind a proxy it sees only the proxy's address, and the refusal says so. What the proxy connects to is for the
    /// proxy to decide. A Unix socket has no address and is let through.
    public var addressGuard: AddressGuard? {
        get { routing.settings.addressGuard }
        set { routing.settings.addressGuard = newValue }
    }

    /// Addresses to connect to for hosts, in place of those that name servers know; empty by default.
    ///
    /// A key is a host, or a host and a port such as `api.example.com:443`, which counts first, or `*` for all others.
    /// A value is an address or a name, or either with a port: `127.0.0.1`, `[::1]:8443`. `Host` and TLS still name the
    /// URL's host, and the `addressGuard` checks the address that is connected to. An HTTP proxy is asked for a tunnel
    /// to the address. Connections that are made so serve only requests that have the same. A value that cannot be
    /// connected to fails with `URLError.badURL`.
    public var addressOverrides: [String: String] {
        get { routing.settings.addressOverrides }
        set { routing.settings.addressOverrides = newValue }
    }

    /// The interface or the address of this machine from which connections are made, also those to a proxy; nil, the
    /// default, for the system's choice.
    ///
    /// A connection serves only requests with the same setting. Where none can be made from there, transfers fail with
    /// `URLError.cannotConnectToHost`.
    public var connectionSource: ConnectionSource? {
        get { routing.settings.source }
        set { routing.settings.source = newValue }
    }

    /// What the traffic is for, so that networks can treat it accordingly; `.default`, unless set.
    ///
    /// With `.default`, the request's own `networkServiceType` counts. A connection serves only requests of the same type.
    /// Where the system refuses a mark, connections are made without it. A Unix socket has no marks.
    public var networkServiceType: NetworkServiceType {
        get { routing.settings.serviceType }
        set { routing.settings.serviceType = newValue }
    }

    /// How many seconds the answer of a name server is used again, rounded up; 0 for not at all, a negative number for
    /// ever, and nil, the default, for a minute.
    ///
    /// All transfers of a `NetworkThread` share the answers, and the one that asks decides how old they may be. An
    /// existing connection is used without a lookup.
    public var dnsCacheTime: TimeInterval? {
        get { routing.settings.nameCacheTime }
        set { routing.settings.nameCacheTime = newValue }
    }

    /// Remembers which hosts are to be reached over TLS only (RFC 6797); nil, the default, for none.
    ///
    /// A request to such a host is sent over https from the start, and so is one that a redirect leads there: the
    /// response's URL says so. Port 80 becomes 443, other ports stay. What a response says counts only over TLS, with a
    /// certificate that was validated and not merely tolerated by `securityPolicy`.
    public var hsts: HSTSStore? {
        get { routing.settings.hsts }
        set { routing.settings.hsts = newValue }
    }

    /// The path of a Unix socket to which every connection is made, in place of the URL's host; nil, the default, for
    /// none.
    ///
    /// The URL's host and port are still what `Host` and TLS name. With `@` before it, it is an abstract name, as `ss`
    /// shows them; a connection to such a name serves one request. No proxy is used. A path that is empty or
    /// longer than 107 bytes fails with `URLError.badURL`.
    public var unixSocket: String? {
        get { routing.settings.unixSocket }
        set { routing.settings.unixSocket = newValue }
    }

    /// Where to connect for a target, as `curl --connect-to` has it; nil for the target itself.
    package func fixedAddress(for target: Target) -> String? {
        guard !addressOverrides.isEmpty else { return nil }
        return try? AddressOverrides.connectTo(target, in: addressOverrides)
    }
}
