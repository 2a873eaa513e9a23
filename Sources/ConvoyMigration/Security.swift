import ConvoySecurity

// The following names of AFNetworking are marked unavailable, so that the compiler suggests the replacement instead of
// reporting an unknown name.

/// The policy for server certificates.
@available(
    *, unavailable, renamed: "SecurityPolicy",
    message: "SecurityPolicy is a value type. Set a manager's securityPolicy."
)
public final class AFSecurityPolicy: Sendable {
    /// Returns the policy that trusts the system's authorities.
    @available(*, unavailable, renamed: "SecurityPolicy.default")
    public static func defaultPolicy() -> AFSecurityPolicy { AFSecurityPolicy() }

    /// Creates a policy that pins the certificates of the program's bundle.
    @available(*, unavailable, renamed: "SecurityPolicy.init(pinningMode:pinnedCertificates:)")
    public init(pinningMode: AFSSLPinningMode) {}

    package init() {}
}

/// The kind of pin that a security policy uses.
@available(*, unavailable, renamed: "SecurityPolicy.PinningMode")
public enum AFSSLPinningMode: UInt, Sendable {
    /// Nothing is pinned.
    case none
    /// The server's public key is pinned.
    case publicKey
    /// The server's certificate is pinned.
    case certificate
}

extension SecurityPolicy {
    /// Returns the policy that trusts the system's authorities.
    @available(*, unavailable, renamed: "default")
    public static func defaultPolicy() -> SecurityPolicy { SecurityPolicy() }

    /// Returns whether the server is trusted.
    @available(*, unavailable, renamed: "evaluate(_:forDomain:)", message: "Its isTrusted.")
    public func evaluateServerTrust(_ trust: ServerTrust, forDomain domain: String?) -> Bool { false }

    /// Returns the certificates of a bundle.
    @available(*, unavailable, renamed: "Certificate.certificates(inDirectory:)")
    public static func certificatesInBundle(_ folder: String) -> [Certificate] { [] }

    /// The pinning mode.
    @available(*, unavailable, renamed: "pinningMode")
    public var SSLPinningMode: PinningMode { pinningMode }
}
