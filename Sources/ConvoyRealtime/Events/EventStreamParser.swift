import Foundation

/// Parses a stream of server-sent events by the algorithm of the WHATWG standard (HTML, section 9.2.6), from pieces of any
/// length.
///
/// ```swift
/// var parser = EventStreamParser()
/// for try await chunk in bytes.chunks {
///     for event in try parser.parse(chunk) { print(event.type, event.data) }
/// }
/// ```
///
/// Lines end with LF, CR or CR LF; a byte order mark at the start is skipped, and bytes that are no UTF-8 become U+FFFD. An
/// event that has no blank line after it when the stream ends is none. A value: a copy goes on from the same place.
public struct EventStreamParser: Sendable {
    /// How many bytes a line may have, without its end. Nil, the default, for as many as the data of an event.
    public let maximumLineLength: Int?
    /// How many bytes the data of one event may have, with a line feed for each line. 8 MiB by default.
    public let maximumEventLength: Int

    /// The last event ID: that of the latest `id` before the latest blank line, or the one that the parser was made with. What
    /// a client sends as `Last-Event-ID` when it connects again.
    public private(set) var lastEventID: String
    /// The time, in seconds, that the latest `retry` asks clients to wait before they connect again; nil where there was
    /// none. Whatever its number of digits it is a number.
    public private(set) var retryInterval: TimeInterval?

    /// The identifier of the event that is being read.
    private var identifier: String
    private var type = ""
    /// The data of the event that is being read: each line of it, and a line feed.
    private var data: [UInt8] = []
    /// The part of a line that has come with earlier pieces.
    private var partialLine: [UInt8] = []
    /// Whether the latest piece ended with CR: an LF at the start of the next belongs to it.
    private var skipsLineFeed = false
    private var isAtStart = true
    private var failure: EventStreamError?
    /// ``maximumLineLength``, or what a line needs for the longest event.
    private let lineLimit: Int

    /// Whether comments are kept.
    var keepsComments = false
    /// The comments of the latest piece, and how many of the events came before each.
    private(set) var comments: [(text: String, position: Int)] = []

    /// A parser at the start of a stream.
    ///
    /// - Parameters:
    ///   - lastEventID: of an earlier stream that this one goes on with.
    ///   - maximumLineLength: in bytes, at least 1; nil for as long as an event.
    ///   - maximumEventLength: in bytes, at least 1.
    public init(lastEventID: String = "", maximumLineLength: Int? = nil, maximumEventLength: Int = 8 << 20) {
        (self.lastEventID, identifier) = (lastEventID, lastEventID)
        self.maximumLineLength = maximumLineLength.map { max(1, $0) }
        self.maximumEventLength = max(1, maximumEventLength)
        // The name of a field, and a byte order mark, come on top; no sum overflows.
        lineLimit = min(self.maximumLineLength ?? self.maximumEventLength, .max - 64) + (maximumLineLength == nil ? 16 : 0)
    }

    /// The events that end in the next piece of the stream, in order.
    ///
    /// - Throws: ``EventStreamError``, at once for each later piece, too. Events before it are lost; the other form keeps
    ///   them.
    public mutating func parse(_ piece: some ContiguousBytes) throws(EventStreamError) -> [ServerSentEvent] {
        var events: [ServerSentEvent] = []
        let failure = piece.withUnsafeBytes { bytes -> EventStreamError? in
            do throws(EventStreamError) {
                try parse(bytes, into: &events)
                return nil
            } catch {
                return error
            }
        }
        if let failure { throw failure }
        return events
    }

    /// Adds the events that end in the next piece of the stream to an array.
    ///
    /// - Throws: ``EventStreamError``, at once for each later piece, too. The events before it have been added.
    public mutating func parse(
        _ piece: UnsafeRawBufferPointer, into events: inout [ServerSentEvent]
    ) throws(EventStreamError) {
        if let failure { throw failure }
        if !comments.isEmpty { comments = [] }
        do throws(EventStreamError) {
            try read(piece, &events)
        } catch {
            // Nothing of what is too long is kept.
            (failure, data, partialLine) = (error, [], [])
            throw error
        }
    }

    // MARK: Lines

    private mutating func read(
        _ piece: UnsafeRawBufferPointer, _ events: inout [ServerSentEvent]
    ) throws(EventStreamError) {
        guard let base = piece.baseAddress, !piece.isEmpty else { return }
        var start = 0
        if skipsLineFeed {
            skipsLineFeed = false
            if piece[0] == .lineFeed { start = 1 }
        }
        var borrowed = Borrowed()
        defer { keep(&borrowed) }
        // Where the next of each is; the end if there is none. Looked for again only when it has been passed.
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

    /// The data of an event, as long as it is one line of the piece that is being read: it need not be copied then.
    private struct Borrowed {
        var line: UnsafeRawBufferPointer?
    }

    /// Copies what was borrowed.
    private mutating func keep(_ borrowed: inout Borrowed) {
        guard let line = borrowed.line.take() else { return }
        data.append(contentsOf: line)
        data.append(.lineFeed)
    }

    private static func position(of byte: UInt8, in base: UnsafeRawPointer, _ start: Int, _ end: Int) -> Int {
        guard start < end, let found = memchr(base + start, Int32(byte), end - start) else { return end }
        return UnsafeRawPointer(found) - base
    }

    /// Keeps the beginning of a line whose end has not come.
    private mutating func keep(_ part: UnsafeRawBufferPointer) throws(EventStreamError) {
        // A byte order mark at the start is not a part of the line.
        let mark = isAtStart ? 3 : 0
        guard part.count <= lineLimit + mark - min(partialLine.count, lineLimit + mark) else { throw lineTooLong }
        partialLine.append(contentsOf: part)
    }

    /// Takes the rest of a line that has begun in an earlier piece.
    private mutating func finish(
        _ line: UnsafeRawBufferPointer, _ events: inout [ServerSentEvent]
    ) throws(EventStreamError) {
        try keep(line)
        var whole: [UInt8] = []
        swap(&whole, &partialLine)
        let failure = whole.withUnsafeBytes { bytes -> EventStreamError? in
            do throws(EventStreamError) {
                var borrowed = Borrowed()
                defer { keep(&borrowed) }
                try interpret(bytes, &borrowed, &events)
                return nil
            } catch {
                return error
            }
        }
        if let failure { throw failure }
        // One long line does not keep its memory for ever.
        if whole.capacity <= Self.keptCapacity { partialLine = whole }
        partialLine.removeAll(keepingCapacity: true)
    }

    /// The largest buffer that is kept for the next line or event.
    private static let keptCapacity = 64 << 10

    // MARK: Fields

    private mutating func interpret(
        _ line: UnsafeRawBufferPointer, _ borrowed: inout Borrowed, _ events: inout [ServerSentEvent]
    ) throws(EventStreamError) {
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
            // Lines that came before, each with a line feed, and this one.
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

    /// The value of a line, if its field has the name.
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

    private var lineTooLong: EventStreamError {
        maximumLineLength.map { .lineTooLong(limit: $0) } ?? .eventTooLong(limit: maximumEventLength)
    }

    private mutating func setRetryInterval(_ digits: UnsafeRawBufferPointer) {
        guard !digits.isEmpty, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return }
        // Above that, it is for ever in any case.
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
