import Foundation

extension TestServer {
    /// How a server speaks TLS. Nothing in it has to be right: weak keys, expired certificates and chains in the wrong
    /// order are served as they are.
    public struct TLS: Sendable {
        /// A version of TLS.
        public enum Version: Int, CaseIterable, Comparable, Sendable {
            /// TLS 1.0, which clients refuse.
            case tls10
            /// TLS 1.1, which clients refuse.
            case tls11
            /// TLS 1.2.
            case tls12
            /// TLS 1.3.
            case tls13

            /// Older versions come first.
            public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
        }

        /// Whether clients have to present a certificate.
        public enum ClientCertificates: Hashable, Sendable {
            /// They are not asked for one.
            case none
            /// They are asked for one, and may have none. A certificate that `clientAuthorities` did not issue ends the
            /// handshake.
            case requested
            /// Without one the handshake ends.
            case required
        }

        /// The certificate, its key and its chain.
        public var identity: TestCertificate
        /// The certificates that are sent after that of `identity`, in this order; nil for those between it and its
        /// root.
        public var sentChain: [TestCertificate]?
        /// Other certificates, each with its chain, for clients that ask for a name (SNI). Names are compared without
        /// regard to case; for others, it is `identity`.
        public var identitiesByName: [String: TestCertificate] = [:]
        /// Whether clients have to present a certificate.
        public var clientCertificates: ClientCertificates = .none
        /// The issuers of the clients' certificates, whose names are sent to the clients. With none, every certificate
        /// is accepted.
        public var clientAuthorities: [TestCertificate] = []
        /// The oldest version that is spoken.
        public var minimumVersion: Version = .tls12
        /// The newest version that is spoken.
        public var maximumVersion: Version = .tls13
        /// The ciphers up to TLS 1.2, in OpenSSL's notation.
        public var cipherList = "DEFAULT"
        /// The ciphers of TLS 1.3, in OpenSSL's notation; nil for OpenSSL's choice.
        public var cipherSuites: String?
        /// The application protocols (ALPN) that can be agreed upon, the best one first. A client that offers only
        /// others is refused, one that offers none is not. nil for a server that does not know of ALPN.
        public var alpnProtocols: [String]? = ["http/1.1"]
        /// An OCSP response for clients that ask for one, right or wrong; nil for none. See
        /// `TestCertificate.ocspResponse(status:thisUpdate:nextUpdate:signedBy:)`.
        public var ocspResponse: Data?
        /// Whether clients can resume a session, as most servers allow.
        public var resumesSessions = true
        /// Closes connections without a close_notify, as broken servers and attackers do.
        public var omitsCloseNotify = false

        /// TLS 1.2 and 1.3 with this certificate.
        public init(_ identity: TestCertificate) {
            self.identity = identity
        }
    }
}
