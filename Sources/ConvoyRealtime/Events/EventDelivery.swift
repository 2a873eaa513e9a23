import ConvoySupport
import Foundation
import Synchronization

/// What happens to a source on its way to the handlers and the readers.
///
/// Events come in groups, all of one piece of the body at once, and are handed over so: with one hop for each group, or for
/// several. The handlers are called one after another, in order, with no lock held. While they, or the slowest of the
/// readers, have ``capacity`` to do, the transfer waits.
final class EventDelivery: Sendable {
    /// How much may wait for a reader, or for the handlers: the bytes of the events, and ``costOfEvent`` for each.
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
        /// The cost of all events that the handlers have not been called with, those being handed over included.
        var cost = 0
        var isDraining = false
        /// Whether what has come waits, because the source is paused.
        var isHeld = false
        /// Whether nothing is handed over any more.
        var isOver = false
        /// Called when the handlers have been called with all that has come.
        var afterDrain: (@Sendable () -> Void)?

        var readers: [ObjectIdentifier: EventReading.Buffer] = [:]
        var end: Result<Void, any Error>?

        /// What lets the transfer go on.
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
    /// Changes with the handlers, and whenever what is handed over must be looked at anew.
    let version = Atomic<UInt32>(0)
    /// Whether there is a handler for comments.
    let wantsComments = Atomic(false)
    private let queue = Locked<DispatchQueue?>(nil)

    // MARK: What has come

    /// Hands over something. Any thread.
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

    /// Whether the transfer is to wait; `then` is called once when it need not any more, on any thread.
    func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            guard state.isCrowded else { return false }
            state.room = then
            return true
        }
    }

    // MARK: Handing over

    private func drainLater(of source: EventSource) {
        let queue = queue.withLock { queue in
            if let queue { return queue }
            let made = DispatchQueue(label: "Convoy.EventSource", target: source.completionQueue ?? .main)
            queue = made
            return made
        }
        queue.async { self.drain(of: source) }
    }

    /// Calls the handlers with what there is now.
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
            // What was called may hold a lot, which is over with it.
            let cost = items[index].cost
            items[index] = .opened
            if cost > 0 { state.withLock { $0.didCall(cost) }?() }
        }
        let (drains, then) = state.withLock { state -> (Bool, (@Sendable () -> Void)?) in
            state.isDraining = false
            return (state.beginDraining(), state.takeAfterDrain())
        }
        // Others of the queue come in between.
        if drains { drainLater(of: source) }
        then?()
    }

    /// Calls the handlers with an item. False if they are to hear nothing for now: then `position` is that of the first event
    /// that they have not got.
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
                guard !handlers.listeners.isEmpty, let listeners = handlers.listeners[event.type] else { continue }
                for listener in listeners {
                    // One that was removed by another is not called any more.
                    if version.load(ordering: .acquiring) != seen, !isListening(listener, event.type) { continue }
                    listener.call(event)
                }
            }
        }
        return true
    }

    private func isListening(_ listener: EventHandlers.Listener, _ type: String) -> Bool {
        state.withLock { state in
            !state.isOver && state.handlers.listeners[type]?.contains { $0.number == listener.number } == true
        }
    }

    /// Keeps what was not handed over, for the end of a pause.
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

    /// Holds back what the handlers have not been called with.
    func hold() {
        state.withLock { state in
            state.isHeld = true
            version.add(1, ordering: .releasing)
        }
    }

    /// Lets it go on.
    func release(of source: EventSource) {
        let drains = state.withLock { state in
            state.isHeld = false
            return state.beginDraining()
        }
        if drains { drainLater(of: source) }
    }

    /// Runs the block when the handlers have been called with all that has come, or when nothing is handed over any more.
    func whenDrained(_ block: @escaping @Sendable () -> Void) {
        let then = state.withLock { state -> (@Sendable () -> Void)? in
            state.afterDrain = block
            return state.takeAfterDrain()
        }
        then?()
    }

    /// Hands over nothing any more, and forgets what has come.
    func drop() {
        let (room, then) = state.withLock { state -> ((@Sendable () -> Void)?, (@Sendable () -> Void)?) in
            state.isOver = true
            version.add(1, ordering: .releasing)
            (state.items, state.cost) = ([], 0)
            return (state.takeRoom(), state.afterDrain.take())
        }
        room?()
        then?()
    }

    /// The source has ended. Readers get what they have not read, and then the end. Nobody is called any more.
    func finish(_ end: Result<Void, any Error>) {
        let (handlers, waiting, room, then) = state.withLock { state in
            state.isOver = true
            version.add(1, ordering: .releasing)
            if state.end == nil { state.end = end }
            let handlers = state.handlers
            (state.handlers, state.items, state.cost) = (EventHandlers(), [], 0)
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

    /// Changes the handlers. What they were is released outside the lock.
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
    /// The handlers have been called with events. Returns what lets the transfer go on, if it may.
    fileprivate mutating func didCall(_ freed: Int) -> (@Sendable () -> Void)? {
        cost = max(0, cost - freed)
        return takeRoom()
    }

    fileprivate mutating func takeAfterDrain() -> (@Sendable () -> Void)? {
        !isDraining && (items.isEmpty || isOver) ? afterDrain.take() : nil
    }
}

extension ServerSentEvent {
    /// What it counts while it waits.
    var cost: Int { type.utf8.count + data.utf8.count + lastEventID.utf8.count + EventDelivery.costOfEvent }
}
