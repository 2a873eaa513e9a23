import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// A stream of server-sent events (WHATWG HTML, section 9.2) as an operation, which connects again whenever the stream ends.
/// The counterpart of `AFEventSource`, and of a browser's `EventSource`.
///
/// ```swift
/// let source = EventSource(url: url)
/// source.addListener(forEvent: "price") { event in show(event.data) }
/// manager.enqueue(source)
///
/// for try await event in source.events { print(event) }
/// ```
///
/// **Connections.** Each is a request with the operation's settings: its trust, cookies, credentials, redirects, proxies and
/// monitors. It asks for `text/event-stream`, unless it has an `Accept` of its own, uses no cache, and says in
/// `Last-Event-ID` which event came last, so that the server can go on behind it. (An identifier with control characters, or
/// of more than 4 KiB, cannot be said.) As in browsers, that event counts until another one has an identifier, even if the
/// next connection brings events without one. A permanent redirect is followed anew each time, as the standard has it.
///
/// **The end of a connection** is followed by another after ``retryInterval``, and after ever longer delays, up to
/// ``maximumRetryInterval``, while connections bring no events. While there is no network nothing is tried; when it comes
/// back, at once. The source ends for good with an answer that is not 200, or of another type (204 is the server's way to end
/// it with success), where another try could not help, and, unless ``reconnectsAfterExcess``, with a line or an event
/// that is too long. `retryPolicy` has
/// nothing to do with this.
///
/// **As an operation** it executes from its start until it is closed. Those that depend on it wait for that; ``opening`` is for
/// those that wait until it is open. It takes no slot of a `RequestOperationQueue`, none of its host's, and waits for no rate of
/// starts; a queue of Foundation's counts it as any other. ``close()`` ends it with success, `cancel()` with
/// `URLError.cancelled`. Once it was started it lives until its end, whether anybody holds it or not.
///
/// **A pause** closes the connection and holds back what the handlers have not got; `resume()` goes on with both.
///
/// **Handlers** run one after another, in the order of what has come, on `completionQueue`, or on the main queue if that is
/// nil (as it is when the first of them is called); after `cancel()` and `close()` no further one begins. While they have
/// 128 KiB to do, the transfer waits, and the server with it.
///
/// A `NetworkActivityMonitor` does not count it: it would be shown for as long as the source is open.
open class EventSource: HTTPRequestOperation, @unchecked Sendable {
    let feed = EventFeed()
    let milestone = SignalOperation()

    /// A source that asks with a request of any method, with its header and body.
    public required init(request: URLRequest) {
        super.init(request: request)
        feed.source = self
        worker = Worker()
    }

    /// A source that asks for a URL with GET.
    public convenience init(url: URL) { self.init(request: URLRequest(url: url)) }

    deinit { milestone.cancel() }

    // MARK: State

    /// Whether it has a connection.
    public final var readyState: EventSourceState { feed.states.value }

    /// Observes ``readyState``: the handler is called for each change from now on, in order, one call at a time, on the given
    /// queue or on a serial queue of the library. The observation lasts as long as what this returns.
    public final func observeReadyState(
        on queue: DispatchQueue? = nil, _ handler: @escaping @Sendable (OperationChange<EventSourceState>) -> Void
    ) -> OperationObservation { feed.states.observe(on: queue, handler) }

    /// ``readyState`` now, and each one that follows, until it is closed. To be iterated over once.
    public final var readyStates: AsyncStream<EventSourceState> { feed.states.sequence }

    /// The event that came last; nil before the first. The handlers may not have got it yet.
    public final var lastEvent: ServerSentEvent? { feed.delivery.state.withLock { $0.lastEvent } }

    /// The identifier that the next connection sends as `Last-Event-ID`; empty for none. Set it before the start to go on where
    /// another source has stopped; later it has no effect once an event has come.
    public final var lastEventID: String {
        get { feed.lastEventID }
        set { feed.settings.withLock { $0.firstEventID = newValue } }
    }

    /// An operation that finishes when the source is open for the first time. Where it ends before, it is cancelled, and its
    /// `cancellationReason` is the source's error.
    ///
    /// ```swift
    /// request.addDependency(source.opening)
    /// ```
    ///
    /// It is in no queue, and needs none.
    public final var opening: ScheduledOperation { milestone }

    // MARK: Settings, read when it connects

    /// Seconds from the end of a connection to the next. 3 by default, as in browsers; the server can change it, and its word
    /// wins. At most a day.
    public final var retryInterval: TimeInterval {
        get { feed.retryInterval }
        set { feed.settings.withLock { $0.retryInterval = newValue } }
    }

    /// To how many seconds the delay grows, by a factor of 2 and with jitter, while connections bring no events; 60 by default.
    /// A longer ``retryInterval`` counts.
    public final var maximumRetryInterval: TimeInterval {
        get { feed.settings.withLock { $0.maximumRetryInterval } }
        set { feed.settings.withLock { $0.maximumRetryInterval = newValue } }
    }

    /// After how many seconds without a byte a connection counts as lost; nil, the default, for never. A server that sends
    /// comments now and then, as most do, makes it useful;
    /// ``commentHandler`` hears them. (The head of a response has the request's `timeoutInterval`.)
    public final var readTimeout: TimeInterval? {
        get { feed.settings.withLock { $0.readTimeout } }
        set { feed.settings.withLock { $0.readTimeout = newValue } }
    }

    /// Whether it connects again after a status that is likely to be temporary: 408, 429, 500, 502, 503 and 504, and no sooner
    /// than their `Retry-After` says. False by default: by the standard each ends the source.
    public final var reconnectsAfterServerErrors: Bool {
        get { feed.settings.withLock { $0.reconnectsAfterServerErrors } }
        set { feed.settings.withLock { $0.reconnectsAfterServerErrors = newValue } }
    }

    /// How many bytes a line may have; nil, the default, for as many as an event. A longer one ends the source with
    /// ``EventStreamError``.
    public final var maximumLineLength: Int? {
        get { feed.settings.withLock { $0.maximumLineLength } }
        set { feed.settings.withLock { $0.maximumLineLength = newValue } }
    }

    /// How many bytes the data of an event may have; 8 MiB by default. More end the source with ``EventStreamError``.
    public final var maximumEventLength: Int {
        get { feed.settings.withLock { $0.maximumEventLength } }
        set { feed.settings.withLock { $0.maximumEventLength = newValue } }
    }

    /// Whether a line or an event that is too long ends only the connection, and another follows as after any other end. False
    /// by default. The event is lost, unless the server sends it again, as it does where it counts from the last event ID.
    public final var reconnectsAfterExcess: Bool {
        get { feed.settings.withLock { $0.reconnectsAfterExcess } }
        set { feed.settings.withLock { $0.reconnectsAfterExcess = newValue } }
    }

    /// Where it learns of the network. For tests.
    package final var network: NetworkSense {
        get { feed.settings.withLock { $0.network } }
        set { feed.settings.withLock { $0.network = newValue } }
    }

    // MARK: Controls

    /// Ends the connection, or the wait for the next one, and connects again at once. Events that have come are handed over as
    /// usual; ``reconnectHandler`` is not called. A source that has not begun, is paused or has ended is left as it is.
    public final func restart() { feed.restart() }

    /// Ends the source, which then has succeeded. What has come and was not handed over is dropped. One that has not begun is
    /// cancelled.
    public final func close() {
        guard feed.close() else { return cancel() }
        // A paused operation would hold its outcome back.
        resume()
    }

    open override func pause() {
        super.pause()
        guard isPaused else { return }
        feed.delivery.hold()
        // Resumed by another thread meanwhile.
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

    /// Copies the settings. A copy begins without an event, and has no listeners.
    open override func copySettings(to copy: URLConnectionOperation) {
        super.copySettings(to: copy)
        let own = feed.settings.withLock { $0 }
        (copy as? EventSource)?.feed.settings.withLock { $0 = own }
    }

    private struct Worker: OperationWorker {
        var workedClass: ObjectIdentifier { ObjectIdentifier(EventSource.self) }
        var takesSlot: Bool { false }

        func begin(_ work: OwnWork, of operation: URLConnectionOperation) {
            (operation as? EventSource)?.feed.begin(work)
        }

        func end(_ operation: URLConnectionOperation) {
            guard let source = operation as? EventSource else { return }
            source.feed.operationWillEnd(source)
        }
    }
}
