import ConvoySupport
import Foundation

/// A parser for streams of server-sent events, by the algorithm of the WHATWG standard (HTML, section 9.2.6), from
/// pieces of any length.
///
/// ```swift
/// var parser = EventStreamParser()
/// for try await chunk in bytes.chunks {
///     for event in try parser.parse(chunk) { print(event.type, event.data) }
/// }
/// ```
///
/// Lines end with LF, CR or CR LF; a byte order mark at the start is skipped, and bytes that are not UTF-8 become
/// U+FFFD. An event without a blank line at the end of the stream is dropped. The parser is a value: a copy continues
/// from the same position.
package struct EventStreamParser: Sendable {
    /// The maximum length of a line without its end, in bytes; nil, the default, uses ``maximumEventLength``.
    package let maximumLineLength: Int?
    /// The maximum length of an event's data, including a line feed for each line, in bytes; 8 MiB by default.
    package let maximumEventLength: Int

    /// The last event ID, for `Last-Event-ID` on reconnecting: the value of the last `id` field before the last blank
    /// line, or the one from the initializer.
    package private(set) var lastEventID: String
    /// The reconnection delay in the last `retry` field, in seconds; nil if none has arrived. Any number of digits is
    /// valid.
    package private(set) var retryInterval: TimeInterval?

    /// The identifier of the current event.
    private var identifier: String
    private var type = ""
    /// The data of the current event, with a line feed after each line.
    private var data: [UInt8] = []
    /// The part of a line from earlier pieces.
    private var partialLine: [UInt8] = []
    /// Whether the last piece ended with CR, so that an LF at the start of the next piece belongs to it.
    private var skipsLineFeed = false
    private var isAtStart = true
    private var failure: EventSourceError?
    /// ``maximumLineLength``, or the length that the longest event needs.
    private let lineLimit: Int

    /// Whether comments are kept.
    var keepsComments = false
    /// The comments of the last piece, each with the number of events before it.
    private(set) var comments: [(text: String, position: Int)] = []

    /// Creates a parser at the start of a stream.
    ///
    /// - Parameters:
    ///   - lastEventID: The last event ID of the stream that this one continues.
    ///   - maximumLineLength: The maximum length of a line in bytes, at least 1; nil uses `maximumEventLength`.
    ///   - maximumEventLength: The maximum length of an event in bytes, at least 1.
    package init(lastEventID: String = "", maximumLineLength: Int? = nil, maximumEventLength: Int = 8 << 20) {
        self.lastEventID = lastEventID
        identifier = lastEventID
        self.maximumLineLength = maximumLineLength.map { max(1, $0) }
        self.maximumEventLength = max(1, maximumEventLength)
        // Leave room for a field's name and a byte order mark, without overflow.
        lineLimit = min(self.maximumLineLength ?? self.maximumEventLength, .max - 64) + (maximumLineLength == nil ? 16 : 0)
    }

    /// Returns the events that end in the next piece of the stream, in order.
    ///
    /// - Throws: ``EventSourceError``, which all later calls throw again. Events before the error are lost; the method
    ///   with an `inout` parameter keeps them.
    package mutating func parse(_ piece: some ContiguousBytes) throws(EventSourceError) -> [ServerSentEvent] {
        var events: [ServerSentEvent] = []
        let failure = piece.withUnsafeBytes { bytes -> EventSourceError? in
            do throws(EventSourceError) {
                try parse(bytes, into: &events)
                return nil
            } catch {
                return error
            }
        }
        if let failure { throw failure }
        return events
    }

    /// Appends the events that end in the next piece of the stream to an array.
    ///
    /// - Throws: ``EventSourceError``, which all later calls throw again. Events before the error have been appended.
    package mutating func parse(
        _ piece: UnsafeRawBufferPointer, into events: inout [ServerSentEvent]
    ) throws(EventSourceError) {
        if let failure { throw failure }
        if !comments.isEmpty { comments = [] }
        do throws(EventSourceError) {
            try read(piece, &events)
        } catch {
            // Release the buffers of an excessive line or event.
            failure = error
            data = []
            partialLine = []
            throw error
        }
    }

    // MARK: Lines

    private mutating func read(
        _ piece: UnsafeRawBufferPointer, _ events: inout [ServerSentEvent]
    ) throws(EventSourceError) {
        guard let base = piece.baseAddress, !piece.isEmpty else { return }
        var start = 0
        if skipsLineFeed {
            skipsLineFeed = false
            if piece[0] == .lineFeed { start = 1 }
        }
        var borrowed = Borrowed()
        defer { keep(&borrowed) }
        // These are the positions of the next LF and CR, or the end of the piece. Each is searched again only once it
        // has been passed.
        var (lineFeed, carriageReturn) = (-1, -1)
        while start < piece.count {
            if lineFeed < start { lineFeed = Self.position(of: .lineFeed, in: base, start, piece.count) }
            if carriageReturn < start {
                carriageReturn = Self.position(of: .carriageReturn, in: base, start, piece.count)
            }
            let end = min(lineFeed, carriageReturn)
            let line = UnsafeRawBufferPointer(start: base + start, count: end - start)
            guard end < piece.count else { return try keep(line) }
            if partialLine.isEmpty {
                try interpret(line, &borrowed, &events)
            } else {
                keep(&borrowed)
                try finish(line, &events)
            }
            start = end + 1
            guard end == carriageReturn else { continue }
            if start == piece.count { skipsLineFeed = true } else if piece[start] == .lineFeed { start += 1 }
        }
    }

    /// The data of an event that is a single line of the current piece, to avoid copying it.
    private struct Borrowed {
        var line: UnsafeRawBufferPointer?
    }

    /// Copies borrowed data.
    private mutating func keep(_ borrowed: inout Borrowed) {
        guard let line = borrowed.line.take() else { return }
        data.append(contentsOf: line)
        data.append(.lineFeed)
    }

    private static func position(of byte: UInt8, in base: UnsafeRawPointer, _ start: Int, _ end: Int) -> Int {
        guard start < end, let found = memchr(base + start, Int32(byte), end - start) else { return end }
        return UnsafeRawPointer(found) - base
    }

    /// Stores the start of a line whose end has not arrived.
    private mutating func keep(_ part: UnsafeRawBufferPointer) throws(EventSourceError) {
        // A byte order mark at the start is not a part of the line.
        let mark = isAtStart ? 3 : 0
        guard part.count <= lineLimit + mark - min(partialLine.count, lineLimit + mark) else { throw lineTooLong }
        partialLine.append(contentsOf: part)
    }

    /// Completes a line that began in an earlier piece.
    private mutating func finish(
        _ line: UnsafeRawBufferPointer, _ events: inout [ServerSentEvent]
    ) throws(EventSourceError) {
        try keep(line)
        var whole: [UInt8] = []
        swap(&whole, &partialLine)
        let failure = whole.withUnsafeBytes { bytes -> EventSourceError? in
            do throws(EventSourceError) {
                var borrowed = Borrowed()
                defer { keep(&borrowed) }
                try interpret(bytes, &borrowed, &events)
                return nil
            } catch {
                return error
            }
        }
        if let failure { throw failure }
        // Do not keep the memory of a long line.
        if whole.capacity <= Self.keptCapacity { partialLine = whole }
        partialLine.removeAll(keepingCapacity: true)
    }

    /// The largest buffer to reuse for the next line or event, in bytes.
    private static let keptCapacity = 64 << 10

    // MARK: Fields

    private mutating func interpret(
        _ line: UnsafeRawBufferPointer, _ borrowed: inout Borrowed, _ events: inout [ServerSentEvent]
    ) throws(EventSourceError) {
        var line = line
        if isAtStart {
            isAtStart = false
            if line.starts(with: [0xEF, 0xBB, 0xBF]) { line = UnsafeRawBufferPointer(rebasing: line[3...]) }
        }
        guard !line.isEmpty else { return dispatch(&borrowed, &events) }
        guard line.count <= lineLimit else { throw lineTooLong }
        switch line[0] {
        case .d:
            guard let value = Self.value(of: "data", in: line) else { return }
            // This is the length of the earlier lines, each with a line feed.
            let taken = data.count + (borrowed.line.map { $0.count + 1 } ?? 0)
            guard value.count < maximumEventLength - taken else { throw .eventTooLong(limit: maximumEventLength) }
            if borrowed.line == nil, data.isEmpty {
                borrowed.line = value
            } else {
                keep(&borrowed)
                data.append(contentsOf: value)
                data.append(.lineFeed)
            }
        case .e:
            guard let value = Self.value(of: "event", in: line) else { return }
            guard value.count <= maximumEventLength else { throw .eventTooLong(limit: maximumEventLength) }
            type = String(decoding: value, as: UTF8.self)
        case .i:
            guard let value = Self.value(of: "id", in: line) else { return }
            guard value.count <= maximumEventLength else { throw .eventTooLong(limit: maximumEventLength) }
            if !value.contains(0) {
                identifier = String(decoding: value, as: UTF8.self)
            }
        case .r: if let value = Self.value(of: "retry", in: line) { setRetryInterval(value) }
        case .colon where keepsComments:
            guard let value = Self.value(of: "", in: line) else { return }
            comments.append((String(decoding: value, as: UTF8.self), events.count))
        default: break
        }
    }

    /// Returns the value of a line if its field has this name; nil otherwise.
    private static func value(of name: StaticString, in line: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        let length = name.utf8CodeUnitCount
        guard let base = line.baseAddress, line.count >= length, memcmp(base, name.utf8Start, length) == 0 else {
            return nil
        }
        guard line.count > length else { return UnsafeRawBufferPointer(start: base + length, count: 0) }
        guard line[length] == .colon else { return nil }
        let start = line.count > length + 1 && line[length + 1] == .space ? length + 2 : length + 1
        return UnsafeRawBufferPointer(start: base + start, count: line.count - start)
    }

    private var lineTooLong: EventSourceError {
        maximumLineLength.map { .lineTooLong(limit: $0) } ?? .eventTooLong(limit: maximumEventLength)
    }

    private mutating func setRetryInterval(_ digits: UnsafeRawBufferPointer) {
        guard !digits.isEmpty, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return }
        // Clamp the value, because a larger one is practically infinite.
        let milliseconds = digits.reduce(0.0) { min($0 * 10 + Double($1 - 0x30), 1e18) }
        retryInterval = milliseconds / 1000
    }

    private mutating func dispatch(_ borrowed: inout Borrowed, _ events: inout [ServerSentEvent]) {
        lastEventID = identifier
        let kind = type
        type = ""
        let text: String
        if let line = borrowed.line.take() {
            text = String(decoding: line, as: UTF8.self)
        } else {
            guard !data.isEmpty else { return }
            text = data.withUnsafeBytes {
                String(decoding: UnsafeRawBufferPointer(rebasing: $0.dropLast()), as: UTF8.self)
            }
            if data.capacity <= Self.keptCapacity { data.removeAll(keepingCapacity: true) } else { data = [] }
        }
        events.append(ServerSentEvent(type: kind.isEmpty ? "message" : kind, data: text, lastEventID: identifier))
    }
}

extension UInt8 {
    fileprivate static let lineFeed: UInt8 = 0x0A
    fileprivate static let carriageReturn: UInt8 = 0x0D
    fileprivate static let colon: UInt8 = 0x3A
    fileprivate static let space: UInt8 = 0x20
    fileprivate static let d: UInt8 = 0x64
    fileprivate static let e: UInt8 = 0x65
    fileprivate static let i: UInt8 = 0x69
    fileprivate static let r: UInt8 = 0x72
}
