import CEpoll
import COpenSSL
import Foundation

/// One connection's TLS, between two blocks of memory: what the socket has received goes into one, and what it is to
/// send comes from the other. Used on the server's thread.
final class TLSSession {
    enum Progress {
        /// More of the client's bytes are needed.
        case waiting
        case done
        case failed(String)
    }

    enum Reading {
        case bytes(Int)
        /// More of the client's bytes are needed.
        case waiting
        /// The client has said that it sends no more.
        case ended
        case failed
    }

    private let context: TLSContext
    private let ssl: OpaquePointer
    /// The encrypted bytes from the client. Belongs to `ssl`, as `outgoing` does.
    private let incoming: OpaquePointer
    private let outgoing: OpaquePointer
    private var hasSaidGoodbye = false
    /// What the handshake has agreed upon; nil until it is over.
    private(set) var details: RecordedRequest.TLS?

    /// Nil if there is no memory.
    init?(_ context: TLSContext) {
        guard let ssl = SSL_new(context.object) else { return nil }
        guard let incoming = convoy_bio_writing() else {
            SSL_free(ssl)
            return nil
        }
        guard let outgoing = convoy_bio_writing() else {
            BIO_free_all(incoming)
            SSL_free(ssl)
            return nil
        }
        SSL_set_bio(ssl, incoming, outgoing)
        SSL_set_accept_state(ssl)
        (self.context, self.ssl, self.incoming, self.outgoing) = (context, ssl, incoming, outgoing)
    }

    deinit {
        // A connection that a client drops would make OpenSSL forget the session, which the client could then not
        // resume.
        if details != nil { SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN) }
        SSL_free(ssl)
    }

    /// Takes encrypted bytes from the client.
    func receive(_ bytes: UnsafeRawBufferPointer) {
        BIO_write(incoming, bytes.baseAddress, Int32(bytes.count))
    }

    /// Continues the handshake.
    func handshake() -> Progress {
        ERR_clear_error()
        let result = SSL_do_handshake(ssl)
        if result == 1 {
            details = currentDetails()
            return .done
        }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ: return .waiting
        default:
            var reason = OpenSSLCalls.takeReason() ?? "the connection ended"
            let verification = SSL_get_verify_result(ssl)
            if verification != Int(X509_V_OK), let text = X509_verify_cert_error_string(verification) {
                reason += ": \(String(cString: text))"
            }
            return .failed(reason)
        }
    }

    /// Decrypts what has been received, of which each call returns a part.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> Reading {
        ERR_clear_error()
        let count = SSL_read(ssl, buffer.baseAddress, Int32(clamping: buffer.count))
        if count > 0 { return .bytes(Int(count)) }
        switch SSL_get_error(ssl, count) {
        case SSL_ERROR_WANT_READ: return .waiting
        case SSL_ERROR_ZERO_RETURN: return .ended
        default:
            ERR_clear_error()
            return .failed
        }
    }

    /// Encrypts all of these bytes for the client. False if that is impossible.
    func write(_ bytes: UnsafeRawBufferPointer) -> Bool {
        ERR_clear_error()
        guard SSL_write(ssl, bytes.baseAddress, Int32(bytes.count)) == Int32(bytes.count) else {
            ERR_clear_error()
            return false
        }
        return true
    }

    /// Tells the client that nothing follows. False if that has been done, or is not to be done.
    func sayGoodbye() -> Bool {
        guard details != nil, !hasSaidGoodbye, !context.omitsCloseNotify else { return false }
        hasSaidGoodbye = true
        ERR_clear_error()
        SSL_shutdown(ssl)
        ERR_clear_error()
        return hasOutput
    }

    /// Whether there are encrypted bytes to be sent.
    var hasOutput: Bool { BIO_ctrl_pending(outgoing) > 0 }

    /// Sends encrypted bytes, as far as the socket accepts them. False if the connection is lost.
    ///
    /// - Parameter scratch: Room of any size.
    func send(to descriptor: Int32, scratch: UnsafeMutableRawBufferPointer) -> Bool {
        while true {
            var start: UnsafePointer<UInt8>?
            let pending = convoy_bio_bytes(outgoing, &start)
            guard pending > 0 else { return true }
            var sent = Glibc.send(descriptor, start, pending, Int32(MSG_NOSIGNAL))
            if sent < 0 {
                if errno == EINTR { continue }
                return errno == EAGAIN
            }
            while sent > 0 {
                let removed = BIO_read(outgoing, scratch.baseAddress, Int32(min(sent, scratch.count)))
                guard removed > 0 else { return false }
                sent -= Int(removed)
            }
        }
    }

    private func currentDetails() -> RecordedRequest.TLS {
        let text = { (pointer: UnsafePointer<CChar>?) in pointer.map { String(cString: $0) } }
        var protocolName: UnsafePointer<UInt8>?
        var protocolCount: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &protocolName, &protocolCount)
        let name = UnsafeBufferPointer(start: protocolName, count: Int(protocolCount))
        var details = RecordedRequest.TLS(
            version: text(SSL_get_version(ssl)) ?? "",
            cipher: text(SSL_CIPHER_get_name(SSL_get_current_cipher(ssl))) ?? "",
            serverName: text(SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name)),
            alpnProtocol: name.isEmpty ? nil : String(decoding: name, as: UTF8.self),
            isResumed: SSL_session_reused(ssl) == 1)
        if let certificate = SSL_get0_peer_certificate(ssl) {
            details.clientCertificateSubject = OpenSSLCalls.text { convoy_maker_write_subject($0, certificate) == 1 }
            details.clientCertificate = OpenSSLCalls.bytes { i2d_X509(certificate, $0) }.map { Data($0) }
        }
        return details
    }
}
