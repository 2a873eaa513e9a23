import ConvoySupport
import Dispatch

/// Hears the whole story of operations: why they wait, what their requests do, what is decided about redirects and retries,
/// and how they end.
///
/// ```swift
/// let monitor = EventMonitor { events in
///     for event in events { print(event) }
/// }
/// manager.eventMonitors = [monitor]
/// ```
///
/// An object, which any number of managers and operations may have. Operations that nobody monitors pay for one look.
public final class EventMonitor: Sendable {
    /// Receives what has happened since the last call.
    public typealias Handler = @Sendable ([OperationEvent]) -> Void

    private struct State {
        var pending: [OperationEvent] = []
        /// The last of the events that were lost, and how many there were.
        var lost: (last: OperationEvent, count: Int)?
        var isDelivering = false
        /// Called when everything has been delivered.
        var waiters: [@Sendable () -> Void] = []
    }

    private let state = Locked(State())
    private let queue: DispatchQueue
    private let handler: Handler
    private let capacity: Int

    /// A monitor.
    ///
    /// - Parameters:
    ///   - capacity: how many events wait at most for a queue that does not keep up. Later ones are lost, and an event says
    ///     how many.
    ///   - queue: where the handler runs; nil for a serial queue of the monitor's own. The calls come one at a time, even on
    ///     a concurrent queue.
    ///   - handler: receives the events. What happens together comes together: all that is known when the head of a
    ///     response comes, for instance. It may block; the operations do not wait for it.
    public init(capacity: Int = 100_000, on queue: DispatchQueue? = nil, handler: @escaping Handler) {
        self.capacity = max(1, capacity)
        self.queue = queue ?? DispatchQueue(label: "Convoy.EventMonitor")
        self.handler = handler
    }

    /// Calls a block on the monitor's queue when the handler has been called with all that has happened so far, and has
    /// returned.
    public func whenCaughtUp(_ block: @escaping @Sendable () -> Void) {
        let isIdle = state.withLock { state in
            if state.isDelivering { state.waiters.append(block) }
            return !state.isDelivering
        }
        if isIdle { queue.async(execute: block) }
    }

    /// Takes events of one operation, in their order.
    func post(_ events: [OperationEvent]) {
        guard let latest = events.last else { return }
        let isFirst = state.withLock { state in
            if state.lost == nil, state.pending.count + events.count <= capacity {
                state.pending.append(contentsOf: events)
            } else {
                state.lost = (latest, (state.lost?.count ?? 0) + events.count)
            }
            defer { state.isDelivering = true }
            return !state.isDelivering
        }
        if isFirst { queue.async { self.deliver() } }
    }

    private func deliver() {
        var (events, lost) = state.withLock { state in
            defer { (state.pending, state.lost) = ([], nil) }
            return (state.pending, state.lost)
        }
        if let lost {
            events.append(OperationEvent(kind: .lost(lost.count), moment: lost.last.moment, story: lost.last.story))
        }
        handler(events)
        let waiters = state.withLock { state -> [@Sendable () -> Void]? in
            guard state.pending.isEmpty, state.lost == nil else { return nil }
            state.isDelivering = false
            defer { state.waiters = [] }
            return state.waiters
        }
        guard let waiters else {
            // Others that use the queue have their turn, too.
            return queue.async { self.deliver() }
        }
        for waiter in waiters { waiter() }
    }
}
