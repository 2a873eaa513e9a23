import ConvoySecurity
import Foundation

/// TLS. Two requests use the same connection only if all of these settings are equal.
extension ConnectionConfiguration {
    /// Which servers are trusted. It decides inside the handshake, before anything of the request is sent. A server that
    /// is not trusted fails with the codes that `URLError.serverTrustFailure` names; a host that is pinned and a URL
    /// without TLS fail with `URLError.appTransportSecurityRequiresSecureConnection`, before anything is connected.
    public var securityPolicy: SecurityPolicy {
        get { tls.settings.policy }
        set { tls.settings.policy = newValue }
    }

    /// Which proxies are trusted, where TLS is spoken with the proxy itself.
    public var proxySecurityPolicy: SecurityPolicy {
        get { tls.settings.proxyPolicy }
        set { tls.settings.proxyPolicy = newValue }
    }

    /// What the client presents to servers that ask who it is; nil for nothing. Neither proxies nor, after
    /// a redirect, servers of another origin see it.
    public var clientIdentity: ClientIdentity? {
        get { tls.settings.identity }
        set { tls.settings.identity = newValue }
    }

    /// The oldest version of TLS that is spoken, 1.2 by default.
    public var minimumTLSVersion: TLSVersion {
        get { tls.settings.minimumVersion }
        set { tls.settings.minimumVersion = newValue }
    }

    /// The newest version of TLS that is spoken; nil, the default, for the newest that OpenSSL has.
    public var maximumTLSVersion: TLSVersion? {
        get { tls.settings.maximumVersion }
        set { tls.settings.maximumVersion = newValue }
    }

    /// The cipher suites that are offered, by OpenSSL's names; empty, the default, for its own choice. Those of TLS 1.3
    /// begin with "TLS_"; a version of which none is named is not spoken.
    public var cipherSuites: [String] {
        get { tls.settings.cipherSuites }
        set { tls.settings.cipherSuites = newValue }
    }
}
