import ConvoySupport
import Foundation

extension TestServer {
    /// Binds to 127.0.0.1 and starts to serve with TLS.
    ///
    /// - Parameters:
    ///   - tls: How it speaks TLS.
    ///   - configuration: The other settings.
    /// - Throws: `TestServerError.unusableTLS`, or `.system` if a socket cannot be made or the port is in use.
    public convenience init(
        tls: TLS, _ configuration: Configuration = Configuration()
    ) throws(TestServerError) {
        var configuration = configuration
        configuration.tls = tls
        try self.init(configuration)
    }

    /// Speaks TLS in another way on connections that are accepted from now on; with nil, not at all. Open connections
    /// stay as they are. Sessions of the earlier settings cannot be resumed.
    ///
    /// - Throws: `TestServerError.unusableTLS`; then nothing has changed.
    public func setTLS(_ tls: TLS?) throws(TestServerError) {
        let context: TLSContext? = if let tls { try TLSContext(tls) } else { nil }
        state.setTLS(context)
    }

    /// The URL of a path with another host than 127.0.0.1, such as "localhost". Like `url(_:)` otherwise.
    public func url(_ path: String, host: String) -> URL {
        let scheme = state.tls == nil ? "http" : "https"
        return URLReference.url("\(scheme)://\(host):\(port)\(path)") ?? URL(fileURLWithPath: "/")
    }

    /// Why the last handshakes failed, in OpenSSL's words, such as "tlsv1 alert unknown ca" if the client does not
    /// trust the certificate. At most `Configuration.recordingLimit`.
    public var handshakeFailures: [String] { state.read { $0.handshakeFailures } }
}
