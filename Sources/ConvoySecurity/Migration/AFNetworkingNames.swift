// AFNetworking's names of this module, so that a port is told what has become of them in place of "no such name".

/// The policy for server certificates.
@available(*, unavailable, message: "Not there yet. Whom to trust: ConnectionConfiguration.certificateAuthorities")
public final class AFSecurityPolicy: Sendable {
    /// The policy that trusts what the system trusts.
    @available(*, unavailable, message: "Not needed: servers are checked as the system checks them.")
    public static func defaultPolicy() -> AFSecurityPolicy { AFSecurityPolicy() }

    /// A policy that pins certificates or keys.
    @available(*, unavailable, message: "Pinning is not there yet.")
    public init(pinningMode: AFSSLPinningMode) {}

    package init() {}
}

/// What a security policy pins.
@available(*, unavailable, message: "Pinning is not there yet.")
public enum AFSSLPinningMode: UInt, Sendable {
    /// Nothing.
    case none
    /// The server's public key.
    case publicKey
    /// The server's certificate.
    case certificate
}
