import CCurl
import ConvoySupport

/// A recorder that converts the data of libcurl's debug callback into the lines of a transfer's trace, on the network
/// thread.
///
/// A head can arrive in pieces that end anywhere. Only complete lines are traced, because a partial line does not
/// reveal whether it is a secret.
struct TraceRecorder {
    /// The kind of data passed to the debug callback.
    enum Piece { case message, sentHead, receivedHead, sentBody, receivedBody }

    /// The line being read of the head sent or received.
    private struct Head {
        var line: [UInt8] = []
        /// The number of bytes dropped from the line.
        var excess = 0
        /// Whether the last field was secret, which also applies to its folded lines (RFC 9112, section 5.2).
        var isSecret = false
    }

    private let trace: ConnectionTrace
    private let secrets: SecretClassifier
    private let transfer: Int
    private var sent = Head()
    private var received = Head()

    /// - Parameter transfer: The number of the transfer.
    init(_ trace: ConnectionTrace, transfer: Int, secrets: SecretClassifier) {
        self.trace = trace
        self.secrets = secrets
        self.transfer = transfer
    }

    /// Adds a message of this library.
    func note(_ text: String) { trace.post(TraceLine(kind: .note, text: text, transfer: transfer)) }

    /// Adds the line for the end of a request.
    func end(_ metrics: TransactionMetrics) { trace.post(TraceLine(metrics, transfer: transfer)) }

    mutating func take(_ piece: Piece, _ bytes: UnsafeRawBufferPointer) {
        switch piece {
        case .message: takeMessage(bytes)
        case .sentHead: take(bytes, into: &sent, .sentHead)
        case .receivedHead: take(bytes, into: &received, .receivedHead)
        case .sentBody: trace.post(TraceLine(kind: .sentBody, byteCount: bytes.count, transfer: transfer))
        case .receivedBody: trace.post(TraceLine(kind: .receivedBody, byteCount: bytes.count, transfer: transfer))
        }
    }

    // MARK: Heads

    /// The maximum length of a traced line. libcurl accepts lines up to 100 KB from servers, but sends longer lines if
    /// the user specifies them.
    private static let longestLine = 256 << 10

    private func take(_ bytes: UnsafeRawBufferPointer, into head: inout Head, _ kind: TraceLine.Kind) {
        for byte in bytes {
            if byte == UInt8(ascii: "\n") {
                finishLine(of: &head, kind)
            } else if head.line.count < Self.longestLine {
                head.line.append(byte)
            } else {
                head.excess += 1
            }
        }
    }

    private func finishLine(of head: inout Head, _ kind: TraceLine.Kind) {
        defer {
            head.line.removeAll(keepingCapacity: true)
            head.excess = 0
        }
        if head.line.last == UInt8(ascii: "\r") { head.line.removeLast() }
        let rest = head.excess > 0 ? " … and \(head.excess) more bytes" : ""
        let text = shown(head.line[...], &head.isSecret) + rest
        trace.post(TraceLine(kind: kind, text: text, transfer: transfer))
    }

    private func shown(_ line: ArraySlice<UInt8>, _ isSecret: inout Bool) -> String {
        if trace.showsSecrets { return ASCII.text(line) }
        guard let first = line.first else {
            isSecret = false
            return ""
        }
        if HTTPSyntax.isOptionalWhitespace(first) {
            return isSecret ? " \(Redaction.mask)" : Redaction.text(ASCII.text(line), secrets)
        }
        isSecret = false
        if let startLine = startLine(line) { return startLine }
        // The name of an HTTP/2 pseudo-header begins with a colon.
        guard let colon = line.dropFirst().firstIndex(of: UInt8(ascii: ":")) else {
            // Without a name, the line may be a secret.
            return "(malformed line of \(line.count) bytes)"
        }
        let name = ASCII.text(ASCII.trimmed(line[..<colon]))
        isSecret = secrets.contains(name)
        return "\(ASCII.text(line[..<colon])): \(secrets.shown(name, ASCII.text(ASCII.trimmed(line[(colon + 1)...]))))"
    }

    /// Returns a status line, or a request line with its target redacted; nil for other lines.
    private func startLine(_ line: ArraySlice<UInt8>) -> String? {
        if line.starts(with: "HTTP/".utf8) { return ASCII.text(line) }
        guard let first = line.firstIndex(of: UInt8(ascii: " ")), HTTPSyntax.isToken(line[..<first]),
            let last = line.lastIndex(of: UInt8(ascii: " ")), last > first, line[(last + 1)...].starts(with: "HTTP/".utf8)
        else { return nil }
        let target = Redaction.url(ASCII.text(line[(first + 1)..<last]), secrets)
        return "\(ASCII.text(line[..<first])) \(target) \(ASCII.text(line[(last + 1)...]))"
    }

    // MARK: Messages

    private func takeMessage(_ bytes: UnsafeRawBufferPointer) {
        let text = ASCII.text(ASCII.trimmed(Array(bytes)))
        guard !text.isEmpty, trace.showsSecrets || Self.isHarmless(text) else { return }
        note(trace.showsSecrets ? text : Redaction.text(text, secrets))
    }

    /// The prefixes of libcurl messages that contain no secrets, in lowercase, for libcurl 7.88 to 8.14. Other messages
    /// may contain proxy user names, the environment's proxies with their passwords, and all HTTP/2 fields.
    private static let harmless = [
        "trying ", "connected to ", "established connection to ", "connect to ", "immediate connect fail for ",
        "failed to connect to ", "could not resolve ", "host ", "ipv6: ", "ipv4: ", "re-using existing ",
        "reusing existing ", "connection #", "connection died", "connection reset", "connection timed out",
        "closing connection", "shutting down connection", "too old connection", "establish http proxy tunnel",
        "connect tunnel ", "connect phase completed", "proxy connect", "proxy replied ", "alpn", "ssl connection using ",
        "server certificate:", "subject: ", "issuer: ", "start date: ", "expire date: ", "ssl certificate ", "tlsv1", "tls ",
        "using http/", "using http2", "http/2 ", "operation timed out", "recv failure: ", "send failure: ",
        "empty reply from server", "transfer closed with ", "request completely sent off", "upload completely sent off",
        "we are completely uploaded and fine", "done waiting for 100-continue", "http error before end of send",
        "openssl ssl_",
    ]

    private static func isHarmless(_ text: String) -> Bool {
        let text = text.prefix(40).lowercased()
        return harmless.contains(where: text.hasPrefix)
    }
}

extension TraceRecorder.Piece {
    /// Creates the kind for a libcurl type; nil for TLS data, which is not traced.
    init?(_ kind: curl_infotype) {
        switch kind {
        case CURLINFO_TEXT: self = .message
        case CURLINFO_HEADER_OUT: self = .sentHead
        case CURLINFO_HEADER_IN: self = .receivedHead
        case CURLINFO_DATA_OUT: self = .sentBody
        case CURLINFO_DATA_IN: self = .receivedBody
        default: return nil
        }
    }
}
