import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Which servers are trusted.
extension HTTPRequestOperationManager {
    /// A manager with a queue of its own, and a policy for the servers that it talks to.
    ///
    /// - Parameters:
    ///   - baseURL: what relative URLs are relative to; nil where every URL is given whole.
    ///   - securityPolicy: which servers are trusted.
    ///   - completionQueue: where handlers run; nil is the main queue.
    ///   - configuration: what else the operations' connections do; its own policy is replaced.
    /// - Throws: `URLError.appTransportSecurityRequiresSecureConnection` if the policy pins the host of a `baseURL` that
    ///   is not https.
    public convenience init(
        baseURL: URL?, securityPolicy: SecurityPolicy, completionQueue: DispatchQueue? = nil,
        configuration: ConnectionConfiguration = .init()
    ) throws(URLError) {
        try Self.check(securityPolicy, for: baseURL)
        var configuration = configuration
        configuration.securityPolicy = securityPolicy
        self.init(baseURL: baseURL, completionQueue: completionQueue, configuration: configuration)
    }

    /// Which servers are trusted; ``setSecurityPolicy(_:)`` changes it.
    public final var securityPolicy: SecurityPolicy { connectionConfiguration.securityPolicy }

    /// Sets which servers are trusted, for operations that are made from now on. They use no connection that was made
    /// under another policy.
    ///
    /// - Throws: `URLError.appTransportSecurityRequiresSecureConnection` if the policy pins the host of a `baseURL` that
    ///   is not https. Nothing is changed then.
    public final func setSecurityPolicy(_ policy: SecurityPolicy) throws(URLError) {
        try Self.check(policy, for: baseURL)
        change { $0.configuration.securityPolicy = policy }
    }

    private static func check(_ policy: SecurityPolicy, for url: URL?) throws(URLError) {
        guard let url else { return }
        let target = Target(url)
        guard target?.isSecure != true, policy.isPinning(host: target?.host) else { return }
        throw URLError(
            .appTransportSecurityRequiresSecureConnection, url: url,
            "A security policy that pins the server needs a base URL with https.")
    }
}
