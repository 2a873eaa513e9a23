import COpenSSL
import ConvoySupport
import Foundation

/// The certificates that a server presented in a TLS handshake, as a value that a ``SecurityPolicy`` evaluates. The
/// counterpart of `SecTrust`.
public struct ServerTrust: Sendable, Hashable {
    /// The certificates as the server sent them: its own first, then the intermediate ones.
    public let certificates: [Certificate]

    /// A server trust of these certificates, the server's own first.
    public init(certificates: [Certificate]) { self.certificates = certificates }

    /// The certificates of a handshake.
    init(chain: OpaquePointer?) {
        certificates = Certificate.certificates(inStack: chain)
    }
}

/// The result of evaluating a ``ServerTrust`` with a ``SecurityPolicy``.
public struct TrustDecision: Sendable, Hashable {
    /// Why the server is not trusted; nil if it is.
    public let failure: ServerTrustFailure?
    /// The chain from the server's certificate to the authority, as far as it could be built. It is verified where the
    /// server is trusted, unless the policy pins nothing and allows invalid certificates.
    public let chain: [Certificate]
    /// Whether the server is trusted only because of a backup pin: its key has changed, and a new backup is due.
    public let usesBackupPin: Bool

    init(failure: ServerTrustFailure? = nil, chain: [Certificate] = [], usesBackupPin: Bool = false) {
        self.failure = failure
        self.chain = chain
        self.usesBackupPin = usesBackupPin
    }

    /// Whether the request may be sent.
    public var isTrusted: Bool { failure == nil }
}

/// Why a server is not trusted.
public struct ServerTrustFailure: Error, Sendable, Hashable, SelfDescribingError {
    /// The reason of a failure.
    public enum Reason: String, Sendable, Hashable, Codable, CaseIterable {
        /// The server sent no certificate.
        case noCertificate
        /// The chain does not lead to an authority that is trusted: it is self-signed, an intermediate certificate is
        /// missing, or the authority is not trusted.
        case unknownRoot
        /// A certificate of the chain is no longer valid.
        case expired
        /// A certificate of the chain is not valid yet.
        case notYetValid
        /// The certificate does not name the host.
        case wrongHost
        /// A signature of the chain is wrong.
        case badSignature
        /// A key is too short, such as RSA with less than 2,048 bits.
        case weakKey
        /// A signature uses a broken hash, such as SHA-1.
        case weakSignature
        /// A certificate is not for this use: it is not for servers, or signs others without being an authority.
        case wrongUsage
        /// The name constraints of an authority (RFC 5280, section 4.2.1.10) exclude a name of the certificate, or the
        /// requested host, if a wildcard stands for it.
        case nameConstraints
        /// The chain is otherwise invalid.
        case invalidChain
        /// No certificate or key of the chain is pinned.
        case notPinned
        /// Not all certificates or keys of the chain are pinned (`validatesCertificateChain`).
        case chainNotPinned
        /// Invalid certificates are allowed and the host's name is to be validated, but nothing is pinned: then the name
        /// would mean nothing.
        case pinsMissing
        /// A certificate was revoked, as the server's own OCSP response or a revocation list says: see
        /// ``ServerTrustFailure/revocation``.
        case revoked
        /// A stapled OCSP response is required, and there is none, or none that is valid.
        case noValidStatus
        /// There are revocation lists, but no valid one for a certificate of the chain: its issuer's list is missing,
        /// has expired, is not valid yet, does not cover such certificates, or has a wrong signature.
        case noValidRevocationList
        /// The authorities, the pins or the revocation lists of the policy could not be loaded.
        case unusablePolicy
    }

    /// The most severe reason.
    public let reason: Reason
    /// All reasons in order of severity; `reason` is the first.
    public let reasons: [Reason]
    /// The failure in a sentence or two.
    public let description: String
    /// The certificate that caused the failure, if it was one.
    public let certificate: Certificate?
    /// When and why the certificate was revoked; nil if it was not.
    public let revocation: CertificateRevocation?

    init(
        _ reason: Reason, _ description: String, certificate: Certificate? = nil, reasons: [Reason]? = nil,
        revocation: CertificateRevocation? = nil
    ) {
        self.reason = reason
        self.reasons = reasons ?? [reason]
        self.description = description
        self.certificate = certificate
        self.revocation = revocation
    }
}

/// When a certificate was revoked, and why (RFC 5280, section 5.3.1; RFC 6960, section 4.2.1).
public struct CertificateRevocation: Sendable, Hashable, CustomStringConvertible {
    /// The reason, with the numbers of `CRLReason`.
    public enum Reason: Int, Sendable, Hashable, Codable, CaseIterable {
        /// No reason is given.
        case unspecified = 0
        /// The private key of the certificate is no longer secret.
        case keyCompromise = 1
        /// The private key of an authority is no longer secret.
        case authorityCompromise = 2
        /// The owner's name or organization has changed.
        case affiliationChanged = 3
        /// Another certificate has replaced it.
        case superseded = 4
        /// The certificate is no longer needed.
        case cessationOfOperation = 5
        /// The certificate is suspended.
        case certificateHold = 6
        /// The suspension has ended; only in delta CRLs.
        case removeFromList = 8
        /// The subject no longer has the privilege that the certificate states.
        case privilegeWithdrawn = 9
        /// The private key of an attribute authority is no longer secret.
        case attributeAuthorityCompromise = 10
    }

    /// When the certificate was revoked; nil for a date that cannot be read.
    public let date: Date?
    /// The reason; nil if none is given.
    public let reason: Reason?

    init(date: Date?, reason: Reason?) { (self.date, self.reason) = (date, reason) }

    /// The entry of a revoked certificate in a list.
    init(of certificate: OpaquePointer, in list: OpaquePointer) {
        var code = -1
        let time = convoy_crl_revocation(list, certificate, &code)
        self.init(date: Certificate.date(time), reason: Reason(rawValue: code))
    }

    /// The date and the reason: "on 2026-01-31 12:00:00 +0000 (keyCompromise)".
    public var description: String {
        let when = date.map { "on \($0)" } ?? "at an unknown time"
        return "\(when) (\(reason.map { "\($0)" } ?? "no reason given"))"
    }
}
