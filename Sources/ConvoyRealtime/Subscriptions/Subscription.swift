import ConvoySerialization
import Foundation

/// A JSON document of a server that stays as the server's is: fetched once, and changed by the patches that the server sends.
/// The counterpart of `SUBSCRIBE:usingBlock:error:` of `AFRocketClient`.
///
/// ```swift
/// let subscription = manager.subscribe("documents/7", as: Document.self) { subscription, change in
///     show(subscription.value)
/// }
/// for try await document in subscription.values { show(document) }
/// ```
///
/// **The events.** In `patch` the server sends operations: the JSON of a ``JSONPatch``. In `put` it sends the value as a whole,
/// which takes the place of what there was. All others are ignored; listeners of ``source`` hear of them.
///
/// **The value** is fetched with a GET as soon as the stream is open. Which events it contains already, the server says with
/// the field `Last-Event-ID` of the response: the `id` of the last one. So each event needs an `id` of its own; best are numbers
/// that grow. Where the server sends no identifiers, an event that comes during the fetch has the value fetched again, and one
/// that is contained in the value but comes after it is applied twice: such a server should send a `put` on each connection.
/// The same GET follows when a patch does not apply to the value or is none. Eight times in a row end the subscription.
///
/// **A lost connection** is made again by the source, which says in `Last-Event-ID` what came last. A server goes on behind that,
/// or sends a `put`. For one that can do neither, set ``resumesByEventID`` to false; without identifiers the value is always
/// fetched again.
///
/// **Its end** is that of its ``source``, which is the operation of the subscription: for its dependencies, its state, pause and
/// settings. A value that is gone (404, 410), or that is not JSON, ends it too; what is likely to be temporary has it fetched
/// again, after half a second and at most 30.
///
/// A subscription can be used from any thread. Once it has begun it goes on until its end, whether anybody keeps it or not. The
/// handlers of the source run on a queue of the subscription's, and its `openHandler` and `eventHandler` are the subscription's
/// own: others add listeners.
public struct Subscription<Value: Decodable & Sendable>: Sendable {
    /// The source of the events.
    public let source: EventSource
    let core: SubscriptionCore
    let decoder: JSONDecoder

    // MARK: The value

    /// The newest value as JSON; nil before the first.
    public var json: JSON? { core.inner.withLock { $0.state.value } }

    /// The newest value; nil before the first, and where the JSON is none. It is decoded each time.
    public var value: Value? { try? decodedValue() }

    /// The newest value; nil before the first.
    ///
    /// - Throws: the decoder's error where the JSON is no such value. It does not end the subscription.
    public func decodedValue() throws -> Value? { try json?.decoded(as: Value.self, by: decoder) }

    /// The `id` of the last event that the value contains; empty if the server sends none.
    public var version: String { core.inner.withLock { $0.state.version } }

    /// The values from now on, the one that there is first, for one loop. Only the newest waits for a loop that is busy. The
    /// sequence ends when the subscription is closed, and throws its error where it fails. The loop starts a subscription that
    /// nobody has enqueued; leaving it does not end one.
    public var values: SubscriptionValues<Value> {
        SubscriptionValues(subscription: self, reading: SubscriptionReading(of: core, by: source))
    }

    /// The changes from now on, for one loop: the value that there is first, and then patch by patch. For a loop that is more
    /// than 10,000 changes or 8 MiB behind, the newest value takes their place. It ends as ``values`` do.
    public var changes: SubscriptionChanges { SubscriptionChanges(reading: SubscriptionReading(of: core, by: source)) }

    // MARK: Settings, to be set before it begins

    /// Whether the value is fetched. True by default; with false the server must begin each stream with a `put`, unless it goes
    /// on behind `Last-Event-ID`, and a patch that does not apply ends the subscription.
    public var fetchesValue: Bool {
        get { core.inner.withLock { $0.state.fetchesValue } }
        nonmutating set { core.inner.withLock { $0.state.fetchesValue = newValue } }
    }

    /// Whether a new connection goes on behind the `Last-Event-ID` that it sends, or begins with a `put`. True by default; with
    /// false the value is fetched again after each.
    public var resumesByEventID: Bool {
        get { core.inner.withLock { $0.state.resumesByEventID } }
        nonmutating set { core.inner.withLock { $0.state.resumesByEventID = newValue } }
    }

    // MARK: Controls

    /// Ends the subscription, which then has succeeded.
    public func close() { source.close() }

    /// Ends the subscription with `URLError.cancelled`.
    public func cancel() { source.cancel() }

    /// Closes the connection. What was read stays.
    public func pause() { source.pause() }

    /// Goes on after a pause, where the stream was left.
    public func resume() { source.resume() }
}
