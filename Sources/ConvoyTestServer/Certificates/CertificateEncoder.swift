import Foundation

/// An encoder of the signed part of a certificate (RFC 5280 section 4.1).
struct CertificateEncoder {
    let profile: TestCertificate.Profile
    let key: CertificateKey
    let serialNumber: [UInt8]
    /// The name of the subject, in DER.
    let subject: [UInt8]

    init(_ profile: TestCertificate.Profile, _ key: CertificateKey) throws(TestCertificateError) {
        self.profile = profile
        self.key = key
        // With the top bit clear, the DER integer needs no extra leading byte.
        serialNumber =
            profile.serialNumber ?? [UInt8.random(in: 1...127)] + (1..<16).map { _ in UInt8.random(in: 0...255) }
        var names: [[UInt8]] = []
        for (kind, text) in [("2.5.4.10", profile.organization), ("2.5.4.3", profile.commonName)] where !text.isEmpty {
            names.append(DER.set(DER.sequence(try Self.identifier(kind), DER.utf8String(text))))
        }
        subject = DER.sequence(of: names)
    }

    /// Returns the signed part of the certificate in DER.
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
            // The extension is critical if the subject is empty (RFC 5280 section 4.2.1.6).
            list.append(
                try Self.extension(
                    "2.5.29.17", isCritical: subject == DER.sequence(of: []), DER.sequence(of: names)))
        }
        if let constraints = profile.nameConstraints {
            list.append(try Self.extension("2.5.29.30", isCritical: true, try Self.encoded(constraints)))
        }
        // Feature 5 is the TLS extension status_request.
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

/// An encoder of the parts of a certificate with ASN.1's distinguished encoding rules (X.690).
///
/// Certificates are assembled here instead of by OpenSSL, whose functions reject some of the defects that tests need.
enum DER {
    /// Returns a DER element: the tag, the length and the content.
    static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        if content.count < 0x80 { return [tag, UInt8(content.count)] + content }
        let length = bigEndian(content.count)
        return [tag, 0x80 | UInt8(length.count)] + length + content
    }

    static func sequence(_ parts: [UInt8]...) -> [UInt8] { element(0x30, parts.flatMap { $0 }) }

    static func sequence(of parts: [[UInt8]]) -> [UInt8] { element(0x30, parts.flatMap { $0 }) }

    static func set(_ part: [UInt8]) -> [UInt8] { element(0x31, part) }

    /// Returns an element with a context-specific tag. By default, the tag is added around `content` (explicit
    /// tagging); if `isConstructed` is false, it replaces the tag of `content` (implicit tagging).
    static func tagged(_ number: UInt8, isConstructed: Bool = true, _ content: [UInt8]) -> [UInt8] {
        element((isConstructed ? 0xA0 : 0x80) | number, content)
    }

    static func integer(_ value: Int) -> [UInt8] { integer(bigEndian(max(0, value))) }

    /// Returns a non-negative INTEGER for a magnitude with the most significant byte first.
    static func integer(_ magnitude: [UInt8]) -> [UInt8] {
        var bytes = Array(magnitude.drop { $0 == 0 })
        if (bytes.first ?? 0x80) >= 0x80 { bytes.insert(0, at: 0) }
        return element(0x02, bytes)
    }

    static let isTrue: [UInt8] = [0x01, 0x01, 0xFF]
    static let null: [UInt8] = [0x05, 0x00]

    static func octetString(_ bytes: [UInt8]) -> [UInt8] { element(0x04, bytes) }

    static func utf8String(_ text: String) -> [UInt8] { element(0x0C, Array(text.utf8)) }

    static func bitString(_ bytes: [UInt8]) -> [UInt8] { element(0x03, [0] + bytes) }

    /// Returns a named-bit BIT STRING: bit 0 comes first, and trailing zeros are omitted.
    static func bitString(flags: UInt16) -> [UInt8] {
        guard flags != 0 else { return element(0x03, [0]) }
        let count = UInt16.bitWidth - flags.leadingZeroBitCount
        var bytes = [UInt8](repeating: 0, count: (count + 7) / 8)
        for bit in 0..<count where flags & (1 << UInt16(bit)) != 0 { bytes[bit / 8] |= 0x80 >> UInt8(bit % 8) }
        return element(0x03, [UInt8(bytes.count * 8 - count)] + bytes)
    }

    /// Returns an object identifier, given in dotted decimal notation; nil if it is invalid.
    static func objectIdentifier(_ text: String) -> [UInt8]? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map { UInt32($0) }
        guard parts.count >= 2, let first = parts[0], let second = parts[1], first <= 2,
            second < (first == 2 ? 1 << 24 : 40)
        else { return nil }
        var content = base128(first * 40 + second)
        for part in parts.dropFirst(2) {
            guard let part else { return nil }
            content += base128(part)
        }
        return element(0x06, content)
    }

    /// Returns a time in whole seconds, as required by RFC 5280 section 4.1.2.5: UTCTime until 2049, GeneralizedTime
    /// from 2050.
    static func time(_ date: Date) -> [UInt8] {
        let text = digits(date)
        guard let year = Int(text.prefix(4)), (1950..<2050).contains(year) else { return generalizedTime(date) }
        return element(0x17, Array(text.dropFirst(2).utf8))
    }

    /// Returns a GeneralizedTime in whole seconds.
    static func generalizedTime(_ date: Date) -> [UInt8] { element(0x18, Array(digits(date).utf8)) }

    /// Returns the subjectPublicKey of a SubjectPublicKeyInfo, without the count of unused bits; nil if `info` is
    /// invalid.
    static func keyBytes(inPublicKeyInfo info: [UInt8]) -> [UInt8]? {
        guard let outer = content(of: 0x30, in: info[...]), let algorithm = content(of: 0x30, in: outer),
            let bits = content(of: 0x03, in: outer[algorithm.endIndex...])
        else { return nil }
        return Array(bits.dropFirst())
    }

    private static func content(of tag: UInt8, in bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        guard bytes.count >= 2, bytes.first == tag else { return nil }
        var start = bytes.startIndex + 2
        var count = Int(bytes[start - 1])
        if count >= 0x80 {
            let size = count & 0x7F
            guard size <= 4, bytes.endIndex - start >= size else { return nil }
            count = bytes[start..<(start + size)].reduce(0) { $0 << 8 | Int($1) }
            start += size
        }
        guard count <= bytes.endIndex - start else { return nil }
        return bytes[start..<(start + count)]
    }

    /// Returns the time as "YYYYMMDDHHMMSSZ". Times outside the years 0 to 9999 are clamped.
    private static func digits(_ date: Date) -> String {
        var time = time_t(min(max(date.timeIntervalSince1970.rounded(.down), -62_167_219_200), 253_402_300_799))
        var fields = tm()
        gmtime_r(&time, &fields)
        let parts = [fields.tm_mon + 1, fields.tm_mday, fields.tm_hour, fields.tm_min, fields.tm_sec]
        let year = String(fields.tm_year + 1900)
        return String(repeating: "0", count: max(0, 4 - year.count)) + year
            + parts.map { $0 < 10 ? "0\($0)" : "\($0)" }.joined() + "Z"
    }

    private static func bigEndian(_ value: Int) -> [UInt8] {
        let bytes = withUnsafeBytes(of: value.bigEndian) { Array($0.drop { $0 == 0 }) }
        return bytes.isEmpty ? [0] : bytes
    }

    private static func base128(_ value: UInt32) -> [UInt8] {
        var bytes = [UInt8(value & 0x7F)]
        var rest = value >> 7
        while rest > 0 {
            bytes.insert(UInt8(rest & 0x7F) | 0x80, at: 0)
            rest >>= 7
        }
        return bytes
    }
}

/// An encoder of IP addresses and networks for certificates.
enum AddressBytes {
    /// Returns the 4 or 16 bytes of an address; nil if it is invalid.
    static func address(_ text: String) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, text, &bytes) == 1 { return Array(bytes[..<4]) }
        return inet_pton(AF_INET6, text, &bytes) == 1 ? bytes : nil
    }

    /// Returns the 8 or 32 bytes of a network such as "10.0.0.0/8", an address and a mask; nil if it is invalid.
    static func network(_ text: String) -> [UInt8]? {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let address = address(String(parts[0])), let count = Int(parts[1]),
            (0...(address.count * 8)).contains(count)
        else { return nil }
        let mask = address.indices.map { index in
            UInt8(truncatingIfNeeded: 0xFF00 >> min(8, max(0, count - index * 8)))
        }
        return address + mask
    }
}
