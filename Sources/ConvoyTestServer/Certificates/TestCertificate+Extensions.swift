import Foundation

extension TestCertificate {
    /// The names that certificates below an authority may have (RFC 5280 section 4.2.1.10).
    public struct NameConstraints: Hashable, Sendable {
        /// DNS names that are allowed, with all names below them. If there is one, no others are.
        public var permittedDNSNames: [String]
        /// DNS names that are not allowed, with all names below them.
        public var excludedDNSNames: [String]
        /// Networks that are allowed, such as "10.0.0.0/8" or "fd00::/8". If there is one, no others are.
        public var permittedNetworks: [String]
        /// Networks that are not allowed.
        public var excludedNetworks: [String]

        /// These names and networks.
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

    /// An extension of any kind, such as a critical one that no client knows.
    public struct Extension: Hashable, Sendable {
        /// The object identifier in dotted digits.
        public var objectIdentifier: String
        /// Whether a client that does not know it must refuse the certificate.
        public var isCritical: Bool
        /// The value in DER, without the octet string around it.
        public var value: Data

        /// An extension.
        public init(objectIdentifier: String, isCritical: Bool = false, value: Data) {
            self.objectIdentifier = objectIdentifier
            self.isCritical = isCritical
            self.value = value
        }
    }
}
