import ConvoySupport
import Dispatch
import Foundation

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
    private struct State {
        var pending: [OperationEvent] = []
        /// The last of the events that were lost, and how many there were.
        var lost: (last: OperationEvent, count: Int)?
        /// Whether a delivery is to come, or is under way.
        var isScheduled = false
        /// Whether the handler is running.
        var isRunning = false
        /// Called when everything has been delivered.
        var waiters: [@Sendable () -> Void] = []

        var isEmpty: Bool { pending.isEmpty && lost == nil }
    }

    private let state = Locked(State())
    private let queue: DispatchQueue
    private let handler: @Sendable ([OperationEvent]) -> Void
    private let capacity: Int
    private let interval: TimeInterval

    /// A monitor.
    ///
    /// - Parameters:
    ///   - capacity: how many events wait at most for a queue that does not keep up. Later ones are lost, and an event says
    ///     how many.
    ///   - interval: for how many seconds events are gathered before they are delivered. Waking a thread takes longer than
    ///     all that leads to an event; 0 is for those who have to hear of each at once.
    ///   - queue: where the handler runs; nil for a serial queue of the monitor's own. The calls come one at a time, even on
    ///     a concurrent queue.
    ///   - handler: receives the events. What happens together comes together: all that is known when the head of a
    ///     response comes, for instance. It may block; the operations do not wait for it.
    public init(
        capacity: Int = 100_000, interval: TimeInterval = 0.005, on queue: DispatchQueue? = nil,
        handler: @escaping @Sendable ([OperationEvent]) -> Void
    ) {
        self.capacity = max(1, capacity)
        self.interval = interval > 0 ? min(interval, 3600) : 0
        self.queue = queue ?? DispatchQueue(label: "Convoy.EventMonitor")
        self.handler = handler
    }

    /// Calls a block on the monitor's queue when the handler has been called with all that has happened so far, and has
    /// returned. What was gathered is delivered at once.
    public func whenCaughtUp(_ block: @escaping @Sendable () -> Void) {
        state.withLock { state in
            state.isScheduled = true
            state.waiters.append(block)
        }
        queue.async { self.deliver() }
    }

    /// Takes events of one operation, in their order.
    func post(_ events: [OperationEvent]) {
        guard let latest = events.last else { return }
        let isFirst = state.withLock { state in
            if state.lost == nil, state.pending.count + events.count <= capacity {
                if state.pending.isEmpty { state.pending.reserveCapacity(64) }
                state.pending.append(contentsOf: events)
            } else {
                state.lost = (latest, (state.lost?.count ?? 0) + events.count)
            }
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if isFirst { schedule() }
    }

    private func schedule() {
        guard interval > 0 else { return queue.async { self.deliver() } }
        queue.asyncAfter(deadline: .now() + interval) { self.deliver() }
    }

    /// Delivers what is there. One that comes while another is under way leaves it to that.
    private func deliver() {
        let batch = state.withLock { state -> (events: [OperationEvent], lost: (last: OperationEvent, count: Int)?)? in
            guard !state.isRunning else { return nil }
            state.isRunning = true
            defer { (state.pending, state.lost) = ([], nil) }
            return (state.pending, state.lost)
        }
        guard let (taken, lost) = batch else { return }
        var events = taken
        if let lost {
            events.append(OperationEvent(kind: .lost(lost.count), moment: lost.last.moment, story: lost.last.story))
        }
        if !events.isEmpty { handler(events) }
        let (waiters, next) = state.withLock { state -> ([@Sendable () -> Void], Next) in
            state.isRunning = false
            guard state.isEmpty else { return ([], state.waiters.isEmpty ? .later : .atOnce) }
            state.isScheduled = false
            defer { state.waiters = [] }
            return (state.waiters, .none)
        }
        switch next {
        case .none: break
        // Others that use the queue have their turn, too.
        case .atOnce: queue.async { self.deliver() }
        case .later: schedule()
        }
        for waiter in waiters { waiter() }
    }

    private enum Next { case none, atOnce, later }
}
