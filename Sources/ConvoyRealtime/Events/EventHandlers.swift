import Foundation

/// What is called with what happens to a source.
struct EventHandlers: Sendable {
    struct Listener: Sendable {
        let number: Int
        let call: @Sendable (ServerSentEvent) -> Void
    }

    var open: (@Sendable (EventSource) -> Void)?
    var event: (@Sendable (EventSource, ServerSentEvent) -> Void)?
    var comment: (@Sendable (EventSource, String) -> Void)?
    var reconnect: (@Sendable (EventSource, EventSourceInterruption) -> Void)?
    /// By the type of the events, in the order in which they were added.
    var listeners: [String: [Listener]] = [:]

    /// Whether anybody wants events.
    var wantsEvents: Bool { event != nil || !listeners.isEmpty }

    mutating func remove(_ id: EventListenerID) {
        guard var remaining = listeners[id.type] else { return }
        remaining.removeAll { $0.number == id.number }
        listeners[id.type] = remaining.isEmpty ? nil : remaining
    }
}

/// What identifies a listener, to remove it.
public struct EventListenerID: Sendable, Hashable {
    let type: String
    let number: Int
}
