import Foundation

/// What a server presented in a TLS handshake to be trusted. The counterpart of `SecTrust`: a value, to be judged by a
/// ``SecurityPolicy``.
public struct ServerTrust: Sendable, Hashable {
    /// The certificates as the server sent them: its own first, then any that should lead to a trusted one.
    public let certificates: [Certificate]

    /// The trust of these certificates, the server's own first.
    public init(certificates: [Certificate]) { self.certificates = certificates }

    /// The certificates of a handshake.
    init(chain: OpaquePointer?) {
        certificates = Certificate.certificates(inStack: chain)
    }
}
