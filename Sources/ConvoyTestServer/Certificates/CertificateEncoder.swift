import Foundation

/// Writes the part of a certificate that is signed (RFC 5280 section 4.1).
struct CertificateEncoder {
    let profile: TestCertificate.Profile
    let key: CertificateKey
    let serialNumber: [UInt8]
    /// The name of the subject, in DER.
    let subject: [UInt8]

    init(_ profile: TestCertificate.Profile, _ key: CertificateKey) throws(TestCertificateError) {
        self.profile = profile
        self.key = key
        // The first bit is clear, so that the number has no more bytes than these.
        serialNumber =
            profile.serialNumber ?? [UInt8.random(in: 1...127)] + (1..<16).map { _ in UInt8.random(in: 0...255) }
        var names: [[UInt8]] = []
        for (kind, text) in [("2.5.4.10", profile.organization), ("2.5.4.3", profile.commonName)] where !text.isEmpty {
            names.append(DER.set(DER.sequence(try Self.identifier(kind), DER.utf8String(text))))
        }
        subject = DER.sequence(of: names)
    }

    /// The part to be signed.
    func content(issuer: [UInt8], issuerKey: CertificateKey) throws(TestCertificateError) -> [UInt8] {
        DER.sequence(
            DER.tagged(0, DER.integer(2)), DER.integer(serialNumber),
            try issuerKey.signatureAlgorithm(profile.digest), issuer,
            DER.sequence(DER.time(profile.notBefore), DER.time(profile.notAfter)), subject, key.publicKeyInfo,
            DER.tagged(3, DER.sequence(of: try extensions(issuerKey))))
    }

    private func extensions(_ issuerKey: CertificateKey) throws(TestCertificateError) -> [[UInt8]] {
        var list = [
            try Self.extension("2.5.29.14", DER.octetString(key.identifier)),
            try Self.extension(
                "2.5.29.35", DER.sequence(DER.tagged(0, isConstructed: false, issuerKey.identifier))),
            try Self.extension("2.5.29.19", isCritical: true, basicConstraints),
        ]
        if let usages = profile.keyUsages {
            list.append(try Self.extension("2.5.29.15", isCritical: true, DER.bitString(flags: usages.rawValue)))
        }
        if let purposes = profile.extendedKeyUsages {
            var identifiers: [[UInt8]] = []
            for purpose in purposes { identifiers.append(try Self.identifier(purpose.objectIdentifier)) }
            list.append(try Self.extension("2.5.29.37", DER.sequence(of: identifiers)))
        }
        let names = try alternativeNames()
        if !names.isEmpty {
            // RFC 5280 section 4.2.1.6: critical if there is no other name.
            list.append(
                try Self.extension(
                    "2.5.29.17", isCritical: subject == DER.sequence(of: []), DER.sequence(of: names)))
        }
        if let constraints = profile.nameConstraints {
            list.append(try Self.extension("2.5.29.30", isCritical: true, try Self.encoded(constraints)))
        }
        // The feature is the extension of the ClientHello with the number 5, status_request.
        if profile.mustStaple { list.append(try Self.extension("1.3.6.1.5.5.7.1.24", DER.sequence(DER.integer(5)))) }
        for other in profile.otherExtensions {
            list.append(
                try Self.extension(other.objectIdentifier, isCritical: other.isCritical, Array(other.value)))
        }
        return list
    }

    private var basicConstraints: [UInt8] {
        guard profile.isAuthority else { return DER.sequence(of: []) }
        return DER.sequence(DER.isTrue, profile.pathLength.map { DER.integer($0) } ?? [])
    }

    private func alternativeNames() throws(TestCertificateError) -> [[UInt8]] {
        guard !profile.omitsSubjectAlternativeNames else { return [] }
        var names = profile.dnsNames.map { DER.tagged(2, isConstructed: false, Array($0.utf8)) }
        for text in profile.ipAddresses {
            guard let bytes = AddressBytes.address(text) else { throw .invalidAddress(text) }
            names.append(DER.tagged(7, isConstructed: false, bytes))
        }
        return names + profile.otherAlternativeNames.map { Array($0) }
    }

    private static func encoded(
        _ constraints: TestCertificate.NameConstraints
    ) throws(TestCertificateError) -> [UInt8] {
        let permitted = try subtrees(constraints.permittedDNSNames, constraints.permittedNetworks)
        let excluded = try subtrees(constraints.excludedDNSNames, constraints.excludedNetworks)
        return DER.sequence(
            permitted.isEmpty ? [] : DER.tagged(0, permitted), excluded.isEmpty ? [] : DER.tagged(1, excluded))
    }

    private static func subtrees(_ names: [String], _ networks: [String]) throws(TestCertificateError) -> [UInt8] {
        var list = names.map { DER.sequence(DER.tagged(2, isConstructed: false, Array($0.utf8))) }
        for text in networks {
            guard let bytes = AddressBytes.network(text) else { throw .invalidAddress(text) }
            list.append(DER.sequence(DER.tagged(7, isConstructed: false, bytes)))
        }
        return list.flatMap { $0 }
    }

    private static func `extension`(
        _ kind: String, isCritical: Bool = false, _ value: [UInt8]
    ) throws(TestCertificateError) -> [UInt8] {
        DER.sequence(try identifier(kind), isCritical ? DER.isTrue : [], DER.octetString(value))
    }

    private static func identifier(_ text: String) throws(TestCertificateError) -> [UInt8] {
        guard let bytes = DER.objectIdentifier(text) else { throw .invalidObjectIdentifier(text) }
        return bytes
    }
}
