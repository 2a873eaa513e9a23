import CEpoll
import COpenSSL
import ConvoySupport
import Foundation

extension ServerCore {
    /// Starts the handshake on a new connection, limited by `Configuration.handshakeTimeout`.
    func beginHandshake(_ connection: ClientConnection, _ session: TLSSession) {
        connection.tls = session
        connection.phase = .handshaking
        wake(connection, at: Nanoseconds.deadline(state.configuration.handshakeTimeout, after: now))
    }

    /// Decrypts the first `count` bytes of `scratch` into the connection's input. Returns false if the connection is
    /// lost.
    func decrypt(_ count: Int, _ session: TLSSession, _ connection: ClientConnection) -> Bool {
        scratch.withUnsafeBytes { session.receive(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        if connection.phase == .handshaking {
            switch session.handshake() {
            case .waiting: return true
            case .done: established(connection, session)
            case .failed(let reason):
                refuse(connection, reason)
                return true
            }
        }
        var total = 0
        defer { if total > 0 { state.update { $0.statistics.plaintextByteCount += total } } }
        while true {
            switch scratch.withUnsafeMutableBytes({ session.read(into: $0) }) {
            case .bytes(let count):
                total += count
                scratch.withUnsafeBytes { connection.input.append(contentsOf: $0[..<count]) }
            case .waiting: return true
            case .ended:
                connection.peerHasClosed = true
                return true
            case .failed: return false
            }
        }
    }

    private func established(_ connection: ClientConnection, _ session: TLSSession) {
        cancelWake(connection)
        connection.phase = .reading
        state.update { log in
            log.statistics.handshakeCount += 1
            if session.details?.isResumed ?? false { log.statistics.resumedHandshakeCount += 1 }
        }
    }

    /// Sends the TLS alert, and keeps the connection open until the client has read it.
    private func refuse(_ connection: ClientConnection, _ reason: String) {
        handshakeFailed(reason)
        _ = flush(connection)
        connection.phase = .draining
        shutdown(connection.descriptor, Int32(SHUT_WR))
        wake(connection, at: now + 2_000_000_000)
    }

    private func handshakeFailed(_ reason: String) {
        let limit = state.configuration.recordingLimit
        state.update { log in
            log.statistics.failedHandshakeCount += 1
            log.handshakeFailures.append(reason)
            if log.handshakeFailures.count > limit { log.handshakeFailures.removeFirst() }
        }
    }

    /// Closes a connection that is broken or that the client has closed. If a handshake was in progress, records it as
    /// failed.
    func lose(_ connection: ClientConnection, _ reason: String = "the client closed the connection") {
        if connection.phase == .handshaking { handshakeFailed(reason) }
        close(connection)
    }

    /// Queues a close_notify before a step that ends the connection. Returns true if it must be sent before that step.
    func sendCloseNotify(_ connection: ClientConnection, before step: ResponseWriter.Step) -> Bool {
        guard let session = connection.tls, session.sendCloseNotify() else { return false }
        connection.pendingStep = step
        return true
    }

    /// Encrypts and sends output until the socket accepts no more. Returns false if the connection is lost.
    func flush(_ connection: ClientConnection, _ session: TLSSession) -> Bool {
        while true {
            let isOpen = scratch.withUnsafeMutableBytes { session.send(to: connection.descriptor, scratch: $0) }
            guard isOpen else { return false }
            if session.hasOutput { return true }
            let rest = connection.output.count - connection.outputStart
            guard rest > 0 else { return true }
            // Encrypt in small parts, so that the output for a slow client is not held in memory twice.
            let count = min(rest, 1 << 16)
            let start = connection.outputStart
            let isEncrypted = connection.output.withUnsafeBytes {
                session.write(UnsafeRawBufferPointer(rebasing: $0[start..<(start + count)]))
            }
            guard isEncrypted else { return false }
            connection.outputStart += count
            if connection.outputStart == connection.output.count { connection.clearOutput() }
        }
    }
}

/// The TLS session of a connection, using two memory BIOs: one receives the bytes from the socket, the other provides
/// the bytes to send. Used on the server's thread.
final class TLSSession {
    enum Progress {
        /// More bytes from the client are needed.
        case waiting
        case done
        case failed(String)
    }

    enum Reading {
        case bytes(Int)
        /// More bytes from the client are needed.
        case waiting
        /// The client has sent a close_notify.
        case ended
        case failed
    }

    private let context: TLSContext
    private let ssl: OpaquePointer
    /// The encrypted bytes from the client. Owned by `ssl`, like `outgoing`.
    private let incoming: OpaquePointer
    private let outgoing: OpaquePointer
    private var hasSaidGoodbye = false
    /// The result of the handshake; nil until it is complete.
    private(set) var details: RecordedRequest.TLS?

    /// Creates a session; nil if OpenSSL cannot allocate it.
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
        self.context = context
        self.ssl = ssl
        self.incoming = incoming
        self.outgoing = outgoing
    }

    deinit {
        // Otherwise, OpenSSL would invalidate the session of a dropped connection, which could then not be resumed.
        if details != nil { SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN) }
        SSL_free(ssl)
    }

    /// Receives encrypted bytes from the client.
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

    /// Decrypts received bytes. Call it until it returns `.waiting`.
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

    /// Encrypts all of the given bytes for the client. Returns false on failure.
    func write(_ bytes: UnsafeRawBufferPointer) -> Bool {
        ERR_clear_error()
        guard SSL_write(ssl, bytes.baseAddress, Int32(bytes.count)) == Int32(bytes.count) else {
            ERR_clear_error()
            return false
        }
        return true
    }

    /// Queues a close_notify. Returns false if one was sent before, or if `TLS.omitsCloseNotify` is set.
    func sendCloseNotify() -> Bool {
        guard details != nil, !hasSaidGoodbye, !context.omitsCloseNotify else { return false }
        hasSaidGoodbye = true
        ERR_clear_error()
        SSL_shutdown(ssl)
        ERR_clear_error()
        return hasOutput
    }

    /// Whether encrypted bytes are waiting to be sent.
    var hasOutput: Bool { BIO_ctrl_pending(outgoing) > 0 }

    /// Sends encrypted bytes until the socket accepts no more. Returns false if the connection is lost.
    ///
    /// - Parameter scratch: A buffer of any size.
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
