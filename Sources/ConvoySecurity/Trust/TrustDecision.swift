/// What a ``SecurityPolicy`` says of a ``ServerTrust``.
public struct TrustDecision: Sendable, Hashable {
    /// Why the server is not trusted; nil if it is.
    public let failure: ServerTrustFailure?
    /// The chain from the server's certificate to the authority, as far as it could be built. It is verified where the
    /// server is trusted, unless the policy pins nothing and allows invalid certificates.
    public let chain: [Certificate]
    /// Whether it is trusted only because of a backup pin: the server's key has changed, and a new backup is due.
    public let usesBackupPin: Bool

    init(failure: ServerTrustFailure? = nil, chain: [Certificate] = [], usesBackupPin: Bool = false) {
        self.failure = failure
        self.chain = chain
        self.usesBackupPin = usesBackupPin
    }

    /// Whether the request may be sent.
    public var isTrusted: Bool { failure == nil }
}
