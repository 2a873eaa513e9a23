import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation
import Synchronization

/// An event of a stream of server-sent events, as the WHATWG standard (HTML, 9.2) dispatches it.
public struct ServerSentEvent: Sendable, Hashable {
    /// The type, from the field `event`; `message` if the server has sent none.
    public var type: String
    /// The values of all `data` fields, joined with line feeds.
    public var data: String
    /// The last identifier that the server had sent when the event was dispatched; empty if none.
    public var lastEventID: String

    /// Creates an event as a server would send it, for example for tests.
    public init(type: String = "message", data: String, lastEventID: String = "") {
        self.type = type
        self.data = data
        self.lastEventID = lastEventID
    }

    /// Decodes ``data``, for services whose events are JSON.
    ///
    /// ```swift
    /// let price = try event.decoded(as: Price.self)
    /// ```
    ///
    /// - Throws: `DecodingError`.
    public func decoded<Value: Decodable>(
        as type: Value.Type = Value.self, by decoder: JSONDecoder = JSONDecoder()
    ) throws -> Value {
        try decoder.decodeIndexed(type, from: Data(data.utf8))
    }
}

/// The events of a source as an asynchronous sequence.
///
/// ```swift
/// for try await event in source.events where event.type == "price" { show(event.data) }
/// ```
///
/// A sequence contains the events that arrive after its creation, for one loop; each loop needs its own sequence. It
/// continues over all connections of the source, and ends after the last event when the source is closed. It throws the
/// error of a failed source, and `URLError.cancelled` for a cancelled one. Cancelling the task ends the loop.
///
/// The transfer, and with it all other readers, waits for a slow reader with a backlog of 128 KiB of events, so release
/// a sequence that is not read. The loop starts a source that is neither enqueued nor started.
public struct ServerSentEvents: AsyncSequence, Sendable {
    /// The type of the elements.
    public typealias Element = ServerSentEvent

    let reading: EventReading

    /// The source from which the events are read.
    public var source: EventSource { reading.source }

    /// An iterator over the events. Releasing it removes its reader.
    public struct AsyncIterator: AsyncIteratorProtocol {
        /// An owner that removes the reader when its only iterator is released, even if the sequence is still retained.
        private final class Reader: Sendable {
            let reading: EventReading
            init(_ reading: EventReading) { self.reading = reading }
            deinit { reading.leave() }
        }

        /// The reader; nil if another loop is reading.
        private let reader: Reader?
        private var events: [ServerSentEvent] = []
        private var position = 0

        init(_ reading: EventReading) {
            reader = reading.claim() ? Reader(reading) : nil
        }

        /// Returns the next event; nil at the end.
        public mutating func next() async throws -> ServerSentEvent? { try await next(isolation: nil) }

        /// Returns the next event; nil at the end. It suspends only if no event is waiting.
        ///
        /// - Throws: The source's error, or ``EventSourceError/isIterated``.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> ServerSentEvent? {
            while position == events.count {
                guard let reader else { throw EventSourceError.isIterated }
                events = []
                position = 0
                guard let group = try await reader.reading.next() else { return nil }
                events = group
            }
            defer { position += 1 }
            return events[position]
        }
    }

    /// Creates an iterator. Only the first one receives events.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reading) }
}

/// A reader of a source's events, with its backlog.
final class EventReading: Sendable {
    /// The reader's backlog, guarded by the lock of the delivery.
    struct Buffer {
        private(set) var events: [ServerSentEvent] = []
        private(set) var cost = 0
        private var waiting: [CheckedContinuation<Void, Never>] = []

        mutating func append(_ new: [ServerSentEvent], cost: Int) -> [CheckedContinuation<Void, Never>] {
            if events.isEmpty { events = new } else { events += new }
            self.cost += cost
            return takeWaiting()
        }

        mutating func takeWaiting() -> [CheckedContinuation<Void, Never>] {
            defer { waiting = [] }
            return waiting
        }

        mutating func take() -> [ServerSentEvent] {
            defer {
                events = []
                cost = 0
            }
            return events
        }

        mutating func wait(_ continuation: CheckedContinuation<Void, Never>) { waiting.append(continuation) }
    }

    let source: EventSource
    private let closesSource: Bool
    private let isClaimed = Atomic(false)

    private var delivery: EventDelivery { source.feed.delivery }
    private var key: ObjectIdentifier { ObjectIdentifier(self) }

    init(of source: EventSource, closesSource: Bool) {
        self.source = source
        self.closesSource = closesSource
        delivery.state.withLock { $0.readers[key] = Buffer() }
    }

    deinit { leave() }

    /// Claims the reader for a loop. Returns false if another loop has claimed it.
    func claim() -> Bool { !isClaimed.exchange(true, ordering: .acquiringAndReleasing) }

    /// Removes the reader, so that the transfer does not wait for it.
    func leave() {
        let (waiting, room) = delivery.state.withLock { state in
            var buffer = state.readers.removeValue(forKey: key)
            return (buffer?.takeWaiting() ?? [], state.takeRoom())
        }
        for continuation in waiting { continuation.resume() }
        room?()
        if closesSource { source.close() }
    }

    /// Waits for events and returns all of them; nil at the end, and when the task is cancelled.
    nonisolated(nonsending) func next() async throws -> [ServerSentEvent]? {
        try await withTaskCancellationHandler {
            source.startAwaited()
            return try await take()
        } onCancel: {
            leave()
        }
    }

    private nonisolated(nonsending) func take() async throws -> [ServerSentEvent]? {
        while true {
            let (events, end, isLeft, room) = delivery.state.withLock { state in
                let events = state.readers[key]?.take() ?? []
                return (events, state.end, state.readers[key] == nil, events.isEmpty ? nil : state.takeRoom())
            }
            room?()
            if isLeft || Task.isCancelled { return nil }
            if !events.isEmpty { return events }
            if let end {
                try end.get()
                return nil
            }
            await nextChange()
        }
    }

    private nonisolated(nonsending) func nextChange() async {
        await withCheckedContinuation { continuation in
            let isOver = delivery.state.withLock { state in
                guard state.end == nil, state.readers[key]?.events.isEmpty == true else { return true }
                state.readers[key]?.wait(continuation)
                return false
            }
            if isOver { continuation.resume() }
        }
    }
}
