/// HTTP/2 frames (RFC 9113, section 4.1).
struct Frame {
    enum Kind {
        static let data: UInt8 = 0
        static let headers: UInt8 = 1
        static let reset: UInt8 = 3
        static let settings: UInt8 = 4
        static let push: UInt8 = 5
        static let goAway: UInt8 = 7
        static let windowUpdate: UInt8 = 8
        static let continuation: UInt8 = 9
    }

    enum Flag {
        static let endStream: UInt8 = 1
        static let acknowledgement: UInt8 = 1
        static let endHeaders: UInt8 = 4
        static let padded: UInt8 = 8
        static let priority: UInt8 = 32
    }

    var kind: UInt8
    var flags: UInt8
    var stream: UInt32
    var payload: [UInt8]

    /// The frame as it is sent.
    var bytes: [UInt8] {
        [UInt8(payload.count >> 16 & 255), UInt8(payload.count >> 8 & 255), UInt8(payload.count & 255), kind, flags]
            + Self.bytes(stream) + payload
    }

    static func bytes(_ number: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
    }

    static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 { bytes.reduce(0) { $0 << 8 | UInt32($1) } }

    /// Reads the first frame. Returns nil if it is incomplete.
    static func first(of bytes: [UInt8], from position: inout Int) -> Frame? {
        guard bytes.count - position >= 9 else { return nil }
        let count = Int(number(bytes[position..<(position + 3)]))
        guard bytes.count - position >= 9 + count else { return nil }
        defer { position += 9 + count }
        return Frame(
            kind: bytes[position + 3], flags: bytes[position + 4],
            stream: number(bytes[(position + 5)..<(position + 9)]) & 0x7FFF_FFFF,
            payload: Array(bytes[(position + 9)..<(position + 9 + count)]))
    }
}

/// A parser of the response to the first request of a connection by RFC 9113, independent of nghttp2 and libcurl, which
/// determines the meaning of damaged frames.
struct FrameReader {
    private var decoder = HPACKDecoder()
    private var head: [HPACKDecoder.Field]?
    private var body: [UInt8] = []
    private var hasEnded = false

    /// The end of a response.
    enum End {
        /// The response ends with its stream.
        case stream
        /// The response also ends with the last byte of the announced length.
        case length
        /// A response without an announced length also ends with a frame that violates the protocol.
        case invalidFrame
    }

    /// Returns the response; nil if it is incomplete, or the frames are invalid.
    static func read(_ bytes: [UInt8], to method: String, until end: End = .stream) -> MessageReader.Response? {
        var (reader, position) = (FrameReader(), 0)
        var isBroken = false
        while !reader.hasEnded, !isBroken {
            // A frame that is too long need not be complete.
            isBroken = bytes.count - position >= 9 && Frame.number(bytes[position..<(position + 3)]) > 16_384
            guard !isBroken, let frame = Frame.first(of: bytes, from: &position) else { break }
            isBroken = !reader.take(frame, bytes, &position)
        }
        if end == .length, !reader.hasEnded { reader.takeBeginning(Array(bytes[position...])) }
        guard let head = reader.head, let status = reader.status(of: head) else { return nil }
        var response = MessageReader.Response()
        response.status = status
        response.fields = head.map { MessageReader.Field(name: $0.name, value: $0.value) }
        response.body = reader.body
        let hasBody = method != "HEAD" && status != 204 && status != 304
        let length = response.values("content-length").first
        if hasBody, let length, Int(length) != reader.body.count { return nil }
        switch end {
        case .stream: return reader.hasEnded ? response : nil
        case .length: return reader.hasEnded || status >= 200 && (!hasBody || length != nil) ? response : nil
        case .invalidFrame: return isBroken && status >= 200 && length == nil ? response : nil
        }
    }

    /// Takes the received part of an incomplete DATA frame, which a client may deliver before the rest.
    private mutating func takeBeginning(_ bytes: [UInt8]) {
        guard bytes.count > 9, bytes[3] == Frame.Kind.data, bytes[4] & Frame.Flag.padded == 0, bytes[8] == 1,
            head.flatMap({ status(of: $0) }).map({ $0 >= 200 }) == true
        else { return }
        body += bytes[9...]
    }

    private func status(of head: [HPACKDecoder.Field]) -> Int? {
        let values = head.filter { $0.name == ":status" }
        guard values.count == 1, values[0].value.utf8.count == 3 else { return nil }
        return Int(values[0].value)
    }

    /// Returns false if the frame breaks the connection or the stream.
    private mutating func take(_ frame: Frame, _ bytes: [UInt8], _ position: inout Int) -> Bool {
        switch frame.kind {
        case Frame.Kind.data:
            guard frame.stream == 1, let head, status(of: head).map({ $0 >= 200 }) == true,
                let content = Self.unpadded(frame)
            else { return false }
            body += content
        case Frame.Kind.headers:
            guard frame.stream == 1, var block = Self.unpadded(frame) else { return false }
            if frame.flags & Frame.Flag.priority != 0 {
                guard block.count >= 5 else { return false }
                block.removeFirst(5)
            }
            var isWhole = frame.flags & Frame.Flag.endHeaders != 0
            while !isWhole {
                guard let next = Frame.first(of: bytes, from: &position) else { return true }
                guard next.kind == Frame.Kind.continuation, next.stream == 1 else { return false }
                block += next.payload
                isWhole = next.flags & Frame.Flag.endHeaders != 0
            }
            guard let fields = decoder.decode(block) else { return false }
            if let head, let status = status(of: head), status >= 200 {
                guard frame.flags & Frame.Flag.endStream != 0 else { return false }
            } else {
                head = fields
            }
        case Frame.Kind.settings, Frame.Kind.goAway, Frame.Kind.windowUpdate: return true
        case Frame.Kind.reset, Frame.Kind.push, Frame.Kind.continuation: return false
        default: return true
        }
        hasEnded = frame.flags & Frame.Flag.endStream != 0
        return true
    }

    private static func unpadded(_ frame: Frame) -> [UInt8]? {
        guard frame.flags & Frame.Flag.padded != 0 else { return frame.payload }
        guard let padding = frame.payload.first.map(Int.init), padding < frame.payload.count else { return nil }
        return Array(frame.payload[1..<(frame.payload.count - padding)])
    }
}
