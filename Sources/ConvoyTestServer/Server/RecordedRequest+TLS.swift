import Foundation

extension RecordedRequest {
    /// What the handshake of a request's connection has agreed upon.
    public struct TLS: Hashable, Sendable {
        /// The version, such as "TLSv1.3".
        public var version: String
        /// The cipher in OpenSSL's notation, such as "TLS_AES_256_GCM_SHA384".
        public var cipher: String
        /// The name that the client asked for (SNI).
        public var serverName: String?
        /// The application protocol (ALPN).
        public var alpnProtocol: String?
        /// Whether the client resumed an earlier session.
        public var isResumed: Bool
        /// The subject of the client's certificate, such as "CN=ada"; nil if it has not presented one.
        public var clientCertificateSubject: String?
        /// The client's certificate in DER; nil if it has not presented one.
        public var clientCertificate: Data?
    }
}
