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
        var intake = Intake()
        /// How many events were delivered the last time.
        var latestCount = 0
        /// Whether a delivery is to come, or is under way.
        var isScheduled = false
        /// Whether the handler is running.
        var isRunning = false
        /// Called when everything has been delivered.
        var waiters: [@Sendable () -> Void] = []
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

    /// Takes what `tell` appends, all of it together. `tell` is called while the monitor's lock is held.
    ///
    /// Events that are followed at once by others wait for those before anybody is woken.
    func gather(_ tell: (inout Intake) -> Void) {
        let isFirst = state.withLock { state in
            if state.intake.events.isEmpty { state.intake.prepare(capacity: capacity, likely: state.latestCount) }
            tell(&state.intake)
            guard state.intake.isUrgent, !state.isScheduled else { return false }
            state.isScheduled = true
            return true
        }
        if isFirst { schedule() }
    }

    private func schedule() {
        guard interval > 0 else { return queue.async { self.deliver() } }
        queue.asyncAfter(deadline: .now() + interval) { self.deliver() }
    }

    /// Delivers what is there. One that comes while another is under way leaves it to that.
    private func deliver() {
        let batch = state.withLock { state -> Intake? in
            guard !state.isRunning else { return nil }
            state.isRunning = true
            state.latestCount = state.intake.events.count
            defer { state.intake = Intake() }
            return state.intake
        }
        guard let events = batch?.allEvents else { return }
        if !events.isEmpty { handler(events) }
        let (waiters, next) = state.withLock { state -> ([@Sendable () -> Void], Next) in
            state.isRunning = false
            guard !state.intake.isUrgent else { return ([], state.waiters.isEmpty ? .later : .atOnce) }
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

    /// The events that have not been delivered.
    struct Intake {
        fileprivate private(set) var events: [OperationEvent] = []
        /// The last of the events that were lost.
        private var lastLost: OperationEvent?
        private var lostCount = 0
        /// Whether somebody has to be woken.
        fileprivate private(set) var isUrgent = false
        private var capacity = 0

        fileprivate mutating func prepare(capacity: Int, likely: Int) {
            self.capacity = capacity
            events.reserveCapacity(min(capacity, max(64, likely)))
        }

        mutating func append(_ event: OperationEvent) {
            if !event.kind.isFollowedAtOnce { isUrgent = true }
            guard lostCount == 0, events.count < capacity else {
                lastLost = event
                return lostCount += 1
            }
            events.append(event)
        }

        fileprivate var allEvents: [OperationEvent] {
            guard let lastLost else { return events }
            return events + [lastLost.with(.lost(lostCount))]
        }
    }
}
