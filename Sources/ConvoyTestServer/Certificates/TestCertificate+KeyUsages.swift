extension TestCertificate {
    /// What a key may be used for (RFC 5280 section 4.2.1.3).
    public struct KeyUsages: OptionSet, Hashable, Sendable {
        /// The usages as bits; bit 0 is the first of the extension.
        public let rawValue: UInt16

        /// Usages by their bits.
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        /// Signatures other than those of certificates: what TLS needs, except for RSA without a key exchange.
        public static let digitalSignature = Self(rawValue: 1 << 0)
        /// Signatures that cannot be denied.
        public static let nonRepudiation = Self(rawValue: 1 << 1)
        /// Encryption of keys: RSA without a key exchange, in TLS 1.2 and below.
        public static let keyEncipherment = Self(rawValue: 1 << 2)
        /// Encryption of data.
        public static let dataEncipherment = Self(rawValue: 1 << 3)
        /// A key agreement.
        public static let keyAgreement = Self(rawValue: 1 << 4)
        /// Signatures of certificates: what an authority needs.
        public static let certificateSigning = Self(rawValue: 1 << 5)
        /// Signatures of revocation lists.
        public static let revocationListSigning = Self(rawValue: 1 << 6)
        /// A key agreement only for encryption.
        public static let encipherOnly = Self(rawValue: 1 << 7)
        /// A key agreement only for decryption.
        public static let decipherOnly = Self(rawValue: 1 << 8)
    }

    /// A purpose of a certificate (RFC 5280 section 4.2.1.12).
    public enum ExtendedKeyUsage: Hashable, Sendable {
        /// A TLS server.
        case serverAuth
        /// A TLS client.
        case clientAuth
        /// Signatures of programs.
        case codeSigning
        /// Mail.
        case emailProtection
        /// Time stamps.
        case timeStamping
        /// OCSP responses in an authority's name.
        case ocspSigning
        /// Any purpose.
        case any
        /// Another one, as an object identifier in dotted digits.
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
