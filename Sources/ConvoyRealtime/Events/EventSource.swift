import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// A stream of server-sent events (WHATWG HTML, section 9.2) as an operation, which reconnects whenever the stream
/// ends. The counterpart of `AFEventSource`, and of a browser's `EventSource`.
///
/// ```swift
/// let source = EventSource(url: url)
/// source.addListener(forEvent: "price") { event in show(event.data) }
/// manager.enqueue(source)
///
/// for try await event in source.events { print(event) }
/// ```
///
/// **Connections.** Each connection is a request with the operation's settings: its trust, cookies, credentials,
/// redirects, proxies and monitors. It accepts `text/event-stream`, unless the request has its own `Accept`, uses no
/// cache, and sends the last identifier in `Last-Event-ID`, so that the server can continue after that event. (An
/// identifier with control characters, or of more than 4 KiB, is not sent.) As in browsers, an identifier stays valid
/// until an event has a new one, even across connections. As the standard requires, a permanent redirect is followed
/// again for each connection.
///
/// **Reconnecting.** If ``reconnects`` is set, by default for a GET but not for a POST, the source reconnects when a
/// connection ends: after ``retryInterval`` or, while connections bring no events, after growing delays of up to
/// ``maximumRetryInterval``. Without a network, it waits until the network returns, and then reconnects immediately.
/// The source ends permanently after a status other than 200 (successfully after a 204), after an unexpected content
/// type, after an error that another connection cannot fix, and, unless ``reconnectsAfterExcess`` is set, after a line
/// or an event that is too long. It does not use `retryPolicy`.
///
/// **As an operation**, a source executes until it is closed, and its dependents wait until then. To wait only until it
/// is open, depend on ``opening``. A source takes no slot of a `RequestOperationQueue` or of a host, and ignores the
/// rate of starts; an `OperationQueue` counts it like any other operation. ``close()`` ends it successfully, `cancel()`
/// with `URLError.cancelled`. A started source is retained until its end.
///
/// **A pause** closes the connection and holds back undelivered events; `resume()` reconnects and delivers them. Unless
/// ``reconnects`` is set, the connection stays open, but nothing is received until `resume()`.
///
/// **Handlers** run serially, in the order of the events, on `completionQueue`, or on the main queue if
/// `completionQueue` is nil when the first handler is called. No handler starts after `cancel()` or `close()`. While
/// the handlers have a backlog of 128 KiB, the transfer waits, and so does the server.
///
/// A `NetworkActivityMonitor` ignores the source, because it would show activity as long as the source is open.
open class EventSource: HTTPRequestOperation, @unchecked Sendable {
    let feed = EventFeed()
    let milestone = SignalOperation()

    /// Creates a source that sends a request, with any method, header fields and body.
    public required init(request: URLRequest) {
        super.init(request: request)
        feed.source = self
        worker = Worker()
    }

    /// Creates a source that requests a URL with GET.
    public convenience init(url: URL) { self.init(request: URLRequest(url: url)) }

    deinit {
        milestone.cancel()
        feed.dropConnection()
    }

    // MARK: State

    /// The state of the connection.
    public final var readyState: EventSourceState { feed.states.value }

    /// Observes ``readyState``: the handler is called serially for each change from now on, in order, on the given
    /// queue or on a serial queue of the library. The observation ends when the returned object is released.
    public final func observeReadyState(
        on queue: DispatchQueue? = nil, _ handler: @escaping @Sendable (OperationChange<EventSourceState>) -> Void
    ) -> OperationObservation { feed.states.observe(on: queue, handler) }

    /// The current ``readyState`` and all later ones, until the source is closed. Can be iterated over only once.
    public final var readyStates: AsyncStream<EventSourceState> { feed.states.sequence }

    /// The last received event; nil before the first. The handlers may not have received it yet.
    public final var lastEvent: ServerSentEvent? { feed.delivery.state.withLock { $0.lastEvent } }

    /// The identifier that the next connection sends as `Last-Event-ID`; empty for none. Set it before the start to
    /// continue the stream of another source; setting it has no effect once an event has arrived.
    public final var lastEventID: String {
        get { feed.lastEventID }
        set { feed.settings.withLock { $0.firstEventID = newValue } }
    }

    /// An operation that finishes when the source is open for the first time. If the source ends before, the operation
    /// is cancelled, with the source's error as its `cancellationReason`.
    ///
    /// ```swift
    /// request.addDependency(source.opening)
    /// ```
    ///
    /// Do not enqueue the operation.
    public final var opening: ScheduledOperation { milestone }

    // MARK: Settings, read on connecting

    /// The delay from the end of a connection to the next one, in seconds; 3 by default, as in browsers, and at most a
    /// day. A value from the server takes precedence.
    public final var retryInterval: TimeInterval {
        get { feed.retryInterval }
        set { feed.settings.withLock { $0.retryInterval = newValue } }
    }

    /// The maximum delay in seconds; 60 by default. While connections bring no events, the delay doubles, with jitter,
    /// up to this maximum. A longer ``retryInterval`` takes precedence.
    public final var maximumRetryInterval: TimeInterval {
        get { feed.settings.withLock { $0.maximumRetryInterval } }
        set { feed.settings.withLock { $0.maximumRetryInterval = newValue } }
    }

    /// The number of seconds without a byte after which a connection is considered lost; nil, the default, for no
    /// limit. Useful with servers that send comments regularly, as most do. (Until the head of the response, the
    /// request's `timeoutInterval` applies.)
    public final var readTimeout: TimeInterval? {
        get { feed.settings.withLock { $0.readTimeout } }
        set { feed.settings.withLock { $0.readTimeout = newValue } }
    }

    /// Whether the source sends its request again, to reconnect after the end of a connection and to continue after a
    /// pause.
    ///
    /// The default is true for a request that can be repeated: with an idempotent method (RFC 9110, section 9.2.2) or
    /// SUBSCRIBE. For other requests, such as a POST, it is false, because each connection could have an effect. The
    /// source then finishes with its stream: successfully if the server ends its response, otherwise with the error of
    /// the connection. It retries only if none of the request was sent, for example because the connection could not be
    /// made.
    public final var reconnects: Bool {
        get { feed.reconnects }
        set { feed.settings.withLock { $0.reconnects = newValue } }
    }

    /// Whether the source reconnects after a status that is likely to be temporary (408, 429, 500, 502, 503 or 504),
    /// but not before the time in `Retry-After`. False by default, because the standard ends the source after each of
    /// them.
    public final var reconnectsAfterServerErrors: Bool {
        get { feed.settings.withLock { $0.reconnectsAfterServerErrors } }
        set { feed.settings.withLock { $0.reconnectsAfterServerErrors = newValue } }
    }

    /// The maximum length of a line in bytes; nil, the default, uses the limit of an event. A longer line ends the
    /// source with ``EventSourceError``.
    public final var maximumLineLength: Int? {
        get { feed.settings.withLock { $0.maximumLineLength } }
        set { feed.settings.withLock { $0.maximumLineLength = newValue } }
    }

    /// The maximum length of an event's data in bytes; 8 MiB by default. A longer event ends the source with
    /// ``EventSourceError``.
    public final var maximumEventLength: Int {
        get { feed.settings.withLock { $0.maximumEventLength } }
        set { feed.settings.withLock { $0.maximumEventLength = newValue } }
    }

    /// Whether a line or an event that is too long ends only the connection, after which the source reconnects. False
    /// by default. The event is lost unless the server repeats it, as it does if it continues after the last event ID.
    public final var reconnectsAfterExcess: Bool {
        get { feed.settings.withLock { $0.reconnectsAfterExcess } }
        set { feed.settings.withLock { $0.reconnectsAfterExcess = newValue } }
    }

    /// The state of the network, which tests replace.
    package final var network: NetworkSense {
        get { feed.settings.withLock { $0.network } }
        set { feed.settings.withLock { $0.network = newValue } }
    }

    // MARK: Control

    /// Ends the connection, or the wait for the next one, and reconnects immediately. Received events are delivered as
    /// usual; ``reconnectHandler`` is not called. Has no effect on a source that has not started, is paused or has
    /// ended.
    public final func restart() { feed.restart() }

    /// Ends the source successfully. Undelivered events are dropped. A source that has not started is cancelled.
    public final func close() {
        guard feed.close() else { return cancel() }
        // Resume, because a paused operation would not report its outcome.
        resume()
    }

    open override func pause() {
        super.pause()
        guard isPaused else { return }
        feed.delivery.hold()
        // Another thread may have resumed the source in the meantime.
        if !isPaused { feed.delivery.release(of: self) }
    }

    open override func resume() {
        feed.delivery.release(of: self)
        super.resume()
    }

    open override func cancel() {
        super.cancel()
        guard isCancelled else { return }
        feed.states.change(to: .closed)
        feed.delivery.drop()
    }

    /// Copies the settings, but not the events and listeners.
    open override func copySettings(to copy: URLConnectionOperation) {
        super.copySettings(to: copy)
        let own = feed.settings.withLock { $0 }
        (copy as? EventSource)?.feed.settings.withLock { $0 = own }
    }

    private final class Worker: AttemptRunner {
        var workedClass: ObjectIdentifier { ObjectIdentifier(EventSource.self) }
        var takesSlot: Bool { false }

        func begin(_ work: AttemptContext, of operation: URLConnectionOperation) {
            (operation as? EventSource)?.feed.begin(work)
        }

        func release(_ operation: URLConnectionOperation) {
            guard let source = operation as? EventSource else { return }
            source.feed.operationWillEnd(source)
        }
    }
}

/// Handlers and listeners.
extension EventSource {
    /// The handler called whenever a connection has been opened, on `completionQueue` or the main queue.
    public final var openHandler: (@Sendable (_ source: EventSource) -> Void)? {
        get { feed.delivery.state.withLock { $0.handlers.open } }
        set { feed.delivery.change { $0.handlers.open = newValue } }
    }

    /// The handler called with each event of any type, on `completionQueue` or the main queue.
    public final var eventHandler: (@Sendable (_ source: EventSource, _ event: ServerSentEvent) -> Void)? {
        get { feed.delivery.state.withLock { $0.handlers.event } }
        set { feed.delivery.change { $0.handlers.event = newValue } }
    }

    /// The handler called with each comment: a line that begins with a colon, which many servers send to keep a
    /// connection open. The text excludes the colon and one space after it. The handler runs on `completionQueue` or
    /// the main queue, in order with the events.
    public final var commentHandler: (@Sendable (_ source: EventSource, _ text: String) -> Void)? {
        get { feed.delivery.state.withLock { $0.handlers.comment } }
        set {
            feed.delivery.wantsComments.store(newValue != nil, ordering: .relaxed)
            feed.delivery.change { $0.handlers.comment = newValue }
        }
    }

    /// The handler called when a connection has ended or failed and the source will reconnect, on `completionQueue` or
    /// the main queue. For the end of the source, use the handlers that every operation has.
    public final var reconnectHandler: (@Sendable (_ source: EventSource, _ interruption: EventSourceInterruption) -> Void)?
    {
        get { feed.delivery.state.withLock { $0.handlers.reconnect } }
        set { feed.delivery.change { $0.handlers.reconnect = newValue } }
    }

    /// Calls a block with each later event of a type, on `completionQueue` or the main queue, after ``eventHandler``
    /// and in the order in which listeners were added. An event without a type has the type `message`.
    ///
    /// - Returns: The identifier for removing the listener. The source releases its listeners when it has ended.
    @discardableResult
    public final func addListener(
        forEvent type: String = "message", using listener: @escaping @Sendable (_ event: ServerSentEvent) -> Void
    ) -> EventListenerID {
        feed.delivery.change { state in
            state.lastNumber += 1
            let number = state.lastNumber
            // A listener added after the end would never be called or released.
            if state.end == nil {
                state.handlers.listeners[type, default: []].append(EventHandlers.Listener(number: number, call: listener))
            }
            return EventListenerID(type: type, number: number)
        }
    }

    /// Calls a block with each later event of any type, after the listeners for its type. In all other respects, an
    /// observer behaves like a listener.
    package final func addObserver(using observer: @escaping @Sendable (_ event: ServerSentEvent) -> Void) -> Int {
        feed.delivery.change { state in
            state.lastNumber += 1
            let number = state.lastNumber
            if state.end == nil {
                state.handlers.observers.append(EventHandlers.Listener(number: number, call: observer))
            }
            return number
        }
    }

    /// Removes an observer.
    package final func removeObserver(_ number: Int) {
        feed.delivery.change { $0.handlers.observers.removeAll { $0.number == number } }
    }

    /// Removes a listener. After this returns, no new call of the listener starts; a running call continues.
    public final func removeListener(_ id: EventListenerID) {
        feed.delivery.change { $0.handlers.remove(id) }
    }

    /// Removes all listeners of a type, or with nil of all types.
    public final func removeAllListeners(forEvent type: String? = nil) {
        feed.delivery.change { state in
            if let type { state.handlers.listeners[type] = nil } else { state.handlers.listeners = [:] }
        }
    }

    /// The events from now on, for one loop; see ``ServerSentEvents``. Leaving the loop does not close the source.
    public final var events: ServerSentEvents {
        ServerSentEvents(reading: EventReading(of: self, closesSource: false))
    }
}

/// The handlers and listeners of a source.
struct EventHandlers: Sendable {
    struct Listener: Sendable {
        let number: Int
        let call: @Sendable (ServerSentEvent) -> Void
    }

    var open: (@Sendable (EventSource) -> Void)?
    var event: (@Sendable (EventSource, ServerSentEvent) -> Void)?
    var comment: (@Sendable (EventSource, String) -> Void)?
    var reconnect: (@Sendable (EventSource, EventSourceInterruption) -> Void)?
    /// The listeners by event type, in the order in which they were added.
    var listeners: [String: [Listener]] = [:]
    /// Listeners for events of all types, added for views.
    var observers: [Listener] = []

    /// Whether any handler, listener or observer receives events.
    var wantsEvents: Bool { event != nil || !listeners.isEmpty || !observers.isEmpty }

    mutating func remove(_ id: EventListenerID) {
        guard var remaining = listeners[id.type] else { return }
        remaining.removeAll { $0.number == id.number }
        listeners[id.type] = remaining.isEmpty ? nil : remaining
    }
}

/// The identifier of a listener, used to remove the listener.
public struct EventListenerID: Sendable, Hashable {
    let type: String
    let number: Int
}

/// The state of an event source, with the names and numbers of the standard (HTML, section 9.2.2).
public enum EventSourceState: Int, Sendable, Hashable, CaseIterable {
    /// The source has no connection: it has not started, is connecting, is waiting to reconnect, or is paused.
    case connecting = 0
    /// A response has arrived, and events may follow.
    case open = 1
    /// The source has ended permanently.
    case closed = 2
}

/// The loss or failure of an event source's connection, and the delay until it reconnects.
public struct EventSourceInterruption: Sendable {
    /// The error; nil if the server has ended its response.
    public let error: (any Error)?
    /// The number of consecutive connections without an event; 0 if the last connection had one.
    public let failureCount: Int
    /// The delay until the source reconnects, in seconds; nil if it is waiting for the network to return.
    public let delay: TimeInterval?
}

/// The errors of an event source and of reading its events.
///
/// Other failures have the library's usual errors: an `HTTPError` with the body for an unacceptable status, and a
/// `URLError` for a failure that reconnecting would not fix.
public enum EventSourceError: Error, Sendable, Hashable {
    /// The content type of the response is not `text/event-stream`; nil if the response has no content type.
    case unacceptableContentType(String?)
    /// The body is a stream, which cannot be sent again for another connection.
    case bodyCannotBeSentAgain
    /// Another loop is already reading the sequence. Each loop needs a separate sequence.
    case isIterated
    /// A line is longer than the given limit, in bytes.
    case lineTooLong(limit: Int)
    /// The values of an event's lines exceed the given limit, in bytes.
    case eventTooLong(limit: Int)
}

extension EventSourceError: SelfDescribingError {
    /// A sentence that describes the failure.
    public var description: String {
        switch self {
        case .unacceptableContentType(let type):
            "The response is \(type.map { "of the type \($0)" } ?? "without a type"), not text/event-stream."
        case .bodyCannotBeSentAgain: "The request's body must be sent again, but its stream cannot be read twice."
        case .isIterated: "The sequence of events is being read by another loop."
        case .lineTooLong(let limit): "A line of the event stream is longer than the limit of \(limit) bytes."
        case .eventTooLong(let limit): "An event of the stream is longer than the limit of \(limit) bytes."
        }
    }
}
