import ConvoyOperations
import ConvoyRealtime
import ConvoySerialization
import Foundation

// The names of AFNetworking's event source, from the betas of AFNetworking 2 and from AFRocketClient, are declared so
// that the compiler suggests their replacements.

/// A stream of events (AFEventSource). Unlike `AFEventSource`, it does not open before it is started or enqueued.
@available(*, unavailable, renamed: "EventSource")
public typealias AFEventSource = EventSource

/// An event (AFEventSource).
@available(*, unavailable, renamed: "ServerSentEvent")
public typealias AFServerSentEvent = ServerSentEvent

/// The domain of the errors of event sources (AFEventSource).
@available(*, unavailable, message: "Event sources fail with EventSourceError, URLError or HTTPError.")
public let AFEventSourceErrorDomain = "com.alamofire.networking.event-source.error"

extension EventSource {
    /// Opens the source.
    @available(*, unavailable, message: "Start or enqueue the source like any operation.")
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

    /// The reconnection interval.
    @available(*, unavailable, message: "Use the source's 'retryInterval'.")
    public var retry: Int { 0 }
}

// The names of AFNetworking's patches, from the betas of AFNetworking 2 and from AFRocketClient, are declared so that
// the compiler suggests their replacements.

/// A change to a JSON document (AFJSONPatchSerializer).
@available(*, unavailable, renamed: "JSONPatch.Operation")
public typealias AFJSONPatchOperation = JSONPatch.Operation

/// The serializer of responses with patches (AFJSONPatchSerializer).
@available(*, unavailable, renamed: "JSONPatchResponseSerializer")
public typealias AFJSONPatchResponseSerializer = JSONPatchResponseSerializer

extension HTTPManager {
    /// Subscribes to the patches of a document.
    @available(*, unavailable, message: "subscribe(_:as:) passes the operations to its handler and applies them.")
    public func SUBSCRIBE(
        _ path: String, usingBlock block: (([JSONPatch.Operation]?, (any Error)?) -> Void)?, error: Any?
    ) -> EventSource? {
        nil
    }
}
