// AFNetworking's names in this module, marked unavailable: the compiler suggests the replacement to a ported program
// instead of reporting an unknown name.

/// The policy for server certificates.
@available(*, unavailable, renamed: "SecurityPolicy", message: "A value: setSecurityPolicy(_:) gives it to a manager.")
public final class AFSecurityPolicy: Sendable {
    /// The policy that trusts the system's authorities.
    @available(*, unavailable, renamed: "SecurityPolicy.default")
    public static func defaultPolicy() -> AFSecurityPolicy { AFSecurityPolicy() }

    /// A policy that pins the certificates of the program's bundle.
    @available(*, unavailable, renamed: "SecurityPolicy.init(pinningMode:pinnedCertificates:)")
    public init(pinningMode: AFSSLPinningMode) {}

    package init() {}
}

/// What a security policy pins.
@available(*, unavailable, renamed: "SecurityPolicy.PinningMode")
public enum AFSSLPinningMode: UInt, Sendable {
    /// Nothing.
    case none
    /// The server's public key.
    case publicKey
    /// The server's certificate.
    case certificate
}

extension SecurityPolicy {
    /// The policy that trusts the system's authorities.
    @available(*, unavailable, renamed: "default")
    public static func defaultPolicy() -> SecurityPolicy { SecurityPolicy() }

    /// Whether the server is trusted.
    @available(*, unavailable, renamed: "evaluate(_:forDomain:)", message: "Its isTrusted.")
    public func evaluateServerTrust(_ trust: ServerTrust, forDomain domain: String?) -> Bool { false }

    /// The certificates of a bundle.
    @available(*, unavailable, renamed: "Certificate.certificates(inDirectory:)")
    public static func certificatesInBundle(_ folder: String) -> [Certificate] { [] }

    /// What is pinned.
    @available(*, unavailable, renamed: "pinningMode")
    public var SSLPinningMode: PinningMode { pinningMode }
}
