import Foundation

/// The events of a source as an asynchronous sequence.
///
/// ```swift
/// for try await event in source.events where event.type == "price" { show(event.data) }
/// ```
///
/// A sequence has the events that come after it was asked for, for one loop; each reader asks for one of its own. It goes on
/// over all connections of the source, and ends when that is closed, after the events that have come before; it throws the
/// error of a source that has failed, and `URLError.cancelled` of one that was cancelled. Cancelling the task ends the loop.
///
/// A reader that is slow has the transfer wait, and with it all other readers, as soon as 128 KiB of events wait for it: so a
/// sequence that is not read is best let go of. A source that nobody has enqueued or started is started by the loop.
public struct ServerSentEvents: AsyncSequence, Sendable {
    /// An event.
    public typealias Element = ServerSentEvent

    let reading: EventReading

    /// The source of the events.
    public var source: EventSource { reading.source }

    /// Iterates over the events. When it is gone, the reader has left.
    public struct AsyncIterator: AsyncIteratorProtocol {
        /// Leaves when the only iterator is gone, whoever may still have the sequence: another could not read.
        private final class Reader: Sendable {
            let reading: EventReading
            init(_ reading: EventReading) { self.reading = reading }
            deinit { reading.leave() }
        }

        /// Nil where another loop reads.
        private let reader: Reader?
        private var events: [ServerSentEvent] = []
        private var position = 0

        init(_ reading: EventReading) {
            reader = reading.claim() ? Reader(reading) : nil
        }

        /// The next event; nil at the end.
        public mutating func next() async throws -> ServerSentEvent? { try await next(isolation: nil) }

        /// The next event; nil at the end. Mostly it is there already, and nothing is waited for.
        ///
        /// - Throws: the source's error, or ``EventSourceError/isIterated``.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> ServerSentEvent? {
            while position == events.count {
                guard let reader else { throw EventSourceError.isIterated }
                (events, position) = ([], 0)
                guard let group = try await reader.reading.next() else { return nil }
                events = group
            }
            defer { position += 1 }
            return events[position]
        }
    }

    /// An iterator, the only one that gets events.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reading) }
}
