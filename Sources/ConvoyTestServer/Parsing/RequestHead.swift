import ConvoySupport

/// A request line and a header section, checked against RFC 9112.
struct RequestHead {
    /// How the end of the request's body is determined.
    enum BodyFraming: Equatable {
        case none
        case length(Int)
        case chunked
    }

    var method: String
    var target: String
    var version: String
    var headers: TestServer.Headers
    var framing: BodyFraming
    var keepsAlive: Bool
    var expectsContinue: Bool

    var isHTTP10: Bool { version == "HTTP/1.0" }

    /// The path of the target, and its query if it has one. The scheme and authority of an absolute target (RFC 9112
    /// section 3.2.2) are omitted.
    var pathAndQuery: (path: String, query: String?) {
        var rest = Substring(target)
        if !target.hasPrefix("/"), let scheme = target.firstRange(ofASCII: "://") {
            rest = target[scheme.upperBound...]
            rest = rest.firstIndex { $0 == "/" || $0 == "?" }.map { rest[$0...] } ?? ""
            if rest.isEmpty || rest.first == "?" { rest = "/" + rest }
        }
        guard let mark = rest.utf8.firstIndex(of: 0x3F) else { return (String(rest), nil) }
        return (String(rest[..<mark]), String(rest[rest.utf8.index(after: mark)...]))
    }
}

/// Why a request was refused: the status of the answer, and a sentence.
struct RequestFailure: Error, Equatable {
    var status: Int
    var reason: String

    init(_ status: Int, _ reason: String) {
        self.status = status
        self.reason = reason
    }
}

extension RequestHead {
    /// Parses the lines of a head, without their CRLF. The first is the request line.
    init(lines: [UnsafeRawBufferPointer]) throws(RequestFailure) {
        guard let first = lines.first else { throw RequestFailure(400, "empty request") }
        let words = first.split(separator: 0x20, omittingEmptySubsequences: false)
        guard words.count == 3 else { throw RequestFailure(400, "the request line has not three words") }
        guard HTTPSyntax.isToken(words[0]) else { throw RequestFailure(400, "bad method") }
        guard !words[1].isEmpty, words[1].allSatisfy({ $0 > 0x20 && $0 != 0x7F }) else {
            throw RequestFailure(400, "bad request target")
        }
        method = String(decoding: words[0], as: UTF8.self)
        target = String(decoding: words[1], as: UTF8.self)
        version = String(decoding: words[2], as: UTF8.self)
        guard version == "HTTP/1.1" || version == "HTTP/1.0" else {
            guard version.hasPrefix("HTTP/") else { throw RequestFailure(400, "bad protocol") }
            throw RequestFailure(505, "only HTTP/1.1 and HTTP/1.0 are spoken here")
        }
        headers = try Self.fields(lines[1...])
        framing = try Self.framing(headers)
        if version == "HTTP/1.1", headers.values(for: "Host").count != 1 {
            throw RequestFailure(400, "HTTP/1.1 needs one Host field")
        }
        let connection = headers.tokens("Connection")
        keepsAlive = version == "HTTP/1.1" ? !connection.contains("close") : connection.contains("keep-alive")
        expectsContinue = version == "HTTP/1.1" && headers.tokens("Expect").contains("100-continue")
    }

    static func fields(_ lines: some Sequence<UnsafeRawBufferPointer>) throws(RequestFailure) -> TestServer.Headers {
        var headers = TestServer.Headers()
        for line in lines {
            guard let colon = line.firstIndex(of: 0x3A) else { throw RequestFailure(400, "a header line without a colon") }
            let name = line[..<colon]
            guard HTTPSyntax.isToken(name) else { throw RequestFailure(400, "bad header name") }
            let value = ASCII.trimmed(line[(colon + 1)...], blank: HTTPSyntax.isOptionalWhitespace)
            guard HTTPSyntax.isFieldValue(value) else {
                throw RequestFailure(400, "a control character in a header value")
            }
            headers.add(String(decoding: name, as: UTF8.self), text(value))
        }
        return headers
    }

    /// A value that is no UTF-8 is given as Latin-1, so that each of its bytes can be told.
    private static func text(_ value: some Collection<UInt8>) -> String {
        String(validating: value, as: UTF8.self)
            ?? String(String.UnicodeScalarView(value.lazy.map { Unicode.Scalar($0) }))
    }

    /// RFC 9112 section 6.3. Everything ambiguous is refused.
    private static func framing(_ headers: TestServer.Headers) throws(RequestFailure) -> BodyFraming {
        let encodings = headers.tokens("Transfer-Encoding")
        let lengths = Set(headers.tokens("Content-Length"))
        if !encodings.isEmpty {
            guard lengths.isEmpty else { throw RequestFailure(400, "Content-Length and Transfer-Encoding together") }
            guard encodings == ["chunked"] else { throw RequestFailure(501, "only the chunked coding is known") }
            return .chunked
        }
        guard headers["Content-Length"] != nil else { return .none }
        guard lengths.count == 1, let text = lengths.first, text.utf8.allSatisfy(ASCII.isDigit),
            let length = Int(text)
        else { throw RequestFailure(400, "bad Content-Length") }
        return length == 0 ? .none : .length(length)
    }
}

extension String {
    /// The range of an ASCII text. (The standard library's search is in a separate module.)
    fileprivate func firstRange(ofASCII text: String) -> Range<String.Index>? {
        var start = utf8.startIndex
        while start != utf8.endIndex {
            if self[start...].utf8.starts(with: text.utf8) {
                return start..<utf8.index(start, offsetBy: text.utf8.count)
            }
            start = utf8.index(after: start)
        }
        return nil
    }
}
