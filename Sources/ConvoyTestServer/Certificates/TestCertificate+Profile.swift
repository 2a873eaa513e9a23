import COpenSSL
import Foundation

extension TestCertificate {
    /// The contents of a certificate. Nothing is validated, so that tests can create any defect.
    ///
    /// ```swift
    /// var profile = TestCertificate.Profile.server("api.example.test", "127.0.0.1")
    /// profile.notAfter = Date(timeIntervalSinceNow: -60)  // expired a minute ago
    /// let certificate = try authority.issue(profile)
    /// ```
    public struct Profile: Hashable, Sendable {
        /// A kind of key.
        public enum Key: Hashable, Sendable {
            /// EC on the curve P-256.
            case ec
            /// EC on the curve P-384.
            case ec384
            /// RSA with the given key size in bits, at least 512. Generating a 4096-bit key takes seconds.
            case rsa(bits: Int)
            /// Ed25519.
            case ed25519
        }

        /// The digest of a certificate's signature. Ignored if the issuer's key is Ed25519.
        public enum Digest: Hashable, Sendable {
            /// SHA-256.
            case sha256
            /// SHA-384.
            case sha384
            /// SHA-1, which clients reject.
            case sha1
            /// MD5, which clients reject. Requires an issuer with an RSA key.
            case md5
        }

        /// The common name of the subject; omitted if empty.
        public var commonName = ""
        /// The organization of the subject; omitted if empty.
        public var organization = ""
        /// The DNS names among the subject's alternative names. They are encoded unchanged, so wildcards in any
        /// position, empty names and invalid bytes are possible.
        public var dnsNames: [String] = []
        /// The IP addresses among the subject's alternative names, IPv4 or IPv6.
        public var ipAddresses: [String] = []
        /// Additional alternative names, each a GeneralName in DER.
        public var otherAlternativeNames: [Data] = []
        /// Whether to omit the alternative names, as in old certificates that have their host only in the common name.
        public var omitsSubjectAlternativeNames = false
        /// The start of validity, in whole seconds; by default, an hour before the profile was created.
        public var notBefore = Date(timeIntervalSinceNow: -3600)
        /// The end of validity, in whole seconds; by default, a day after the profile was created.
        public var notAfter = Date(timeIntervalSinceNow: 86_400)
        /// The kind of the certificate's key.
        public var key: Key = .ec
        /// The digest of the issuer's signature.
        public var digest: Digest = .sha256
        /// The serial number, the most significant byte first; nil for 16 random bytes.
        public var serialNumber: [UInt8]?
        /// Whether the basic constraints contain CA:TRUE. `issue(_:forKeyOf:)` does not require this.
        public var isAuthority = false
        /// The maximum number of authorities below this certificate; nil for no limit. Ignored unless `isAuthority`.
        public var pathLength: Int?
        /// The permitted uses of the key; nil omits the extension.
        public var keyUsages: KeyUsages? = .digitalSignature
        /// The purposes of the certificate; nil omits the extension.
        public var extendedKeyUsages: [ExtendedKeyUsage]?
        /// The names that certificates below this authority may have.
        public var nameConstraints: NameConstraints?
        /// Whether the certificate requires a stapled OCSP response (RFC 7633).
        public var mustStaple = false
        /// Additional extensions, encoded after all others.
        public var otherExtensions: [Extension] = []

        /// Creates a profile without names and with a new P-256 key, valid from an hour ago until a day from now,
        /// signed with SHA-256.
        public init() {}

        /// Returns a profile for a server with the given hosts, which are names or IP addresses. The first is also the
        /// common name.
        public static func server(_ hosts: String...) -> Self { server(hosts) }

        /// Returns a profile for a server with the given hosts, which are names or IP addresses. The first is also the
        /// common name.
        package static func server(_ hosts: [String]) -> Self {
            var profile = Self()
            profile.commonName = hosts.first ?? ""
            profile.dnsNames = hosts.filter { AddressBytes.address($0) == nil }
            profile.ipAddresses = hosts.filter { AddressBytes.address($0) != nil }
            profile.extendedKeyUsages = [.serverAuth]
            return profile
        }

        /// Returns a profile for a client with this common name.
        public static func client(_ name: String) -> Self {
            var profile = Self()
            profile.commonName = name
            profile.extendedKeyUsages = [.clientAuth]
            return profile
        }

        /// Returns a profile for an authority.
        ///
        /// - Parameters:
        ///   - name: The common name.
        ///   - pathLength: The maximum number of authorities below this one; nil for no limit.
        public static func authority(_ name: String, pathLength: Int? = nil) -> Self {
            var profile = Self()
            profile.commonName = name
            profile.isAuthority = true
            profile.pathLength = pathLength
            profile.keyUsages = [.certificateSigning, .revocationListSigning]
            return profile
        }
    }
}

extension TestCertificate {
    /// The permitted uses of a key (RFC 5280 section 4.2.1.3).
    public struct KeyUsages: OptionSet, Hashable, Sendable {
        /// The usages as bits; bit 0 is the extension's first bit.
        public let rawValue: UInt16

        /// Creates usages from bits.
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        /// Signatures other than those of certificates. TLS requires this usage, except for the RSA key exchange.
        public static let digitalSignature = Self(rawValue: 1 << 0)
        /// Non-repudiable signatures.
        public static let nonRepudiation = Self(rawValue: 1 << 1)
        /// Encryption of keys, as in the RSA key exchange of TLS 1.2 and below.
        public static let keyEncipherment = Self(rawValue: 1 << 2)
        /// Encryption of data.
        public static let dataEncipherment = Self(rawValue: 1 << 3)
        /// Key agreement, for example with ECDH.
        public static let keyAgreement = Self(rawValue: 1 << 4)
        /// Signatures of certificates, required for authorities.
        public static let certificateSigning = Self(rawValue: 1 << 5)
        /// Signatures of revocation lists.
        public static let revocationListSigning = Self(rawValue: 1 << 6)
        /// Key agreement for encryption only.
        public static let encipherOnly = Self(rawValue: 1 << 7)
        /// Key agreement for decryption only.
        public static let decipherOnly = Self(rawValue: 1 << 8)
    }

    /// A purpose of a certificate (RFC 5280 section 4.2.1.12).
    public enum ExtendedKeyUsage: Hashable, Sendable {
        /// The authentication of a TLS server.
        case serverAuth
        /// The authentication of a TLS client.
        case clientAuth
        /// Signatures of code, for example of installers.
        case codeSigning
        /// Signatures and encryption of email (S/MIME).
        case emailProtection
        /// Signatures of time stamps (RFC 3161).
        case timeStamping
        /// The signing of OCSP responses on behalf of an authority.
        case ocspSigning
        /// Any purpose.
        case any
        /// A different purpose, specified by its object identifier in dotted digits.
        case other(String)

        var objectIdentifier: String {
            switch self {
            case .serverAuth: "1.3.6.1.5.5.7.3.1"
            case .clientAuth: "1.3.6.1.5.5.7.3.2"
            case .codeSigning: "1.3.6.1.5.5.7.3.3"
            case .emailProtection: "1.3.6.1.5.5.7.3.4"
            case .timeStamping: "1.3.6.1.5.5.7.3.8"
            case .ocspSigning: "1.3.6.1.5.5.7.3.9"
            case .any: "2.5.29.37.0"
            case .other(let text): text
            }
        }
    }
}

extension TestCertificate {
    /// The names that certificates below an authority may have (RFC 5280 section 4.2.1.10).
    public struct NameConstraints: Hashable, Sendable {
        /// The permitted DNS names, each including its subdomains. If not empty, no other DNS name is permitted.
        public var permittedDNSNames: [String]
        /// The excluded DNS names, each including its subdomains.
        public var excludedDNSNames: [String]
        /// The permitted networks, such as "10.0.0.0/8" or "fd00::/8". If not empty, no other address is permitted.
        public var permittedNetworks: [String]
        /// The excluded networks, such as "192.0.2.0/24".
        public var excludedNetworks: [String]

        /// Creates constraints with the given names and networks.
        public init(
            permittedDNSNames: [String] = [], excludedDNSNames: [String] = [], permittedNetworks: [String] = [],
            excludedNetworks: [String] = []
        ) {
            self.permittedDNSNames = permittedDNSNames
            self.excludedDNSNames = excludedDNSNames
            self.permittedNetworks = permittedNetworks
            self.excludedNetworks = excludedNetworks
        }
    }

    /// An extension of any kind, such as a critical one that no client supports.
    public struct Extension: Hashable, Sendable {
        /// The object identifier in dotted digits.
        public var objectIdentifier: String
        /// Whether clients that do not support the extension must reject the certificate.
        public var isCritical: Bool
        /// The value in DER, without the octet string around it.
        public var value: Data

        /// Creates an extension from its encoded value.
        public init(objectIdentifier: String, isCritical: Bool = false, value: Data) {
            self.objectIdentifier = objectIdentifier
            self.isCritical = isCritical
            self.value = value
        }
    }
}

extension TestCertificate {
    /// The status of a certificate in an OCSP response.
    public enum RevocationStatus: Hashable, Sendable {
        /// The certificate is not revoked.
        case good
        /// The certificate was revoked an hour before the response.
        case revoked
        /// The status of the certificate is unknown to the responder.
        case unknown
    }

    /// Returns an OCSP response about this certificate (RFC 6960) in DER, as stapled by servers.
    ///
    /// - Parameters:
    ///   - status: The status of the certificate.
    ///   - thisUpdate: The time at which the status was known to be correct; by default, an hour ago.
    ///   - nextUpdate: The time at which newer information will be available; by default, a day from now. nil omits it.
    ///   - signer: The certificate whose key signs the response, and which is included in the response; nil to sign
    ///     with the issuer's key.
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

    /// Returns a certificate revocation list of this authority (RFC 5280, section 5) in DER.
    ///
    /// - Parameters:
    ///   - revoked: The revoked certificates. Their issuers are not checked.
    ///   - reason: The code of the `CRLReason`; nil omits the reason.
    ///   - revocationDate: The time of the revocation, in whole seconds; by default, two hours ago.
    ///   - thisUpdate: The time at which the list was issued; by default, an hour ago.
    ///   - nextUpdate: The time at which newer information will be available; by default, a day from now. nil omits it.
    ///   - signer: The certificate whose key signs the list; nil for this certificate.
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
