import ConvoySupport
import Foundation
import Synchronization

/// The delivery of the events of a source to its handlers and readers.
///
/// Events arrive in groups, one for each piece of the body, and are delivered together. Handlers are called serially,
/// in order, with no lock held. While the handlers or the slowest reader have a backlog of ``capacity``, the transfer
/// waits.
final class EventDelivery: Sendable {
    /// The maximum backlog of a reader or of the handlers, in bytes of events plus ``costOfEvent`` for each.
    static let capacity = 128 << 10
    static let costOfEvent = 64

    enum Item: Sendable {
        case opened
        case interrupted(EventSourceInterruption)
        case events([ServerSentEvent], cost: Int)
        case comment(String)

        var cost: Int {
            switch self {
            case .opened, .interrupted: 0
            case .events(_, let cost): cost
            case .comment(let text): text.utf8.count + EventDelivery.costOfEvent
            }
        }
    }

    struct State {
        var handlers = EventHandlers()
        var lastNumber = 0
        var lastEvent: ServerSentEvent?

        var items: [Item] = []
        /// The cost of the handlers' backlog, including the events being delivered.
        var cost = 0
        var isDraining = false
        /// Whether delivery is held, because the source is paused.
        var isHeld = false
        /// Whether delivery has ended.
        var isOver = false
        /// The closure to call when the handlers have received everything.
        var afterDrain: (@Sendable () -> Void)?

        var readers: [ObjectIdentifier: EventReading.Buffer] = [:]
        var end: Result<Void, any Error>?

        /// The closure that resumes the transfer.
        var room: (@Sendable () -> Void)?

        var isCrowded: Bool {
            !isOver && cost >= EventDelivery.capacity || readers.values.contains { $0.cost >= EventDelivery.capacity }
        }

        mutating func takeRoom() -> (@Sendable () -> Void)? { room != nil && !isCrowded ? room.take() : nil }

        mutating func beginDraining() -> Bool {
            guard !isDraining, !isHeld, !items.isEmpty else { return false }
            isDraining = true
            return true
        }
    }

    let state = Locked(State())
    /// A number that changes with the handlers, and whenever a running delivery must check the state again.
    let version = Atomic<UInt32>(0)
    /// Whether a handler for comments is set.
    let wantsComments = Atomic(false)
    private let queue = Locked<DispatchQueue?>(nil)

    // MARK: Adding

    /// Adds an item to deliver. Can be called on any thread.
    func add(_ item: Item, of source: EventSource) {
        let (drains, waiting) = state.withLock { state -> (Bool, [CheckedContinuation<Void, Never>]) in
            guard !state.isOver else { return (false, []) }
            var waiting: [CheckedContinuation<Void, Never>] = []
            switch item {
            case .opened: if state.handlers.open != nil { state.items.append(item) }
            case .interrupted: if state.handlers.reconnect != nil { state.items.append(item) }
            case .comment:
                guard state.handlers.comment != nil else { break }
                state.items.append(item)
                state.cost += item.cost
            case .events(let events, let cost):
                state.lastEvent = events.last ?? state.lastEvent
                if state.handlers.wantsEvents {
                    state.items.append(item)
                    state.cost += cost
                }
                for reader in state.readers.keys {
                    waiting += state.readers[reader]?.append(events, cost: cost) ?? []
                }
            }
            return (state.beginDraining(), waiting)
        }
        for continuation in waiting { continuation.resume() }
        if drains { drainLater(of: source) }
    }

    /// Returns whether the transfer must wait. If so, `then` is called once, on any thread, when the transfer may
    /// continue.
    func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            guard state.isCrowded else { return false }
            state.room = then
            return true
        }
    }

    // MARK: Delivering

    private func drainLater(of source: EventSource) {
        let queue = queue.withLock { queue in
            if let queue { return queue }
            let made = DispatchQueue(label: "Convoy.EventSource", target: source.completionQueue ?? .mainForHandlers)
            queue = made
            return made
        }
        queue.submit { self.drain(of: source) }
    }

    /// Calls the handlers with the current backlog.
    private func drain(of source: EventSource) {
        var (items, handlers, seen) = state.withLock { state -> ([Item], EventHandlers, UInt32) in
            var items: [Item] = []
            if !state.isHeld { swap(&items, &state.items) }
            return (items, state.handlers, version.load(ordering: .relaxed))
        }
        for index in items.indices {
            var position = 0
            let isDone = call(&handlers, &seen, with: items[index], from: &position, of: source)
            guard isDone else {
                putBack(items[index...], from: position)
                break
            }
            // Items may be large, so each is released once it is delivered.
            let cost = items[index].cost
            items[index] = .opened
            if cost > 0 { state.withLock { $0.didCall(cost) }?() }
        }
        let (drains, then) = state.withLock { state -> (Bool, (@Sendable () -> Void)?) in
            state.isDraining = false
            return (state.beginDraining(), state.takeAfterDrain())
        }
        // Yield to other work on the queue.
        if drains { drainLater(of: source) }
        then?()
    }

    /// Calls the handlers with an item. Returns false if delivery must stop; `position` is then that of the first
    /// undelivered event.
    private func call(
        _ handlers: inout EventHandlers, _ seen: inout UInt32, with item: Item, from position: inout Int,
        of source: EventSource
    ) -> Bool {
        func isToGoOn() -> Bool {
            guard version.load(ordering: .acquiring) != seen else { return true }
            let isStopped: Bool
            (handlers, seen, isStopped) = state.withLock {
                ($0.handlers, version.load(ordering: .relaxed), $0.isHeld || $0.isOver)
            }
            return !isStopped
        }
        guard isToGoOn() else { return false }
        switch item {
        case .opened: handlers.open?(source)
        case .interrupted(let interruption): handlers.reconnect?(source, interruption)
        case .comment(let text): handlers.comment?(source, text)
        case .events(let events, _):
            while position < events.count {
                guard isToGoOn() else { return false }
                let event = events[position]
                position += 1
                if let call = handlers.event { call(source, event) }
                if !handlers.listeners.isEmpty, let listeners = handlers.listeners[event.type] {
                    for listener in listeners {
                        // Do not call a listener that an earlier listener has removed.
                        if version.load(ordering: .acquiring) != seen, !isListening(listener, event.type) { continue }
                        listener.call(event)
                    }
                }
                for observer in handlers.observers { observer.call(event) }
            }
        }
        return true
    }

    private func isListening(_ listener: EventHandlers.Listener, _ type: String) -> Bool {
        state.withLock { state in
            !state.isOver && state.handlers.listeners[type]?.contains { $0.number == listener.number } == true
        }
    }

    /// Puts undelivered items back until the pause ends.
    private func putBack(_ items: ArraySlice<Item>, from position: Int) {
        var items = Array(items)
        var freed = 0
        if position > 0, case .events(let events, let cost) = items[0] {
            let rest = Array(events[position...])
            let left = rest.reduce(0) { $0 + $1.cost }
            freed = cost - left
            items[0] = .events(rest, cost: left)
        }
        state.withLock { state in
            if !state.isOver { state.items = items + state.items }
            return state.didCall(freed)
        }?()
    }

    // MARK: Pause and end

    /// Holds delivery until `release(of:)` is called.
    func hold() {
        state.withLock { state in
            state.isHeld = true
            version.add(1, ordering: .releasing)
        }
    }

    /// Resumes delivery after `hold()`.
    func release(of source: EventSource) {
        let drains = state.withLock { state in
            state.isHeld = false
            return state.beginDraining()
        }
        if drains { drainLater(of: source) }
    }

    /// Runs the block when the handlers have received everything, or when delivery has ended.
    func whenDrained(_ block: @escaping @Sendable () -> Void) {
        let then = state.withLock { state -> (@Sendable () -> Void)? in
            state.afterDrain = block
            return state.takeAfterDrain()
        }
        then?()
    }

    /// Ends delivery and drops the backlog.
    func drop() {
        let (room, then) = state.withLock { state -> ((@Sendable () -> Void)?, (@Sendable () -> Void)?) in
            state.isOver = true
            version.add(1, ordering: .releasing)
            state.items = []
            state.cost = 0
            return (state.takeRoom(), state.afterDrain.take())
        }
        room?()
        then?()
    }

    /// Ends delivery with the source. Readers get their backlog and then the end; handlers are no longer called.
    func finish(_ end: Result<Void, any Error>) {
        let (handlers, waiting, room, then) = state.withLock { state in
            state.isOver = true
            version.add(1, ordering: .releasing)
            if state.end == nil { state.end = end }
            let handlers = state.handlers
            state.handlers = EventHandlers()
            state.items = []
            state.cost = 0
            var waiting: [CheckedContinuation<Void, Never>] = []
            for reader in state.readers.keys { waiting += state.readers[reader]?.takeWaiting() ?? [] }
            return (handlers, waiting, state.room.take(), state.afterDrain.take())
        }
        withExtendedLifetime(handlers) {}
        for continuation in waiting { continuation.resume() }
        room?()
        then?()
    }

    // MARK: Handlers

    /// Changes the handlers, releasing the old ones outside the lock.
    func change<Value>(_ body: (inout State) -> sending Value) -> Value {
        let (value, old) = state.withLock { state -> (Value, EventHandlers) in
            let old = state.handlers
            let value = body(&state)
            version.add(1, ordering: .releasing)
            return (value, old)
        }
        withExtendedLifetime(old) {}
        return value
    }
}

extension EventDelivery.State {
    /// Subtracts the cost of delivered events. Returns the closure that resumes the transfer, if it may continue.
    fileprivate mutating func didCall(_ freed: Int) -> (@Sendable () -> Void)? {
        cost = max(0, cost - freed)
        return takeRoom()
    }

    fileprivate mutating func takeAfterDrain() -> (@Sendable () -> Void)? {
        !isDraining && (items.isEmpty || isOver) ? afterDrain.take() : nil
    }
}

extension ServerSentEvent {
    /// The size of the event in a backlog, in bytes.
    var cost: Int { type.utf8.count + data.utf8.count + lastEventID.utf8.count + EventDelivery.costOfEvent }
}
