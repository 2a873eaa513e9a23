import ConvoySerialization
import ConvoySupport
import Foundation

/// A live copy of a server's JSON document: fetched once, and then updated with the patches that the server sends. The
/// counterpart of `SUBSCRIBE:usingBlock:error:` of `AFRocketClient`.
///
/// ```swift
/// let subscription = manager.subscribe("documents/7", as: Document.self) { subscription, change in
///     show(subscription.value)
/// }
/// for try await document in subscription.values { show(document) }
/// ```
///
/// **The events.** A `patch` event contains operations: the JSON of a ``JSONPatch``. A `put` event contains the whole
/// value, which replaces the old one. Other events are ignored; listeners of ``source`` receive them.
///
/// **The value** is fetched with a GET as soon as the stream is open. The `Last-Event-ID` of the response is the `id`
/// of the last event that the value includes, so each event needs its own `id`, preferably an increasing number. If the
/// server sends no identifiers, an event during the fetch causes another fetch, and an event that is included in the
/// value but arrives later is applied twice: such a server should send a `put` on each connection. The value is also
/// fetched again when a patch is invalid or does not apply. Eight such failures in a row end the subscription.
///
/// **A lost connection.** The source reconnects with the last identifier in `Last-Event-ID`. The server continues after
/// that event, or sends a `put`. If it supports neither, set ``resumesByEventID`` to false. Without identifiers, the
/// value is always fetched again.
///
/// **The end.** A subscription ends with its ``source``, the operation that has the subscription's dependencies, state,
/// pause and settings. A value that is gone (404, 410), or that is not JSON, ends the subscription as well. After a
/// temporary failure, the value is fetched again, with delays from half a second to 30 seconds.
///
/// A subscription can be used from any thread. A started subscription is retained until its end. The handlers of
/// ``source`` run on a queue of the subscription. Do not set its `openHandler` and `eventHandler`, which the subscription
/// uses: add listeners instead.
public struct ValueSubscription<Value: Decodable & Sendable>: Sendable {
    /// The event source that delivers the changes.
    public let source: EventSource
    let core: SubscriptionCore
    let decoder: JSONDecoder

    // MARK: The value

    /// The newest value as JSON; nil before the first.
    public var json: JSON? { core.inner.withLock { $0.state.value } }

    /// The newest value; nil before the first, and if the JSON cannot be decoded. It is decoded on each access.
    public var value: Value? { try? decodedValue() }

    /// Returns the newest value; nil before the first.
    ///
    /// - Throws: The decoder's error, which does not end the subscription.
    public func decodedValue() throws -> Value? { try json?.decoded(as: Value.self, by: decoder) }

    /// The `id` of the last event that the value includes; empty if the server sends none.
    public var version: String { core.inner.withLock { $0.state.version } }

    /// The current and all later values, for one loop. A slow loop gets only the newest value. The sequence ends when
    /// the subscription is closed, and throws its error. The loop starts a subscription that was not enqueued; leaving
    /// the loop does not end it.
    public var values: some AsyncSequence<Value, any Error> & Sendable {
        SubscriptionValues(subscription: self, reading: SubscriptionReading(of: core, by: source))
    }

    /// The changes, for one loop: first the current value, then each patch. A loop that is more than 10,000 changes or
    /// 8 MiB behind gets the newest value instead. It ends like ``values``.
    public var changes: some AsyncSequence<SubscriptionChange, any Error> & Sendable {
        SubscriptionChanges(reading: SubscriptionReading(of: core, by: source))
    }

    // MARK: Settings, before the start

    /// Whether the value is fetched. True by default. If false, the server must start each stream with a `put`, unless
    /// it continues after `Last-Event-ID`, and a patch that does not apply ends the subscription.
    public var fetchesValue: Bool {
        get { core.inner.withLock { $0.state.fetchesValue } }
        nonmutating set { core.inner.withLock { $0.state.fetchesValue = newValue } }
    }

    /// Whether the server continues a new connection after its `Last-Event-ID`, or starts it with a `put`. True by
    /// default. If false, the value is fetched again for each connection.
    public var resumesByEventID: Bool {
        get { core.inner.withLock { $0.state.resumesByEventID } }
        nonmutating set { core.inner.withLock { $0.state.resumesByEventID = newValue } }
    }

    // MARK: Control

    /// Ends the subscription successfully.
    public func close() { source.close() }

    /// Ends the subscription with `URLError.cancelled`.
    public func cancel() { source.cancel() }

    /// Pauses the subscription: closes the connection, and keeps the value.
    public func pause() { source.pause() }

    /// Resumes the subscription after a pause.
    public func resume() { source.resume() }
}

/// A change to a subscribed value.
public enum SubscriptionChange: Sendable, Hashable {
    /// The whole value: the initial value, a value that was fetched again or sent in a `put` event, or the newest value
    /// instead of changes that a slow reader has missed.
    case value(JSON)
    /// Operations that were applied to the value.
    case patch(JSONPatch)
}

/// The values of a subscription as an asynchronous sequence; see ``ValueSubscription/values``.
struct SubscriptionValues<Value: Decodable & Sendable>: AsyncSequence, Sendable {
    let subscription: ValueSubscription<Value>
    let reading: SubscriptionReading

    /// An iterator over the values.
    struct AsyncIterator: AsyncIteratorProtocol {
        let subscription: ValueSubscription<Value>
        let reading: SubscriptionReading
        let isFirst: Bool

        /// Returns the newest value, once it has changed; nil at the end.
        ///
        /// - Throws: The error of the subscription, or the decoder's.
        mutating func next() async throws -> Value? {
            guard isFirst else { throw EventSourceError.isIterated }
            while try await reading.next() != nil {
                if let value = try subscription.decodedValue() { return value }
            }
            return nil
        }
    }

    /// Creates an iterator. Only the first one receives values.
    func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(subscription: subscription, reading: reading, isFirst: reading.claim())
    }
}

/// The changes to a subscribed value as an asynchronous sequence; see ``ValueSubscription/changes``.
struct SubscriptionChanges: AsyncSequence, Sendable {
    let reading: SubscriptionReading

    /// An iterator over the changes.
    struct AsyncIterator: AsyncIteratorProtocol {
        let reading: SubscriptionReading
        let isFirst: Bool
        private var changes: ArraySlice<SubscriptionChange> = []

        init(_ reading: SubscriptionReading) {
            self.reading = reading
            isFirst = reading.claim()
        }

        /// Returns the next change; nil at the end.
        ///
        /// - Throws: The error of the subscription.
        mutating func next() async throws -> SubscriptionChange? {
            guard isFirst else { throw EventSourceError.isIterated }
            while changes.isEmpty {
                guard let group = try await reading.next() else { return nil }
                changes = group[...]
            }
            return changes.removeFirst()
        }
    }

    /// Creates an iterator. Only the first one receives changes.
    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reading) }
}

/// The errors of a subscription, besides those of its event source and of the request for the value.
public enum SubscriptionError: Error, Sendable {
    /// The patches are invalid, or do not apply to the value even after fetching it again.
    case unusableEvents(any Error)
    /// The response to the request for the value contained no JSON.
    case missingValue
}

extension SubscriptionError: SelfDescribingError {
    /// A sentence that describes the failure.
    public var description: String {
        switch self {
        case .unusableEvents(let error): "The events repeatedly failed to apply to the value: \(error)"
        case .missingValue: "The response with the value has no body."
        }
    }
}
