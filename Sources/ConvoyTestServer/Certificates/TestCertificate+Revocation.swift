import COpenSSL
import Foundation

extension TestCertificate {
    /// The status that an OCSP response gives a certificate.
    public enum RevocationStatus: Hashable, Sendable {
        /// It is not revoked.
        case good
        /// It was revoked, an hour before the response.
        case revoked
        /// The responder does not know it.
        case unknown
    }

    /// An OCSP response about this certificate (RFC 6960) in DER, as a server staples it.
    ///
    /// - Parameters:
    ///   - status: The status of the certificate.
    ///   - thisUpdate: When the status was known to be correct; by default an hour ago.
    ///   - nextUpdate: When newer information will be available; nil omits it. By default in a day.
    ///   - signer: The certificate whose key signs the response, which then contains it; nil for the issuer.
    /// - Throws: `TestCertificateError.openSSL`.
    public func ocspResponse(
        status: RevocationStatus = .good, thisUpdate: Date = Date(timeIntervalSinceNow: -3600),
        nextUpdate: Date? = Date(timeIntervalSinceNow: 86_400), signedBy signer: TestCertificate? = nil
    ) throws(TestCertificateError) -> Data {
        let issuer = issuer ?? self
        let signer = signer ?? issuer
        let basic = try Self.identifier("1.3.6.1.5.5.7.48.1.1")
        let sha1 = DER.sequence(try Self.identifier("1.3.14.3.2.26"), DER.null)
        let name = DER.sequence(
            sha1, DER.octetString(OpenSSLCalls.digest(EVP_sha1(), issuer.subject)),
            DER.octetString(issuer.key.identifier), DER.integer(serialNumber))
        let answer: [UInt8] =
            switch status {
            case .good: DER.tagged(0, isConstructed: false, [])
            case .revoked: DER.tagged(1, DER.generalizedTime(thisUpdate.addingTimeInterval(-3600)))
            case .unknown: DER.tagged(2, isConstructed: false, [])
            }
        let single = DER.sequence(
            name, answer, DER.generalizedTime(thisUpdate),
            nextUpdate.map { DER.tagged(0, DER.generalizedTime($0)) } ?? [])
        let content = DER.sequence(
            DER.tagged(2, DER.octetString(signer.key.identifier)), DER.generalizedTime(thisUpdate),
            DER.sequence(single))
        let certificates =
            signer === issuer ? [] : DER.tagged(0, DER.sequence(of: signer.chain.map { Array($0.derData) }))
        let response = try signer.key.signed(content, .sha256, more: certificates)
        let isSuccessful: [UInt8] = [0x0A, 0x01, 0x00]
        return Data(
            DER.sequence(isSuccessful, DER.tagged(0, DER.sequence(basic, DER.octetString(response)))))
    }

    /// A list of certificates that this authority has revoked (RFC 5280, section 5) in DER.
    ///
    /// - Parameters:
    ///   - revoked: The certificates. Their issuers are not checked.
    ///   - reason: The number of a `CRLReason`; nil omits the reason.
    ///   - revocationDate: When they were revoked, in whole seconds; by default two hours ago.
    ///   - thisUpdate: When the list was issued; by default an hour ago.
    ///   - nextUpdate: When newer information will be available; nil omits it. By default in a day.
    ///   - signer: The certificate whose key signs it in place of this one's.
    ///   - extensions: Additional extensions of the list.
    /// - Throws: `TestCertificateError`.
    public func revocationList(
        revoking revoked: [TestCertificate] = [], reason: UInt8? = nil,
        revocationDate: Date = Date(timeIntervalSinceNow: -7200), thisUpdate: Date = Date(timeIntervalSinceNow: -3600),
        nextUpdate: Date? = Date(timeIntervalSinceNow: 86_400), signedBy signer: TestCertificate? = nil,
        extensions: [Extension] = []
    ) throws(TestCertificateError) -> Data {
        let key = (signer ?? self).key
        var entries: [[UInt8]] = []
        for certificate in revoked {
            var more: [UInt8] = []
            if let reason {
                let code = DER.octetString(DER.element(0x0A, [reason]))
                more = DER.sequence(DER.sequence(try Self.identifier("2.5.29.21"), code))
            }
            entries.append(
                DER.sequence(DER.integer(certificate.serialNumber), DER.time(revocationDate), more))
        }
        let issuer = DER.sequence(DER.tagged(0, isConstructed: false, self.key.identifier))
        var more = [
            DER.sequence(try Self.identifier("2.5.29.35"), DER.octetString(issuer)),
            DER.sequence(try Self.identifier("2.5.29.20"), DER.octetString(DER.integer(1))),
        ]
        for other in extensions {
            more.append(
                DER.sequence(
                    try Self.identifier(other.objectIdentifier), other.isCritical ? DER.isTrue : [],
                    DER.octetString(Array(other.value))))
        }
        let content = DER.sequence(
            DER.integer(1), try key.signatureAlgorithm(.sha256), subject, DER.time(thisUpdate),
            nextUpdate.map { DER.time($0) } ?? [], entries.isEmpty ? [] : DER.sequence(of: entries),
            DER.tagged(0, DER.sequence(of: more)))
        return Data(try key.signed(content, .sha256))
    }

    private static func identifier(_ text: String) throws(TestCertificateError) -> [UInt8] {
        guard let bytes = DER.objectIdentifier(text) else { throw .invalidObjectIdentifier(text) }
        return bytes
    }
}
