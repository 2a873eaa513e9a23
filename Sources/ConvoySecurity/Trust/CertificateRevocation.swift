import COpenSSL
import Foundation

/// When a certificate was revoked, and why (RFC 5280, section 5.3.1; RFC 6960, section 4.2.1).
public struct CertificateRevocation: Sendable, Hashable, CustomStringConvertible {
    /// Why, with the numbers of a `CRLReason`.
    public enum Reason: Int, Sendable, Hashable, Codable, CaseIterable {
        /// No reason is given.
        case unspecified = 0
        /// The private key of the certificate is no longer secret.
        case keyCompromise = 1
        /// The private key of an authority is no longer secret.
        case authorityCompromise = 2
        /// The owner's name or organization has changed.
        case affiliationChanged = 3
        /// Another certificate is in its place.
        case superseded = 4
        /// It is no longer needed.
        case cessationOfOperation = 5
        /// It is suspended.
        case certificateHold = 6
        /// It is suspended no more: for lists of changes.
        case removeFromList = 8
        /// What it was to attest is no longer so.
        case privilegeWithdrawn = 9
        /// The private key of an authority for attributes is no longer secret.
        case attributeAuthorityCompromise = 10
    }

    /// Since when it counts as revoked; nil for a date that cannot be read.
    public let date: Date?
    /// Why; nil if that is not said.
    public let reason: Reason?

    init(date: Date?, reason: Reason?) { (self.date, self.reason) = (date, reason) }

    /// What a list says of a certificate that it revokes.
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
