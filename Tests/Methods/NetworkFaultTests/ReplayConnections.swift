import COpenSSL
import CEpoll
import ConvoySupport
import ConvoyTestSupport
import Foundation

/// The connections to a server on 127.0.0.1, each of which has a blocking thread.
final class ReplayConnections: Sendable {
    let port: UInt16
    private let listener: Int32
    private let tls: ServerTLS?
    private let ends = DispatchGroup()
    private let state = Locked(State())

    private struct State {
        var connections: Set<Int32> = []
        var isOver = false
    }

    init(tls: ServerTLS?) throws {
        (listener, port) = try LoopbackPort.listener()
        self.tls = tls
    }

    /// Starts accepting connections, and serves each on a separate thread.
    func start(_ serve: @escaping @Sendable (ServerChannel) -> Void) {
        ends.enter()
        Thread.detachNewThread { [self] in
            defer { ends.leave() }
            ServerTLS.blockPipeSignal()
            while true {
                let client = accept4(listener, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
                if client < 0 {
                    if errno == EINTR || errno == ECONNABORTED { continue }
                    break
                }
                let isWanted = state.withLock { state in
                    if !state.isOver { state.connections.insert(client) }
                    return !state.isOver
                }
                guard isWanted else {
                    close(client)
                    continue
                }
                ends.enter()
                Thread.detachNewThread { [self] in
                    ServerTLS.blockPipeSignal()
                    serve(ServerChannel(client, tls: tls))
                    state.withLock { _ = $0.connections.remove(client) }
                    close(client)
                    ends.leave()
                }
            }
            close(listener)
        }
    }

    /// Closes all connections and stops accepting.
    func stop() {
        state.withLock { state in
            state.isOver = true
            for connection in state.connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
        shutdown(listener, Int32(SHUT_RDWR))
        ends.wait()
    }
}

/// The server's end of a connection, with or without TLS. Its calls block.
final class ServerChannel {
    let descriptor: Int32
    private let ssl: OpaquePointer?
    var received: [UInt8] = []
    private var buffer = [UInt8](repeating: 0, count: 4096)
    private var isReset = false

    init(_ descriptor: Int32, tls: ServerTLS?) {
        self.descriptor = descriptor
        ssl = tls.flatMap { SSL_new($0.context) }
        var (yes, time) = (Int32(1), timeval(tv_sec: 60, tv_usec: 0))
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(MemoryLayout<Int32>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
        if let ssl { SSL_set_fd(ssl, descriptor) }
    }

    deinit { SSL_free(ssl) }

    /// Performs the TLS handshake.
    func accept() -> Bool {
        guard let ssl else { return true }
        return SSL_accept(ssl) == 1
    }

    /// Whether HTTP/2 was negotiated.
    var speaksHTTP2: Bool {
        var (name, count): (UnsafePointer<UInt8>?, UInt32) = (nil, 0)
        SSL_get0_alpn_selected(ssl, &name, &count)
        return count == 2
    }

    /// The end of the first empty line in the received bytes.
    var endOfHead: Int? {
        received.withUnsafeBytes { bytes in
            var position = 0
            while position + 4 <= bytes.count {
                if bytes[position + 3] != 10 {
                    position += bytes[position + 3] == 13 ? 1 : 4
                } else if bytes[position] == 13, bytes[position + 1] == 10, bytes[position + 2] == 13 {
                    return position + 4
                } else {
                    position += 2
                }
            }
            return nil
        }
    }

    /// Receives bytes. Returns false at the end.
    func receive() -> Bool {
        let count =
            ssl.map { Int(SSL_read($0, &buffer, Int32(buffer.count))) } ?? recv(descriptor, &buffer, buffer.count, 0)
        guard count > 0 else { return false }
        received.append(contentsOf: buffer[..<count])
        return true
    }

    func send(_ bytes: [UInt8], piece: Int = .max) -> Bool {
        bytes.withUnsafeBytes { bytes in
            var sent = 0
            while sent < bytes.count {
                let count = min(piece, bytes.count - sent)
                guard let start = bytes.baseAddress?.advanced(by: sent) else { return false }
                let written =
                    ssl.map { Int(SSL_write($0, start, Int32(count))) }
                    ?? Glibc.send(descriptor, start, count, Int32(MSG_NOSIGNAL))
                guard written > 0 else { return false }
                sent += written
            }
            return true
        }
    }

    /// Sends FIN, then waits for the client's FIN. Closing with unread bytes of the client would lose the sent bytes.
    func finish() {
        if let ssl { SSL_shutdown(ssl) }
        shutdown(descriptor, Int32(SHUT_WR))
        drain()
    }

    /// Makes closing the descriptor send RST.
    func reset() {
        var value = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &value, socklen_t(MemoryLayout<linger>.size))
    }

    /// Reads until the client closes the connection.
    func drain() { while recv(descriptor, &buffer, buffer.count, 0) > 0 {} }
}

/// The server's side of TLS, with a certificate for localhost that is created for the run.
final class ServerTLS: @unchecked Sendable {
    let context: OpaquePointer
    /// The authority that clients must trust.
    let certificateAuthority: URL
    private let directory: TemporaryDirectory

    /// - Parameter protocols: The ALPN names in order of preference, each preceded by its length.
    init(protocols: StaticString) throws {
        directory = try TemporaryDirectory(prefix: "convoy-replay")
        let certificates = try TestCertificates(in: directory.url)
        certificateAuthority = certificates.certificateAuthority
        guard let context = SSL_CTX_new(TLS_server_method()) else { throw ProcessError.system("SSL_CTX_new", ENOMEM) }
        self.context = context
        guard SSL_CTX_use_certificate_file(context, certificates.serverCertificate.path, SSL_FILETYPE_PEM) == 1,
            SSL_CTX_use_PrivateKey_file(context, certificates.serverKey.path, SSL_FILETYPE_PEM) == 1
        else { throw ProcessError.system("SSL_CTX_use_certificate_file", EINVAL) }
        SSL_CTX_set_alpn_select_cb(
            context,
            { _, name, count, offered, size, wanted in
                guard let name, let count, let offered, let wanted else { return SSL_TLSEXT_ERR_NOACK }
                let own = wanted.assumingMemoryBound(to: UInt8.self)
                let chosen = SSL_select_next_proto(
                    UnsafeMutableRawPointer(mutating: name).assumingMemoryBound(to: UnsafeMutablePointer<UInt8>?.self),
                    count,
                    own, UInt32(strlen(wanted.assumingMemoryBound(to: CChar.self))), offered, size)
                return chosen == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK
            }, UnsafeMutableRawPointer(mutating: protocols.utf8Start))
    }

    deinit {
        SSL_CTX_free(context)
        directory.remove()
    }

    static let http1: StaticString = "\u{8}http/1.1"
    static let http2: StaticString = "\u{2}h2\u{8}http/1.1"

    /// Blocks SIGPIPE, because OpenSSL writes to sockets that the client has closed.
    static func blockPipeSignal() {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }
}
