import ConvoySupport
import Foundation

/// A parser of requests from a stream of bytes. A plain value that does no I/O and keeps no bytes.
///
/// The caller passes all bytes that have arrived and have not been consumed yet; the parser returns the number of bytes
/// that it has consumed. It does not trap on any input.
struct RequestParser {
    /// The result of one parsing step.
    enum Event {
        /// More bytes are needed.
        case needsMore
        /// A complete head.
        case head(RequestHead)
        /// Bytes of the body, as a range of the passed bytes.
        case body(Range<Int>)
        /// The end of the request, with the trailer fields of a chunked body. The following bytes belong to the next
        /// request.
        case end(trailers: TestServer.Headers)
        /// The bytes are not a valid request. The parser must not be called again.
        case failed(RequestFailure)
    }

    private enum State {
        case head, length(Int), chunkSize, chunk(Int), chunkEnd, trailers, end
    }

    /// The maximum size in bytes of a head, a chunk size line or a trailer section.
    let limit: Int
    private var state = State.head
    /// The position up to which the bytes have been searched for the end of a head. A head that arrives in small parts
    /// is therefore searched only once.
    private var searched = 0
    private var lineStarts: [Int] = [0]

    init(limit: Int) {
        self.limit = limit
    }

    /// Whether a request has begun and has not ended.
    var isInsideRequest: Bool {
        if case .head = state { return false }
        return true
    }

    /// Parses the next bytes. The first `consumed` bytes must not be passed again.
    mutating func next(_ bytes: UnsafeRawBufferPointer) -> (consumed: Int, event: Event) {
        do throws(RequestFailure) {
            switch state {
            case .head: return try head(bytes)
            case .length(let rest):
                let part = min(rest, bytes.count)
                guard part > 0 else { return (0, .needsMore) }
                state = part == rest ? .end : .length(rest - part)
                return (part, .body(0..<part))
            case .chunk(let rest):
                let part = min(rest, bytes.count)
                guard part > 0 else { return (0, .needsMore) }
                state = part == rest ? .chunkEnd : .chunk(rest - part)
                return (part, .body(0..<part))
            case .chunkSize: return try chunkSize(bytes)
            case .chunkEnd:
                guard bytes.count >= 2 else { return (0, .needsMore) }
                guard bytes[0] == 13, bytes[1] == 10 else { throw RequestFailure(400, "a chunk is longer than its size") }
                state = .chunkSize
                return (2, .body(0..<0))
            case .trailers:
                guard let (lines, end) = try section(bytes) else { return (0, .needsMore) }
                let trailers = try RequestHead.fields(lines)
                reset(to: .head)
                return (end, .end(trailers: trailers))
            case .end:
                reset(to: .head)
                return (0, .end(trailers: [:]))
            }
        } catch {
            return (0, .failed(error))
        }
    }

    private mutating func head(_ bytes: UnsafeRawBufferPointer) throws(RequestFailure) -> (Int, Event) {
        // RFC 9112 section 2.2: an empty line before a request line is ignored.
        if lineStarts.count == 1, bytes.count >= 2, bytes[0] == 13, bytes[1] == 10 {
            searched = 0
            return (2, .body(0..<0))
        }
        if let first = bytes.first, first != 13, !HTTPSyntax.isTokenByte(first) {
            throw RequestFailure(400, "this is not HTTP")
        }
        guard let (lines, end) = try section(bytes) else { return (0, .needsMore) }
        let head = try RequestHead(lines: lines)
        switch head.framing {
        case .none: reset(to: .end)
        case .length(let length): reset(to: .length(length))
        case .chunked: reset(to: .chunkSize)
        }
        return (end, .head(head))
    }

    /// Returns the lines up to an empty line, and the offset after it; nil if the empty line has not arrived.
    private mutating func section(
        _ bytes: UnsafeRawBufferPointer
    ) throws(RequestFailure) -> (lines: [UnsafeRawBufferPointer], end: Int)? {
        while let feed = lineFeed(bytes, from: searched) {
            guard feed > 0, bytes[feed - 1] == 13 else { throw RequestFailure(400, "a line does not end with CR LF") }
            guard feed < limit else { throw tooLarge }
            let start = lineStarts[lineStarts.count - 1]
            searched = feed + 1
            if feed - 1 == start {
                var lines: [UnsafeRawBufferPointer] = []
                for (index, from) in lineStarts.dropLast().enumerated() {
                    lines.append(UnsafeRawBufferPointer(rebasing: bytes[from..<(lineStarts[index + 1] - 2)]))
                }
                return (lines, feed + 1)
            }
            lineStarts.append(feed + 1)
        }
        searched = bytes.count
        guard bytes.count < limit else { throw tooLarge }
        return nil
    }

    private var tooLarge: RequestFailure {
        lineStarts.count == 1 && !isInsideRequest
            ? RequestFailure(414, "the request line is too long") : RequestFailure(431, "the header section is too large")
    }

    private mutating func chunkSize(_ bytes: UnsafeRawBufferPointer) throws(RequestFailure) -> (Int, Event) {
        guard let feed = lineFeed(bytes, from: 0) else {
            guard bytes.count < limit else { throw RequestFailure(400, "the chunk size line is too long") }
            return (0, .needsMore)
        }
        guard feed > 0, bytes[feed - 1] == 13 else { throw RequestFailure(400, "a line does not end with CR LF") }
        let line = bytes[..<(feed - 1)]
        let digits = line.prefix { $0 != 0x3B && $0 != 0x20 && $0 != 0x09 }
        guard !digits.isEmpty, digits.count <= 15, digits.allSatisfy(ASCII.isHexadecimal),
            let size = Int(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw RequestFailure(400, "invalid chunk size") }
        reset(to: size == 0 ? .trailers : .chunk(size))
        return (feed + 1, .body(0..<0))
    }

    private mutating func reset(to state: State) {
        self.state = state
        searched = 0
        lineStarts.removeAll(keepingCapacity: true)
        lineStarts.append(0)
    }

    private func lineFeed(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
        guard start < bytes.count, let base = bytes.baseAddress,
            let found = memchr(base + start, 10, bytes.count - start)
        else { return nil }
        return UnsafeRawPointer(found) - base
    }
}

/// A request line and a header section, validated against RFC 9112.
struct RequestHead {
    /// The way in which the end of the body is determined.
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

    /// The path and, if present, the query of the target. The scheme and authority of an absolute target (RFC 9112
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

/// The reason for rejecting a request: the status of the response, and a message.
struct RequestFailure: Error, Equatable {
    var status: Int
    var reason: String

    init(_ status: Int, _ reason: String) {
        self.status = status
        self.reason = reason
    }
}

extension RequestHead {
    /// Parses the lines of a head, without their CRLF. The first one is the request line.
    init(lines: [UnsafeRawBufferPointer]) throws(RequestFailure) {
        guard let first = lines.first else { throw RequestFailure(400, "empty request") }
        let words = first.split(separator: 0x20, omittingEmptySubsequences: false)
        guard words.count == 3 else { throw RequestFailure(400, "the request line must have three parts") }
        guard HTTPSyntax.isToken(words[0]) else { throw RequestFailure(400, "invalid method") }
        guard !words[1].isEmpty, words[1].allSatisfy({ $0 > 0x20 && $0 != 0x7F }) else {
            throw RequestFailure(400, "invalid request target")
        }
        method = String(decoding: words[0], as: UTF8.self)
        target = String(decoding: words[1], as: UTF8.self)
        version = String(decoding: words[2], as: UTF8.self)
        guard version == "HTTP/1.1" || version == "HTTP/1.0" else {
            guard version.hasPrefix("HTTP/") else { throw RequestFailure(400, "invalid protocol") }
            throw RequestFailure(505, "only HTTP/1.1 and HTTP/1.0 are supported")
        }
        headers = try Self.fields(lines[1...])
        framing = try Self.framing(headers)
        if version == "HTTP/1.1", headers.values(for: "Host").count != 1 {
            throw RequestFailure(400, "HTTP/1.1 requires exactly one Host field")
        }
        let connection = headers.tokens("Connection")
        keepsAlive = version == "HTTP/1.1" ? !connection.contains("close") : connection.contains("keep-alive")
        expectsContinue = version == "HTTP/1.1" && headers.tokens("Expect").contains("100-continue")
    }

    static func fields(_ lines: some Sequence<UnsafeRawBufferPointer>) throws(RequestFailure) -> TestServer.Headers {
        var headers = TestServer.Headers()
        for line in lines {
            guard let colon = line.firstIndex(of: 0x3A) else { throw RequestFailure(400, "a header line has no colon") }
            let name = line[..<colon]
            guard HTTPSyntax.isToken(name) else { throw RequestFailure(400, "invalid header name") }
            let value = ASCII.trimmed(line[(colon + 1)...], blank: HTTPSyntax.isOptionalWhitespace)
            guard HTTPSyntax.isFieldValue(value) else {
                throw RequestFailure(400, "a header value contains a control character")
            }
            headers.add(String(decoding: name, as: UTF8.self), text(value))
        }
        return headers
    }

    /// Decodes the bytes as UTF-8, or as Latin-1 so that no byte is lost.
    private static func text(_ value: some Collection<UInt8>) -> String {
        String(validating: value, as: UTF8.self)
            ?? String(String.UnicodeScalarView(value.lazy.map { Unicode.Scalar($0) }))
    }

    /// Determines the framing (RFC 9112 section 6.3). Ambiguous framing is an error.
    private static func framing(_ headers: TestServer.Headers) throws(RequestFailure) -> BodyFraming {
        let encodings = headers.tokens("Transfer-Encoding")
        let lengths = Set(headers.tokens("Content-Length"))
        if !encodings.isEmpty {
            guard lengths.isEmpty else { throw RequestFailure(400, "both Content-Length and Transfer-Encoding") }
            guard encodings == ["chunked"] else { throw RequestFailure(501, "only the chunked coding is supported") }
            return .chunked
        }
        guard headers["Content-Length"] != nil else { return .none }
        guard lengths.count == 1, let text = lengths.first, text.utf8.allSatisfy(ASCII.isDigit),
            let length = Int(text)
        else { throw RequestFailure(400, "invalid Content-Length") }
        return length == 0 ? .none : .length(length)
    }
}

extension String {
    /// Returns the range of an ASCII string, without using the standard library's string processing module.
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
