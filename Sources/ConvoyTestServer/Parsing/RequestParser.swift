import ConvoySupport
import Foundation

/// Parses requests from a stream of bytes: a plain value that does no I/O and keeps no bytes.
///
/// It is given the bytes that have arrived and are not consumed, and returns how many of them it has consumed. No
/// sequence of bytes can make it trap.
struct RequestParser {
    /// The result of a step.
    enum Event {
        /// Nothing, until more bytes come.
        case needsMore
        /// A complete head.
        case head(RequestHead)
        /// Bytes of the body: a range of the given ones.
        case body(Range<Int>)
        /// The end of the request, with the trailer fields of a chunked body. The next bytes are another request.
        case end(trailers: TestServer.Headers)
        /// This is not a valid request. The parser must not be called again.
        case failed(RequestFailure)
    }

    private enum State {
        case head, length(Int), chunkSize, chunk(Int), chunkEnd, trailers, end
    }

    /// The maximum size in bytes of a head, a chunk size line or a trailer section.
    let limit: Int
    private var state = State.head
    /// How far the bytes have been searched for the end of a head, so that a slow head costs no more than a fast one.
    private var searched = 0
    private var lineStarts: [Int] = [0]

    init(limit: Int) {
        self.limit = limit
    }

    /// Whether a request has begun and not ended.
    var isInsideRequest: Bool {
        if case .head = state { return false }
        return true
    }

    /// Continues parsing. `consumed` bytes must not be passed in again.
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

    /// The lines up to an empty one, and the offset after that; nil if it has not come yet.
    private mutating func section(
        _ bytes: UnsafeRawBufferPointer
    ) throws(RequestFailure) -> (lines: [UnsafeRawBufferPointer], end: Int)? {
        while let feed = lineFeed(bytes, from: searched) {
            guard feed > 0, bytes[feed - 1] == 13 else { throw RequestFailure(400, "a line that does not end in CR LF") }
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
            guard bytes.count < limit else { throw RequestFailure(400, "a chunk size line without an end") }
            return (0, .needsMore)
        }
        guard feed > 0, bytes[feed - 1] == 13 else { throw RequestFailure(400, "a line that does not end in CR LF") }
        let line = bytes[..<(feed - 1)]
        let digits = line.prefix { $0 != 0x3B && $0 != 0x20 && $0 != 0x09 }
        guard !digits.isEmpty, digits.count <= 15, digits.allSatisfy(ASCII.isHexadecimal),
            let size = Int(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw RequestFailure(400, "bad chunk size") }
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
