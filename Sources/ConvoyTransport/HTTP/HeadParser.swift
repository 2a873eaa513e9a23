import ConvoySupport
import Foundation

/// A parser that collects the lines of a response head from libcurl, and validates what libcurl does not.
///
/// A value type without I/O. It holds a single head: the head of an interim response (1xx) is replaced by the next one.
/// After a complete final head, all further lines are trailers.
struct HeadParser {
    enum Step: Equatable {
        /// More lines of the head follow.
        case more
        /// An interim response has ended; another head follows.
        case interim
        /// The head is complete.
        case whole
        /// The line after the head is a valid trailer, which is ignored.
        case trailer
        /// The head is invalid. The associated value is the reason, as shown to the user.
        case refused(String)
    }

    /// The maximum total size, in bytes, of all heads of a response, as in OkHttp. Only a broken or malicious server
    /// sends more.
    static let sizeLimit = 256 << 10
    /// The maximum number of interim responses before the final one.
    static let interimLimit = 32
    /// The maximum total size of all trailers, in bytes.
    static let trailerLimit = 64 << 10

    private var lines = FieldLines()
    private var trailers = FieldLines()
    /// The lines of the head, one per field.
    var bytes: [UInt8] { lines.bytes }
    private(set) var statusCode = 0
    /// The announced length of the body; nil if the body is sent in chunks (RFC 9112, section 6.3).
    var contentLength: Int64? { isChunked ? nil : announcedLength }
    /// Whether the head specifies both an empty body and chunks. libcurl 8.14 uses the length once it has to wait for
    /// the chunks, and mistakes the later bytes for the response to the next request.
    var deniesItsChunks: Bool { isChunked && announcedLength == 0 && statusCode != 204 && statusCode != 304 }
    /// Whether only the end of the connection marks the end of the body (RFC 9112, section 6.3).
    var isEndedByConnection: Bool {
        announcedLength == nil && !isChunked && statusCode != 204 && statusCode != 304
            && bytes.starts(with: "HTTP/1".utf8)
    }
    /// Whether only the end of the stream marks the end of the body (RFC 9113, section 8.1.1).
    var isEndedByStream: Bool { announcedLength == nil && statusCode != 204 && statusCode != 304 && isHTTP2 }
    var isHTTP2: Bool { bytes.starts(with: "HTTP/2".utf8) }
    /// The values of the `Content-Encoding` fields, one per field.
    var contentEncodings: [String] { isEncoded ? lines.values(of: "content-encoding") : [] }
    /// Whether the head contains a `Set-Cookie`.
    private(set) var setsCookies = false
    /// Whether a final head is complete.
    private(set) var isWhole = false
    /// Whether any line of a head has arrived, including interim heads.
    private(set) var hasBegun = false
    private var announcedLength: Int64?
    private var isChunked = false
    private var isEncoded = false
    /// Whether a folded field requests closing the connection, which libcurl may not detect.
    private(set) var foldsClose = false
    private var isInterim = false
    /// Whether the next line must begin a head.
    private var awaitsStatusLine = true
    /// The size of all lines of heads as received, and of all trailers. An unfolded field can be shorter than its
    /// lines.
    private var (headBytes, trailerBytes) = (0, 0)
    private var interimCount = 0

    private mutating func forgetHead() {
        // Start with a new array, because the old one belongs to its response.
        lines = FieldLines()
        statusCode = 0
        forgetFraming()
        foldsClose = false
        isWhole = false
    }

    private mutating func forgetFraming() {
        announcedLength = nil
        isChunked = false
        isEncoded = false
        setsCookies = false
    }

    mutating func take(_ line: UnsafeRawBufferPointer) -> Step {
        guard !isWhole else { return takeTrailer(line) }
        if awaitsStatusLine {
            // libcurl 7.88 accepts a line like "HtTP/1.1 200" as a status line.
            guard line.begins(with: "HTTP/") else { return .refused("The response does not begin with a status line.") }
            if isInterim {
                interimCount += 1
                guard interimCount <= Self.interimLimit else {
                    return .refused("The server sent more than \(Self.interimLimit) interim responses.")
                }
            }
            hasBegun = true
            forgetHead()
            guard let code = Self.statusCode(of: line) else { return .refused("The status line is malformed.") }
            guard code != 101 else { return .refused("The server switched to a protocol that was not requested.") }
            statusCode = code
            isInterim = code < 200
        }
        headBytes += line.count
        guard headBytes <= Self.sizeLimit else {
            return .refused("The response's header is larger than \(Self.sizeLimit) bytes.")
        }
        if awaitsStatusLine {
            awaitsStatusLine = false
            lines.append(startOrEnd: line)
            return .more
        }
        if line.isLineEnd {
            // With libcurl 8.23, an empty line can be cut off here by the end of the connection.
            if line.count == 1, line[0] == UInt8(ascii: "\r") { return .more }
            lines.append(startOrEnd: line)
            return isInterim ? endInterim() : end()
        }
        switch lines.append(line) {
        case .refused(let reason): return .refused("The response's header \(reason).")
        case .continuation: return .more
        case .field(let nameLength):
            guard !isInterim, Self.mayNote(nameLength) else { return .more }
            var value = line[(nameLength + 1)...]
            // A bare CR that is not part of the line ending makes a length or a coding invalid (RFC 9112, section 2.2).
            for end in "\n\r".utf8 where value.last == end { value = value.dropLast() }
            return note(
                UnsafeRawBufferPointer(rebasing: line[..<nameLength]),
                UnsafeRawBufferPointer(rebasing: ASCII.trimmed(value, blank: HTTPSyntax.isOptionalWhitespace)))
        }
    }

    private mutating func endInterim() -> Step {
        awaitsStatusLine = true
        return .interim
    }

    private mutating func end() -> Step {
        isWhole = true
        guard lines.isFolded else { return .whole }
        // libcurl reads only the first line of a folded field (up to 8.14). The framing must therefore be valid both
        // without the continuations, as checked line by line, and with them.
        forgetFraming()
        let bytes = lines.bytes
        var step = Step.more
        bytes.withUnsafeBytes { bytes in
            FieldLines.forEachField(in: bytes) { name, value in
                guard step == .more else { return }
                step = note(name, value)
                if name.isEqualIgnoringCase(to: "connection") || name.isEqualIgnoringCase(to: "proxy-connection") {
                    foldsClose = foldsClose || Self.containsClose(value)
                }
            }
        }
        return step == .more ? .whole : step
    }

    private static func containsClose(_ value: UnsafeRawBufferPointer) -> Bool {
        value.split(separator: UInt8(ascii: ",")).contains { ASCII.equalIgnoringCase(ASCII.trimmed($0), "close".utf8) }
    }

    private mutating func takeTrailer(_ line: UnsafeRawBufferPointer) -> Step {
        trailerBytes += line.count
        guard trailerBytes <= Self.trailerLimit else {
            return .refused("The response's trailers are larger than \(Self.trailerLimit) bytes.")
        }
        guard !line.isLineEnd else { return .trailer }
        if case .refused(let reason) = trailers.append(line) { return .refused("The response's trailer section \(reason).") }
        return .trailer
    }

    /// Returns whether a name has the length of one that `note` handles. This skips most fields of each response.
    private static func mayNote(_ length: Int) -> Bool {
        switch length {
        case 10, 14, 16, 17: true
        default: false
        }
    }

    /// Records the fields that determine the end and the encoding of the body, and whether the response sets cookies.
    private mutating func note(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Step {
        if name.isEqualIgnoringCase(to: "content-length") { return noteLength(value) }
        if name.isEqualIgnoringCase(to: "transfer-encoding") { return noteTransferCoding(value) }
        if name.isEqualIgnoringCase(to: "content-encoding") { isEncoded = true }
        if name.isEqualIgnoringCase(to: "set-cookie") { setsCookies = true }
        return .more
    }

    /// Records a `Content-Length`. Two different lengths indicate request smuggling (RFC 9112, section 6.3) and are
    /// rejected.
    private mutating func noteLength(_ values: UnsafeRawBufferPointer) -> Step {
        var rest = values[...]
        while true {
            let end = rest.firstIndex(of: UInt8(ascii: ",")) ?? rest.endIndex
            guard let length = Self.number(rest[..<end]) else {
                return .refused("The Content-Length is not a number or too large.")
            }
            if let earlier = announcedLength, earlier != length {
                return .refused("The response specifies two different lengths, \(earlier) and \(length).")
            }
            announcedLength = length
            guard end < rest.endIndex else { return .more }
            rest = rest[(end + 1)...]
        }
    }

    /// Records a `Transfer-Encoding`. Chunked is the only coding that a server may use without a request for it (RFC
    /// 9112, section 7.4). libcurl would decode others without a limit, and without detecting truncation.
    private mutating func noteTransferCoding(_ value: UnsafeRawBufferPointer) -> Step {
        if ASCII.equalIgnoringCase(value, "identity".utf8) { return .more }
        guard !value.isEmpty else { return .refused("A Transfer-Encoding line has no value.") }
        guard ASCII.equalIgnoringCase(value, "chunked".utf8) else {
            return .refused("The server uses an unsupported transfer coding: \(ASCII.text(value).prefix(100)).")
        }
        guard !isChunked else { return .refused("The response has the transfer coding \"chunked\" twice.") }
        isChunked = true
        return .more
    }

    private static func number(_ text: Slice<UnsafeRawBufferPointer>) -> Int64? {
        let digits = ASCII.trimmed(text, blank: HTTPSyntax.isOptionalWhitespace)
        var value: Int64 = 0
        for byte in digits {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            let (tens, isTooLarge) = value.multipliedReportingOverflow(by: 10)
            let (sum, overflow) = tens.addingReportingOverflow(Int64(byte - UInt8(ascii: "0")))
            guard !isTooLarge, !overflow else { return nil }
            value = sum
        }
        return digits.isEmpty ? nil : value
    }

    /// Returns the status code of a line that begins with `HTTP/`: a version of one or two digits, a space, and three
    /// digits (RFC 9112, section 4). libcurl 7.88 assigns no status to a line with a different version, so that a 304
    /// would have a body.
    private static func statusCode(of line: UnsafeRawBufferPointer) -> Int? {
        func isDigit(_ index: Int) -> Bool {
            index < line.count && line[index] >= UInt8(ascii: "0") && line[index] <= UInt8(ascii: "9")
        }
        guard isDigit(5), line.count > 6 else { return nil }
        var space = 6
        if line[6] == UInt8(ascii: ".") {
            guard isDigit(7) else { return nil }
            space = 8
        }
        guard line.count > space, line[space] == UInt8(ascii: " ") else { return nil }
        var code = 0
        for index in (space + 1)...(space + 3) {
            guard isDigit(index) else { return nil }
            code = code * 10 + Int(line[index] - UInt8(ascii: "0"))
        }
        return code >= 100 ? code : nil
    }
}

extension UnsafeRawBufferPointer {
    /// Whether a line consists only of its line ending, or half of it. A line with only whitespace continues the last
    /// field.
    fileprivate var isLineEnd: Bool {
        count <= 2 && allSatisfy { $0 == UInt8(ascii: "\r") || $0 == UInt8(ascii: "\n") }
    }

    /// Returns whether the bytes begin with a string, which must be ASCII.
    func begins(with text: StaticString) -> Bool {
        guard let baseAddress, count >= text.utf8CodeUnitCount else { return false }
        return memcmp(baseAddress, text.utf8Start, text.utf8CodeUnitCount) == 0
    }

    /// Returns whether the bytes equal a string, which must be ASCII, ignoring case.
    func isEqualIgnoringCase(to text: StaticString) -> Bool {
        guard let baseAddress, count == text.utf8CodeUnitCount else { return false }
        return strncasecmp(
            baseAddress.assumingMemoryBound(to: CChar.self),
            UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self), text.utf8CodeUnitCount) == 0
    }
}

/// The relevant part of the head of a proxy's response to CONNECT: its challenges.
struct ConnectResponse {
    private var lines = FieldLines()
    private var awaitsStatusLine = true
    private var length = 0

    /// The maximum size, in bytes, of a head whose fields are read.
    private static let mostBytes = 16 << 10

    /// Whether any line of a head has arrived.
    var hasBegun: Bool { length > 0 }
    /// The challenges of a proxy, as `Proxy-Authenticate` values.
    var challenges: [String] { lines.values(of: "proxy-authenticate") }

    /// Adds a line of the head. Returns the reason why the response is malformed, or nil.
    mutating func take(_ line: UnsafeRawBufferPointer) -> String? {
        if awaitsStatusLine, line.begins(with: "HTTP/") {
            // A negotiation has several responses, of which the last one counts.
            self = ConnectResponse()
            awaitsStatusLine = false
            length = line.count
            lines.append(startOrEnd: line)
            return nil
        }
        length += line.count
        if line.isLineEnd { awaitsStatusLine = true }
        guard !line.isLineEnd, length <= Self.mostBytes, case .refused(let reason) = lines.append(line) else {
            return nil
        }
        return "The proxy's response to CONNECT \(reason)."
    }
}
