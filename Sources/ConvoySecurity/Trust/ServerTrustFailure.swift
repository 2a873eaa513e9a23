import Foundation

/// Why a server is not trusted.
public struct ServerTrustFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// What is wrong.
    public enum Reason: String, Sendable, Hashable, Codable, CaseIterable {
        /// The server sent no certificate.
        case noCertificate
        /// The chain does not lead to an authority that is trusted: it is self-signed, a certificate between is missing,
        /// or the authority is another.
        case unknownRoot
        /// A certificate of the chain is no longer valid.
        case expired
        /// A certificate of the chain is not valid yet.
        case notYetValid
        /// The certificate does not name the host.
        case wrongHost
        /// A signature of the chain is wrong.
        case badSignature
        /// A key is too short (RSA with less than 2,048 bits, for instance).
        case weakKey
        /// A signature was made with a hash that is broken, such as SHA-1.
        case weakSignature
        /// A certificate is not for this use: it is not for servers, or signs others without being an authority.
        case wrongUsage
        /// An authority may not issue certificates for a name of the certificate, or for the host that is asked for, which
        /// a wildcard can name besides (RFC 5280, section 4.2.1.10).
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
        /// There are revocation lists, and for a certificate of the chain none of its issuer that is valid: it is missing, has
        /// expired, is not valid yet, is not for such certificates, or its signature is wrong.
        case noValidRevocationList
        /// The authorities, the pins or the revocation lists of the policy could not be loaded.
        case unusablePolicy
    }

    /// What is wrong first of all.
    public let reason: Reason
    /// All that is wrong with the chain; `reason` is the first.
    public let reasons: [Reason]
    /// In a sentence or two.
    public let description: String
    /// The certificate that is at fault, if it is one of them.
    public let certificate: Certificate?
    /// When the certificate was revoked, and why; nil if it was not.
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

extension ServerTrustFailure: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}
