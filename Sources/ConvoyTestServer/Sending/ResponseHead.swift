import ConvoySupport

/// A response head ready to be sent, and what follows from it for the body and the connection.
struct ResponseHead {
    /// How the body is framed.
    enum Encoding {
        case identity
        case chunked
    }

    var bytes: [UInt8] = []
    var encoding: Encoding = .identity
    /// False for HEAD, and for a status without a body unless the response insists (RFC 9110 section 6.4.1).
    var sendsBody = true
    /// Whether another response may follow on the connection.
    var keepsAlive: Bool

    init(_ response: TestServer.Response, method: String, isHTTP10: Bool, clientKeepsAlive: Bool) {
        keepsAlive = clientKeepsAlive && !response.closesConnection
        if case .raw = response.body {
            keepsAlive = false
            return
        }
        var framing = Self.resolve(response, isHTTP10: isHTTP10)
        if method == "HEAD" { sendsBody = false }
        if framing == .automatic, Self.hasNoBody(response.status) { sendsBody = false }
        if framing == .automatic, case .chunks = response.body { framing = .chunked }
        for interim in response.interim {
            Self.append(status: interim.status, reason: interim.reason, to: &bytes)
            for field in interim.headers.fields { Self.append(field.name, field.value, to: &bytes) }
            bytes.append(contentsOf: [13, 10])
        }
        Self.append(status: response.status, reason: response.reason, to: &bytes)
        for field in response.headers.fields { Self.append(field.name, field.value, to: &bytes) }
        appendFraming(framing, of: response)
        if !keepsAlive, response.headers["Connection"] == nil {
            Self.append("Connection", "close", to: &bytes)
        } else if isHTTP10, keepsAlive {
            Self.append("Connection", "keep-alive", to: &bytes)
        }
        bytes.append(contentsOf: [13, 10])
    }

    private mutating func appendFraming(_ framing: TestServer.Response.Framing, of response: TestServer.Response) {
        let count = response.body.count
        switch framing {
        case .automatic:
            if let own = response.headers["Content-Length"] {
                if sendsBody, Int(own) != count { keepsAlive = false }
            } else if response.headers["Transfer-Encoding"] != nil {
                if sendsBody { keepsAlive = false }
            } else if !Self.hasNoBody(response.status) {
                Self.append("Content-Length", String(count), to: &bytes)
            }
        case .contentLength(let length):
            Self.append("Content-Length", String(length), to: &bytes)
            let sent = sendsBody ? count : length
            if Self.hasNoBody(response.status) ? count > 0 : sent != length { keepsAlive = false }
        case .chunked:
            encoding = .chunked
            Self.append("Transfer-Encoding", "chunked", to: &bytes)
            if !response.trailers.fields.isEmpty, response.headers["Trailer"] == nil {
                Self.append("Trailer", response.trailers.fields.map(\.name).joined(separator: ", "), to: &bytes)
            }
        case .closeDelimited:
            keepsAlive = false
        }
    }

    /// HTTP/1.0 has no chunks (RFC 9112 section 7.1): the body then ends with the connection.
    private static func resolve(_ response: TestServer.Response, isHTTP10: Bool) -> TestServer.Response.Framing {
        guard isHTTP10 else { return response.framing }
        if response.framing == .chunked { return .closeDelimited }
        if response.framing == .automatic, case .chunks = response.body { return .closeDelimited }
        return response.framing
    }

    private static func hasNoBody(_ status: Int) -> Bool {
        status == 204 || status == 304 || (100..<200).contains(status)
    }

    private static func append(status: Int, reason: String?, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: "HTTP/1.1 ".utf8)
        bytes.append(contentsOf: String(status).utf8)
        bytes.append(32)
        bytes.append(contentsOf: (reason ?? StatusText.reasonPhrase(status)).utf8)
        bytes.append(contentsOf: [13, 10])
    }

    static func append(_ name: String, _ value: String, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: name.utf8)
        bytes.append(contentsOf: [58, 32])
        bytes.append(contentsOf: value.utf8)
        bytes.append(contentsOf: [13, 10])
    }
}
