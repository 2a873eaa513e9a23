import Foundation

/// Gathers the lines of a response's head as libcurl hands them over, and judges what libcurl lets pass.
///
/// A value without I/O. One head at a time: an interim response (1xx) makes room for the next.
struct HeadParser {
    enum Step {
        /// The head goes on, or an interim response has ended.
        case more
        /// The head is whole.
        case whole
        /// Lines after the head: trailers, which nobody asked for.
        case trailer
        /// The head cannot be trusted; why, in words for the user.
        case refused(String)
    }

    /// OkHttp's limit. More is a broken server, or one that means harm.
    static let sizeLimit = 256 << 10

    private(set) var bytes: [UInt8] = []
    private(set) var statusCode = 0
    private(set) var contentLength: Int64?
    private(set) var isEncoded = false
    private var isWhole = false
    private var isInterim = false

    mutating func reset() {
        // Those of the last head belong to its response.
        bytes = []
        bytes.reserveCapacity(512)
        statusCode = 0
        contentLength = nil
        isEncoded = false
        isWhole = false
        isInterim = false
    }

    mutating func take(_ line: UnsafeRawBufferPointer) -> Step {
        if line.starts(with: "HTTP/".utf8), bytes.isEmpty || isWhole || isInterim {
            reset()
            guard let code = Self.statusCode(of: line) else { return .refused("The status line is malformed.") }
            statusCode = code
            isInterim = code < 200
        } else if isWhole {
            return .trailer
        }
        guard bytes.count + line.count <= Self.sizeLimit else {
            return .refused("The response's header is larger than \(Self.sizeLimit) bytes.")
        }
        bytes.append(contentsOf: line)
        if line.count <= 2, line.allSatisfy(ASCII.isWhitespace) {
            if isInterim { return .more }
            isWhole = true
            return .whole
        }
        return noteLength(in: line)
    }

    /// Two different lengths are how requests are smuggled (RFC 9112, section 6.3): no guess is safe.
    private mutating func noteLength(in line: UnsafeRawBufferPointer) -> Step {
        // On the bytes: this runs for each line of each response.
        guard line.count > Self.lengthName.count, ASCII.lowercased(line[0]) == UInt8(ascii: "c"),
            line[7] == UInt8(ascii: "-")
        else { return .more }
        if Self.hasName(line, Self.encodingName) {
            isEncoded = !ASCII.equalIgnoringCase(
                line[Self.encodingName.count...].filter { !ASCII.isWhitespace($0) }, "identity".utf8)
            return .more
        }
        guard Self.hasName(line, Self.lengthName) else { return .more }
        for value in line[Self.lengthName.count...].split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
            guard let length = Self.number(value) else { return .refused("The Content-Length is not a number.") }
            if let earlier = contentLength, earlier != length {
                return .refused("The response announces two different lengths, \(earlier) and \(length).")
            }
            contentLength = length
        }
        return .more
    }

    private static let lengthName = Array("content-length:".utf8)
    private static let encodingName = Array("content-encoding:".utf8)

    private static func hasName(_ line: UnsafeRawBufferPointer, _ name: [UInt8]) -> Bool {
        guard line.count >= name.count else { return false }
        for index in 0..<name.count where ASCII.lowercased(line[index]) != name[index] { return false }
        return true
    }

    private static func number(_ text: Slice<UnsafeRawBufferPointer>) -> Int64? {
        var value: Int64 = 0
        var digits = 0
        var hasEnded = false
        for byte in text {
            if ASCII.isWhitespace(byte) {
                hasEnded = digits > 0
                continue
            }
            guard !hasEnded, byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9"), digits < 18 else { return nil }
            value = value * 10 + Int64(byte - UInt8(ascii: "0"))
            digits += 1
        }
        return digits > 0 ? value : nil
    }

    private static func statusCode(of line: UnsafeRawBufferPointer) -> Int? {
        guard let space = line.firstIndex(of: UInt8(ascii: " ")), space + 4 <= line.count else { return nil }
        var code = 0
        for byte in line[(space + 1)..<(space + 4)] {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            code = code * 10 + Int(byte - UInt8(ascii: "0"))
        }
        return code >= 100 ? code : nil
    }
}
