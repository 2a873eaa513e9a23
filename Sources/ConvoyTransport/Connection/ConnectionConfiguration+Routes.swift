import ConvoySecurity
import Foundation

/// To whom connections are made. Each request decides anew, after each redirect too.
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
    /// It judges on the network thread, before a socket is opened, and again when a connection that is already there is
    /// to be used. So nothing is sent to an address that it refuses, after a redirect or for a name that has changed its
    /// address neither. (The name server is asked for the name.) Of a name with several addresses, those that are refused
    /// are passed over as if the name did not have them. If none is left, the transfer fails with
    /// `URLError.dataNotAllowed` and an `AddressRefusal` (`URLError.addressRefusal`), and is not retried.
    ///
    /// Behind a proxy it sees only the proxy's address, and the refusal says so. What the proxy connects to is for the
    /// proxy to judge. A Unix socket has no address and is let through.
    public var addressGuard: AddressGuard? {
        get { routing.settings.addressGuard }
        set { routing.settings.addressGuard = newValue }
    }

    /// The path of a Unix socket to which every connection is made, in place of the URL's host; nil, the default, for
    /// none.
    ///
    /// The URL's host and port are still what `Host` and TLS name. With `@` before it, it is an abstract name, as `ss`
    /// shows them; a connection to such a name serves one request. No proxy is used. A path that is empty or longer than 107 bytes fails with `URLError.badURL`.
    public var unixSocket: String? {
        get { routing.settings.unixSocket }
        set { routing.settings.unixSocket = newValue }
    }
}
