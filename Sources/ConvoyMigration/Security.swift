import ConvoySecurity

// The following names of AFNetworking are marked unavailable, so that the compiler suggests the replacement instead of
// reporting an unknown name.

/// The policy for server certificates.
@available(
    *, unavailable, renamed: "SecurityPolicy",
    message: "SecurityPolicy is a value type. Set a manager's securityPolicy."
)
public typealias AFSecurityPolicy = SecurityPolicy

/// The kind of pin that a security policy uses.
@available(*, unavailable, renamed: "SecurityPolicy.PinningMode")
public typealias AFSSLPinningMode = SecurityPolicy.PinningMode

extension SecurityPolicy.PinningMode {
    /// Nothing is pinned.
    @available(*, unavailable, renamed: "none")
    public static var None: SecurityPolicy.PinningMode { .none }
    /// The server's public key is pinned.
    @available(*, unavailable, renamed: "publicKey")
    public static var PublicKey: SecurityPolicy.PinningMode { .publicKey }
    /// The server's certificate is pinned.
    @available(*, unavailable, renamed: "certificate")
    public static var Certificate: SecurityPolicy.PinningMode { .certificate }
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
