import Foundation

/// The lines of a response's body as they come: ``ResponseBytes/lines(maximumLength:)``.
public struct ResponseLines: AsyncSequence, Sendable {
    /// A line without its end.
    public typealias Element = String

    let reading: ResponseReading
    let maximumLength: Int

    /// Iterates over the lines. When it is gone, the transfer ends.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private var chunks: ResponseChunks.AsyncIterator
        private var splitter: LineSplitter

        init(_ reading: ResponseReading, maximumLength: Int) {
            chunks = ResponseChunks.AsyncIterator(reading)
            splitter = LineSplitter(maximumLength: maximumLength)
        }

        /// The next line; nil at the end.
        public mutating func next() async throws -> String? { try await next(isolation: nil) }

        /// The next line; nil at the end.
        ///
        /// - Throws: the operation's error, ``ResponseBytesError/lineTooLong(limit:)`` or
        ///   ``ResponseBytesError/isIterated``.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> String? {
            // The lines that are there already are not wanted any more.
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

    /// An iterator, the only one that gets lines.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reading, maximumLength: maximumLength) }
}
