import ConvoySupport
import Foundation

/// Collects the lines of a response's head from libcurl, and checks what libcurl does not check.
///
/// A value without I/O. It holds one head at a time: that of an interim response (1xx) is replaced by the next. After a
/// complete final head, all lines that follow are trailers, whatever they look like.
struct HeadParser {
    enum Step: Equatable {
        /// More lines of the head follow.
        case more
        /// An interim response has ended; another head follows.
        case interim
        /// The head is complete.
        case whole
        /// A line after the head: a trailer, which is ignored.
        case trailer
        /// The head is invalid, with a reason for the user.
        case refused(String)
    }

    /// The limit, as in OkHttp, for all heads of one response together. Only a broken or malicious server sends more.
    static let sizeLimit = 256 << 10
    /// How many interim responses may come before the final one.
    static let interimLimit = 32
    /// For all trailers together, in bytes.
    static let trailerLimit = 64 << 10

    private(set) var bytes: [UInt8] = []
    private(set) var statusCode = 0
    /// The announced length of the body; nil if the body is sent in chunks (RFC 9112, section 6.3).
    var contentLength: Int64? { isChunked ? nil : announcedLength }
    /// Whether the head announces both an empty body and chunks. libcurl 8.14 believes the length once it has to wait for
    /// the chunks, and takes what comes later for the response to the next request.
    var deniesItsChunks: Bool { isChunked && announcedLength == 0 && statusCode != 204 && statusCode != 304 }
    /// Whether only the end of the connection tells where the body ends (RFC 9112, section 6.3).
    var isEndedByConnection: Bool {
        announcedLength == nil && !isChunked && statusCode != 204 && statusCode != 304
            && bytes.starts(with: "HTTP/1".utf8)
    }
    /// Whether only the end of the stream tells where the body ends (RFC 9113, section 8.1.1).
    var isEndedByStream: Bool { announcedLength == nil && statusCode != 204 && statusCode != 304 && isHTTP2 }
    var isHTTP2: Bool { bytes.starts(with: "HTTP/2".utf8) }
    /// The values of the `Content-Encoding` fields, one for each line.
    private(set) var contentEncodings: [String] = []
    /// Whether there is a `Set-Cookie`.
    private(set) var setsCookies = false
    /// Whether a final head is complete.
    private(set) var isWhole = false
    /// Whether any line of a head has come, even of an interim one.
    private(set) var hasBegun = false
    private var announcedLength: Int64?
    private var isChunked = false
    private var isInterim = false
    /// Whether a head must begin with the next line.
    private var awaitsStatusLine = true
    private var isAfterStatusLine = false
    private var earlierBytes = 0
    private var interimCount = 0
    private var trailerBytes = 0

    private mutating func forgetHead() {
        // The old array belongs to its response.
        bytes = []
        statusCode = 0
        announcedLength = nil
        contentEncodings = []
        isChunked = false
        setsCookies = false
        isWhole = false
    }

    mutating func take(_ line: UnsafeRawBufferPointer) -> Step {
        guard !isWhole else { return takeTrailer(line) }
        if bytes.isEmpty || isInterim, line.begins(with: "HTTP/") {
            if isInterim {
                interimCount += 1
                guard interimCount <= Self.interimLimit else {
                    return .refused("More than \(Self.interimLimit) interim responses came before the final one.")
                }
                earlierBytes += bytes.count
            }
            hasBegun = true
            awaitsStatusLine = false
            forgetHead()
            bytes.reserveCapacity(512)
            guard let code = Self.statusCode(of: line) else { return .refused("The status line is malformed.") }
            guard code != 101 else { return .refused("The server switched to a protocol that was not requested.") }
            statusCode = code
            isInterim = code < 200
        }
        // libcurl 7.88 takes a line like "HtTP/1.1 200" for a status line.
        guard !awaitsStatusLine else { return .refused("The response does not begin with a status line.") }
        guard earlierBytes + bytes.count + line.count <= Self.sizeLimit else {
            return .refused("The response's header is larger than \(Self.sizeLimit) bytes.")
        }
        // RFC 9112, section 2.2. It would continue the status line.
        if isAfterStatusLine, line.first == UInt8(ascii: " ") || line.first == UInt8(ascii: "\t") {
            return .refused("The response's header begins with a folded line.")
        }
        // With libcurl 8.23 this is all of an empty line that had come when the connection ended.
        if line.count == 1, line[0] == UInt8(ascii: "\r") { return .more }
        // A line of a blank continues the last field.
        let isEmpty = line.count <= 2 && line.allSatisfy { $0 == UInt8(ascii: "\r") || $0 == UInt8(ascii: "\n") }
        // For libcurl it would end the header, and the rest would be of the next response.
        if line.first == UInt8(ascii: "\r"), !isEmpty {
            return .refused("A line of the response's header begins with a bare CR.")
        }
        isAfterStatusLine = !isAfterStatusLine && bytes.isEmpty
        bytes.append(contentsOf: line)
        if isEmpty {
            if isInterim {
                awaitsStatusLine = true
                return .interim
            }
            isWhole = true
            return .whole
        }
        return isInterim ? .more : noteFraming(in: line)
    }

    private mutating func takeTrailer(_ line: UnsafeRawBufferPointer) -> Step {
        trailerBytes += line.count
        return trailerBytes <= Self.trailerLimit
            ? .trailer : .refused("The response's trailers are larger than \(Self.trailerLimit) bytes.")
    }

    /// Notes the fields that say where the body ends and how it is encoded, and whether there are cookies.
    private mutating func noteFraming(in line: UnsafeRawBufferPointer) -> Step {
        // Works on bytes for speed: this runs for each line of each response.
        switch ASCII.lowercased(line[0]) {
        case UInt8(ascii: "c"):
            if line.beginsIgnoringCase(with: Self.lengthName) {
                var value = line[Self.lengthName.utf8CodeUnitCount...]
                // A CR that is not of the line's end makes the value none (RFC 9112, section 2.2).
                for end in "\n\r".utf8 where value.last == end { value = value.dropLast() }
                return noteLength(value)
            }
            if line.beginsIgnoringCase(with: Self.encodingName) {
                contentEncodings.append(ASCII.text(ASCII.trimmed(Array(line)[Self.encodingName.utf8CodeUnitCount...])))
            }
            return .more
        case UInt8(ascii: "s"):
            if !setsCookies { setsCookies = line.beginsIgnoringCase(with: Self.cookieName) }
            return .more
        case UInt8(ascii: "t"):
            guard line.beginsIgnoringCase(with: Self.transferName) else { return .more }
            return noteTransferCoding(ASCII.trimmed(Array(line)[Self.transferName.utf8CodeUnitCount...]))
        default: return .more
        }
    }

    /// Notes a `Content-Length`. Two different lengths are a sign of request smuggling (RFC 9112, section 6.3), and an
    /// error.
    private mutating func noteLength(_ values: Slice<UnsafeRawBufferPointer>) -> Step {
        var rest = values
        while true {
            let end = rest.firstIndex(of: UInt8(ascii: ",")) ?? rest.endIndex
            guard let length = Self.number(rest[..<end]) else {
                return .refused("The Content-Length is not a number, or too large for one.")
            }
            if let earlier = announcedLength, earlier != length {
                return .refused("The response announces two different lengths, \(earlier) and \(length).")
            }
            announcedLength = length
            guard end < rest.endIndex else { return .more }
            rest = rest[(end + 1)...]
        }
    }

    /// Notes a `Transfer-Encoding`. Chunks are the only coding that a server may use unasked (RFC 9112, section 7.4).
    /// libcurl would decode others without a limit, and without noticing that one ends early.
    private mutating func noteTransferCoding(_ value: ArraySlice<UInt8>) -> Step {
        if ASCII.equalIgnoringCase(value, "identity".utf8) { return .more }
        guard ASCII.equalIgnoringCase(value, "chunked".utf8), !isChunked else {
            return .refused("The server uses an unsupported transfer coding: \(ASCII.text(value).prefix(100)).")
        }
        isChunked = true
        return .more
    }

    private static var lengthName: StaticString { "content-length:" }
    private static var encodingName: StaticString { "content-encoding:" }
    private static var cookieName: StaticString { "set-cookie:" }
    private static var transferName: StaticString { "transfer-encoding:" }

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

    /// The status code of a line that begins with `HTTP/`: a version of one digit or two, a space, and three digits (RFC 9112,
    /// section 4). To libcurl 7.88 a line with another version has no status, so that a 304 has a body.
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
    /// Whether the bytes begin with a text, which is ASCII.
    func begins(with text: StaticString) -> Bool {
        guard let baseAddress, count >= text.utf8CodeUnitCount else { return false }
        return memcmp(baseAddress, text.utf8Start, text.utf8CodeUnitCount) == 0
    }

    /// The same, ignoring the case of letters.
    func beginsIgnoringCase(with text: StaticString) -> Bool {
        guard let baseAddress, count >= text.utf8CodeUnitCount else { return false }
        return strncasecmp(
            baseAddress.assumingMemoryBound(to: CChar.self),
            UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self), text.utf8CodeUnitCount) == 0
    }
}

/// The relevant part of the head of a proxy's answer to CONNECT: its challenges.
struct TunnelAnswer {
    /// The values of `Proxy-Authenticate`.
    private(set) var challenges: [String] = []
    private var length = 0

    private static let mostBytes = 16 << 10

    mutating func take(_ line: UnsafeRawBufferPointer) {
        // A negotiation has several answers; the last one counts.
        if line.begins(with: "HTTP/") { self = TunnelAnswer() }
        length += line.count
        guard length <= Self.mostBytes, let colon = line.firstIndex(of: UInt8(ascii: ":")),
            ASCII.equalIgnoringCase(line[..<colon], "proxy-authenticate".utf8)
        else { return }
        challenges.append(ASCII.text(ASCII.trimmed(Array(line[(colon + 1)...])[...])))
    }
}
