import Foundation

/// The body of a response as it arrives, in blocks of bytes: ``ResponseBytes/chunks``.
///
/// The size of a block depends on the network and on the reader: it contains everything since the last one, and is
/// never empty.
public struct ResponseChunks: AsyncSequence, Sendable {
    /// Bytes of the body, in their order.
    public typealias Element = Data

    let reading: ResponseReading

    /// Iterates over the blocks. Releasing it ends the transfer.
    public struct AsyncIterator: AsyncIteratorProtocol {
        /// Ends the transfer when the last iterator is released, even if the sequence is not: it could not be read
        /// again.
        private final class Reader {
            let reading: ResponseReading
            init(_ reading: ResponseReading) { self.reading = reading }
            deinit { reading.end() }
        }

        private var reader: Reader?
        private var failure: ResponseBytesError?

        init(_ reading: ResponseReading) {
            if reading.claim() { reader = Reader(reading) } else { failure = .isIterated }
        }

        /// The next block; nil at the end.
        public mutating func next() async throws -> Data? { try await next(isolation: nil) }

        /// The next block; nil at the end.
        ///
        /// - Throws: the operation's error, or ``ResponseBytesError/isIterated``.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Data? {
            if let failure = failure.take() { throw failure }
            guard let reader else { return nil }
            do {
                if let chunk = try await reader.reading.next() { return chunk }
            } catch {
                self.reader = nil
                throw error
            }
            self.reader = nil
            return nil
        }

        /// Ends the transfer: nothing more is read.
        mutating func end() { reader = nil }
    }

    /// An iterator; only one gets blocks.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reading) }
}
