import Foundation

extension TestCertificate {
    /// What a certificate says. Nothing is checked: every defect can be made.
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
            /// RSA with so many bits, at least 512. 4096 bits take seconds.
            case rsa(bits: Int)
            /// Ed25519.
            case ed25519
        }

        /// The digest of a certificate's signature. An issuer with an Ed25519 key signs without one of these.
        public enum Digest: Hashable, Sendable {
            /// SHA-256.
            case sha256
            /// SHA-384.
            case sha384
            /// SHA-1, which clients refuse.
            case sha1
            /// MD5, which clients refuse. Only with an issuer whose key is RSA.
            case md5
        }

        /// The common name of the subject. Left out if it is empty.
        public var commonName = ""
        /// The organization of the subject. Left out if it is empty.
        public var organization = ""
        /// The DNS names among the subject's alternative names, written as they are: with wildcards anywhere, empty, or
        /// with bytes that no name has.
        public var dnsNames: [String] = []
        /// The IP addresses among the subject's alternative names, of version 4 or 6.
        public var ipAddresses: [String] = []
        /// More alternative names, each a GeneralName in DER.
        public var otherAlternativeNames: [Data] = []
        /// Leaves the alternative names out, as certificates did that had their host only in the common name.
        public var omitsSubjectAlternativeNames = false
        /// From when it is valid, in whole seconds. An hour ago, when the profile was made.
        public var notBefore = Date(timeIntervalSinceNow: -3600)
        /// Until when it is valid, in whole seconds. In a day, when the profile was made.
        public var notAfter = Date(timeIntervalSinceNow: 86_400)
        /// The kind of the certificate's own key.
        public var key: Key = .ec
        /// The digest of the issuer's signature.
        public var digest: Digest = .sha256
        /// The number among those of the issuer, the most significant byte first; nil for 16 bytes at random.
        public var serialNumber: [UInt8]?
        /// Whether it says that it is an authority (CA:TRUE). An issuer that says it is not one can issue all the same.
        public var isAuthority = false
        /// How many authorities may follow below this one; nil for no limit. Only written for an authority.
        public var pathLength: Int?
        /// What its key may be used for; nil leaves the extension out.
        public var keyUsages: KeyUsages? = .digitalSignature
        /// The purposes of the certificate; nil leaves the extension out.
        public var extendedKeyUsages: [ExtendedKeyUsage]?
        /// The names that certificates below this authority may have.
        public var nameConstraints: NameConstraints?
        /// Whether it demands a stapled OCSP response (RFC 7633).
        public var mustStaple = false
        /// More extensions, after all others.
        public var otherExtensions: [Extension] = []

        /// A certificate without names for a new P-256 key, valid from an hour ago for a day from now, signed with
        /// SHA-256.
        public init() {}

        /// A server of these hosts. IP addresses are recognized. The first one is the common name too.
        public static func server(_ hosts: String...) -> Self { server(hosts) }

        /// A server of these hosts. IP addresses are recognized. The first one is the common name too.
        public static func server(_ hosts: [String]) -> Self {
            var profile = Self()
            profile.commonName = hosts.first ?? ""
            profile.dnsNames = hosts.filter { AddressBytes.address($0) == nil }
            profile.ipAddresses = hosts.filter { AddressBytes.address($0) != nil }
            profile.extendedKeyUsages = [.serverAuth]
            return profile
        }

        /// A client of this name.
        public static func client(_ name: String) -> Self {
            var profile = Self()
            profile.commonName = name
            profile.extendedKeyUsages = [.clientAuth]
            return profile
        }

        /// An authority of this name.
        ///
        /// - Parameters:
        ///   - name: The common name.
        ///   - pathLength: How many authorities may follow below this one; nil for no limit.
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
