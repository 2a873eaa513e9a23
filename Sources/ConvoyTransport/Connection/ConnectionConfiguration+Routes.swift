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
