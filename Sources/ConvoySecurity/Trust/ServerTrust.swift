import COpenSSL
import ConvoySupport
import Foundation

/// The certificates that a server presented in a TLS handshake, as a value that a ``SecurityPolicy`` evaluates. The
/// counterpart of `SecTrust`.
public struct ServerTrust: Sendable, Hashable {
    /// The certificates as the server sent them: its own certificate, followed by the intermediate ones.
    public let certificates: [Certificate]

    /// Creates a server trust from the given certificates, starting with the server's own.
    public init(certificates: [Certificate]) { self.certificates = certificates }

    /// Creates a server trust from the certificates of a handshake.
    init(chain: OpaquePointer?) {
        certificates = Certificate.certificates(inStack: chain)
    }
}

/// The result of evaluating a ``ServerTrust`` with a ``SecurityPolicy``.
public struct TrustDecision: Sendable, Hashable {
    /// The reason the server is not trusted; nil if it is.
    public let failure: ServerTrustFailure?
    /// The chain from the server's certificate to the authority, as far as it could be built. For a trusted server it
    /// is verified, unless the policy has no pins and allows invalid certificates.
    public let chain: [Certificate]
    /// Whether the server is trusted only because of a backup pin. If true, the server's key has changed, and a new
    /// backup pin is needed.
    public let usesBackupPin: Bool

    init(failure: ServerTrustFailure? = nil, chain: [Certificate] = [], usesBackupPin: Bool = false) {
        self.failure = failure
        self.chain = chain
        self.usesBackupPin = usesBackupPin
    }

    /// Whether the request may be sent.
    public var isTrusted: Bool { failure == nil }
}

/// The reason a server is not trusted.
public struct ServerTrustFailure: Error, Sendable, Hashable, SelfDescribingError {
    /// The reason for a failure.
    public enum Reason: String, Sendable, Hashable, Codable, CaseIterable {
        /// The server sent no certificate.
        case noCertificate
        /// The chain does not end at a trusted authority: the certificate is self-signed, an intermediate certificate
        /// is missing, or the authority is not trusted.
        case unknownRoot
        /// A certificate in the chain has expired.
        case expired
        /// A certificate in the chain is not yet valid.
        case notYetValid
        /// The certificate does not name the host.
        case wrongHost
        /// A signature in the chain is invalid.
        case badSignature
        /// A key is too short, for example RSA with fewer than 2,048 bits.
        case weakKey
        /// A signature uses a broken hash, for example SHA-1.
        case weakSignature
        /// A certificate is not valid for this use: it is not for servers, or it signs others without being an
        /// authority.
        case wrongUsage
        /// The name constraints of an authority (RFC 5280, section 4.2.1.10) exclude a name in the certificate, or the
        /// requested host if it matches a wildcard.
        case nameConstraints
        /// The chain is invalid for another reason.
        case invalidChain
        /// No certificate or key in the chain is pinned.
        case notPinned
        /// Not all certificates or keys in the chain are pinned (`validatesCertificateChain`).
        case chainNotPinned
        /// Invalid certificates are allowed and the host name must be validated, but nothing is pinned. The name in an
        /// unverified certificate does not identify the server.
        case pinsMissing
        /// A certificate was revoked, according to the server's own OCSP response or a revocation list: see
        /// ``ServerTrustFailure/revocation``.
        case revoked
        /// A stapled OCSP response is required, but it is missing or invalid.
        case noValidStatus
        /// Revocation lists are configured, but a certificate in the chain has no valid list: its issuer's list is
        /// missing, has expired, is not yet valid, does not cover such certificates, or has an invalid signature.
        case noValidRevocationList
        /// The authorities, pins or revocation lists of the policy cannot be loaded.
        case unusablePolicy
    }

    /// The most severe reason.
    public let reason: Reason
    /// All reasons, in order of severity. `reason` is the first.
    public let reasons: [Reason]
    /// One or two sentences that describe the failure.
    public let description: String
    /// The certificate that caused the failure, if any.
    public let certificate: Certificate?
    /// The time and reason of the revocation; nil if the certificate was not revoked.
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

/// The time and the reason of a revocation (RFC 5280, section 5.3.1; RFC 6960, section 4.2.1).
public struct CertificateRevocation: Sendable, Hashable, CustomStringConvertible {
    /// The reason for a revocation, with the numbers of `CRLReason`.
    public enum Reason: Int, Sendable, Hashable, Codable, CaseIterable {
        /// No reason was specified.
        case unspecified = 0
        /// The private key of the certificate is no longer secret.
        case keyCompromise = 1
        /// The private key of an authority is no longer secret.
        case authorityCompromise = 2
        /// The owner's name or organization has changed.
        case affiliationChanged = 3
        /// The certificate has been replaced by another.
        case superseded = 4
        /// The certificate is no longer needed.
        case cessationOfOperation = 5
        /// The certificate is suspended.
        case certificateHold = 6
        /// The suspension has ended. Used only in delta CRLs.
        case removeFromList = 8
        /// The subject no longer has the privilege stated in the certificate.
        case privilegeWithdrawn = 9
        /// The private key of an attribute authority is no longer secret.
        case attributeAuthorityCompromise = 10
    }

    /// The time of the revocation; nil if the date cannot be read.
    public let date: Date?
    /// The reason; nil if none was specified.
    public let reason: Reason?

    init(date: Date?, reason: Reason?) {
        self.date = date
        self.reason = reason
    }

    /// Creates a revocation from the entry of a certificate in a list.
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
