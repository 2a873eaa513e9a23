import Foundation

// The names of AFNetworking's event source, which was in the betas of AFNetworking 2 and in AFRocketClient, so that the
// compiler says what to write now.

/// A stream of events (AFEventSource). Other than that one, it does not open before it is started or enqueued.
@available(*, unavailable, renamed: "EventSource")
public typealias AFEventSource = EventSource

/// An event (AFEventSource).
@available(*, unavailable, renamed: "ServerSentEvent")
public typealias AFServerSentEvent = ServerSentEvent

/// The domain of the errors of event sources (AFEventSource).
@available(*, unavailable, message: "Event sources fail with EventSourceError, EventStreamError, URLError or HTTPError.")
public let AFEventSourceErrorDomain = "com.alamofire.networking.event-source.error"

extension EventSource {
    /// Opens the source.
    @available(*, unavailable, message: "Start the source, or enqueue it, as any operation.")
    public final func open(_ error: Any? = nil) -> Bool { false }

    /// Closes the source.
    @available(*, unavailable, renamed: "close()")
    public final func close(_ error: Any?) -> Bool { false }

    /// Adds a listener.
    @available(*, unavailable, renamed: "addListener(forEvent:using:)")
    public final func addListenerForEvent(_ event: String, usingBlock block: (ServerSentEvent) -> Void) -> UInt { 0 }

    /// Removes a listener.
    @available(*, unavailable, renamed: "removeListener(_:)")
    public final func removeEventListenerWithIdentifier(_ identifier: UInt) {}

    /// Removes all listeners of an event.
    @available(*, unavailable, renamed: "removeAllListeners(forEvent:)")
    public final func removeAllListenersForEvent(_ event: String) {}
}

extension ServerSentEvent {
    /// The type of the event.
    @available(*, unavailable, renamed: "type")
    public var event: String { type }

    /// The identifier of the event.
    @available(*, unavailable, renamed: "lastEventID")
    public var identifier: String { lastEventID }

    /// When to connect again.
    @available(*, unavailable, message: "The source has it, as 'retryInterval'.")
    public var retry: Int { 0 }
}
