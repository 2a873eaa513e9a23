import Foundation

/// Who hears of events.
extension EventSource {
    /// Called when a connection is open: the first, and each that follows. On `completionQueue`, or the main queue.
    public final var openHandler: (@Sendable (_ source: EventSource) -> Void)? {
        get { feed.delivery.state.withLock { $0.handlers.open } }
        set { feed.delivery.change { $0.handlers.open = newValue } }
    }

    /// Called with each event, of any type. On `completionQueue`, or the main queue.
    public final var eventHandler: (@Sendable (_ source: EventSource, _ event: ServerSentEvent) -> Void)? {
        get { feed.delivery.state.withLock { $0.handlers.event } }
        set { feed.delivery.change { $0.handlers.event = newValue } }
    }

    /// Called with each comment: a line that begins with a colon, such as servers send to keep a connection open. The text is
    /// what follows the colon and one space. On `completionQueue`, or the main queue, in order with the events.
    public final var commentHandler: (@Sendable (_ source: EventSource, _ text: String) -> Void)? {
        get { feed.delivery.state.withLock { $0.handlers.comment } }
        set {
            feed.delivery.wantsComments.store(newValue != nil, ordering: .relaxed)
            feed.delivery.change { $0.handlers.comment = newValue }
        }
    }

    /// Called when a connection has ended, or could not be made, and another follows. On `completionQueue`, or the main queue.
    /// The end of the source has the handlers of all operations.
    public final var reconnectHandler: (@Sendable (_ source: EventSource, _ interruption: EventSourceInterruption) -> Void)?
    {
        get { feed.delivery.state.withLock { $0.handlers.reconnect } }
        set { feed.delivery.change { $0.handlers.reconnect = newValue } }
    }

    /// Calls a block with each event of a type that comes from now on: `message`, where the server names none. On
    /// `completionQueue`, or the main queue; several in the order in which they were added, after ``eventHandler``.
    ///
    /// - Returns: what removes the listener. The source forgets its listeners when it has ended.
    @discardableResult
    public final func addListener(
        forEvent type: String = "message", using listener: @escaping @Sendable (_ event: ServerSentEvent) -> Void
    ) -> EventListenerID {
        feed.delivery.change { state in
            state.lastNumber += 1
            let number = state.lastNumber
            // Nobody would call it, or let go of it.
            if state.end == nil {
                state.handlers.listeners[type, default: []].append(EventHandlers.Listener(number: number, call: listener))
            }
            return EventListenerID(type: type, number: number)
        }
    }

    /// Removes a listener. No call of it begins after this has returned, but one that is under way may go on.
    public final func removeListener(_ id: EventListenerID) {
        feed.delivery.change { $0.handlers.remove(id) }
    }

    /// Removes all listeners of a type, or with nil of all types.
    public final func removeAllListeners(forEvent type: String? = nil) {
        feed.delivery.change { state in
            if let type { state.handlers.listeners[type] = nil } else { state.handlers.listeners = [:] }
        }
    }

    /// The events that come from now on, for one loop; see ``ServerSentEvents``. Leaving the loop does not close the source.
    public final var events: ServerSentEvents {
        ServerSentEvents(reading: EventReading(of: self, closesSource: false))
    }
}
