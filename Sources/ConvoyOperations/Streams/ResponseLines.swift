import Foundation

/// The lines of a response body as they arrive: ``ResponseBytes/lines(maximumLength:)``.
public struct ResponseLines: AsyncSequence, Sendable {
    /// A line without its terminator.
    public typealias Element = String

    let reading: ResponseReading
    let maximumLength: Int

    /// An iterator over the lines. Releasing it ends the transfer.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private var chunks: ResponseChunks.AsyncIterator
        private var splitter: LineSplitter

        init(_ reading: ResponseReading, maximumLength: Int) {
            chunks = ResponseChunks.AsyncIterator(reading)
            splitter = LineSplitter(maximumLength: maximumLength)
        }

        /// Returns the next line; nil at the end.
        public mutating func next() async throws -> String? { try await next(isolation: nil) }

        /// Returns the next line; nil at the end.
        ///
        /// - Throws: The operation's error, ``ResponseBytesError/lineTooLong(limit:)`` or
        ///   ``ResponseBytesError/isIterated``.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> String? {
            // After a cancellation, discard the lines that have already arrived.
            if Task.isCancelled { splitter = LineSplitter(maximumLength: splitter.maximumLength) }
            do {
                while true {
                    if let line = try splitter.next() { return line }
                    guard let chunk = try await chunks.next(isolation: actor) else { return splitter.finish() }
                    splitter.add(chunk)
                }
            } catch {
                chunks.end()
                splitter = LineSplitter(maximumLength: splitter.maximumLength)
                throw error
            }
        }
    }

    /// Creates an iterator. Only one iterator receives lines.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reading, maximumLength: maximumLength) }
}

/// A splitter of bytes into lines, regardless of block boundaries. A line ends with LF, CR or CR LF.
///
/// A CR ends its line immediately; a following LF is skipped with the next byte.
struct LineSplitter {
    let maximumLength: Int
    private var bytes: [UInt8] = []
    private var position = 0
    /// The start of a line whose rest has not arrived.
    private var begun: [UInt8] = []
    /// Whether a following LF belongs to the CR before it.
    private var skipsLineFeed = false

    init(maximumLength: Int) { self.maximumLength = maximumLength }

    /// Adds bytes. All earlier bytes must have been split.
    mutating func add(_ chunk: Data) {
        bytes = [UInt8](chunk)
        position = 0
    }

    /// Returns the next complete line; nil until more bytes arrive.
    mutating func next() throws(ResponseBytesError) -> String? {
        if skipsLineFeed, position < bytes.count {
            skipsLineFeed = false
            if bytes[position] == 0x0A { position += 1 }
        }
        let start = position
        guard let end = bytes[start...].firstIndex(where: { $0 == 0x0A || $0 == 0x0D }) else {
            try checkLength(begun.count + bytes.count - start)
            begun += bytes[start...]
            bytes = []
            position = 0
            return nil
        }
        try checkLength(begun.count + end - start)
        skipsLineFeed = bytes[end] == 0x0D
        position = end + 1
        guard !begun.isEmpty else { return String(decoding: bytes[start..<end], as: UTF8.self) }
        defer { begun = [] }
        return String(decoding: begun + bytes[start..<end], as: UTF8.self)
    }

    /// Returns the last line, if it has no terminator.
    mutating func finish() -> String? {
        guard !begun.isEmpty else { return nil }
        defer { begun = [] }
        return String(decoding: begun, as: UTF8.self)
    }

    private func checkLength(_ length: Int) throws(ResponseBytesError) {
        if length > maximumLength { throw .lineTooLong(limit: maximumLength) }
    }
}
