import ConvoySupport
import Foundation
import Synchronization

/// Notifies observers of an operation's changes: of every change once, in the order in which they were made, including
/// the last.
///
/// Changes are made by many threads and reported here in any order; they are sorted by their numbers. When the last
/// one, the change to `finished`, has been submitted to the observers' queues, all observers are released. An operation
/// that nobody observes has no center, and pays for one atomic read per change.
final class ObservationCenter: Sendable {
    typealias Handler = @Sendable (URLConnectionOperation, Lifecycle, Lifecycle) -> Void

    private struct State {
        var observers: [Int: Observer] = [:]
        var nextKey = 0
        /// The number of the last change that observers were notified of; nil until there is an observer.
        var told: UInt32?
        /// Changes that were reported early: an earlier change is still missing.
        var waiting: [UInt32: AtomicLifecycle.Transition] = [:]
    }

    private let state = Locked(State())

    /// Whether there are observers.
    var isHolding: Bool { state.withLock { !$0.observers.isEmpty } }

    func add(
        to operation: URLConnectionOperation, queue: DispatchQueue?, _ handler: @escaping Handler
    ) -> OperationObservation {
        // From here on every change is reported.
        operation.onlookers.insert(.observer)
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        // Without a target, each serial queue may get its own thread. With many observers, the threads and the memory
        // that the allocator keeps for them would add up.
        let serial = DispatchQueue(label: "Convoy.Observation", target: queue ?? OperationQueues.processing)
        let key: Int? = state.withLock { state in
            let (life, number) = operation.lifecycle.current
            // There will be no further change.
            guard life.state != .finished else { return nil }
            if state.told == nil { state.told = number }
            state.nextKey += 1
            state.observers[state.nextKey] = Observer(handler, on: serial, after: number)
            return state.nextKey
        }
        guard let key else { return OperationObservation {} }
        return OperationObservation { [weak self] in
            let removed = self?.state.withLock { $0.observers.removeValue(forKey: key) }
            removed?.invalidate()
        }
    }

    func note(_ transition: AtomicLifecycle.Transition, of operation: URLConnectionOperation) {
        guard let number = transition.number else { return }
        let released = state.withLock { state in
            // The change was made before there was an observer.
            guard let told = state.told, Self.comes(number, after: told) else { return [Int: Observer]() }
            state.waiting[number] = transition
            return Self.tell(&state, of: operation)
        }
        withExtendedLifetime(released) {}
    }

    /// Notifies the observers of all changes that are next in order. After the last change, returns the observers, to
    /// be released outside the lock.
    private static func tell(_ state: inout State, of operation: URLConnectionOperation) -> [Int: Observer] {
        while let told = state.told, let next = state.waiting.removeValue(forKey: told &+ 1) {
            state.told = told &+ 1
            // Submitted to the queues under the lock, which keeps the order; the handlers run later, without the lock.
            for observer in state.observers.values { observer.tell(next, number: told &+ 1, of: operation) }
            guard next.new.state != .finished else {
                defer { state.observers = [:] }
                return state.observers
            }
        }
        return [:]
    }

    /// Whether one change was made after another. Their numbers wrap around, and are compared by their distance.
    static func comes(_ number: UInt32, after other: UInt32) -> Bool { Int32(bitPattern: number &- other) > 0 }

    /// A handler, and the queue that it is called on.
    private final class Observer: Sendable {
        private let queue: DispatchQueue
        private let first: UInt32
        private let handler: Locked<Stored?>

        /// A closure stored directly in the generic `Locked` would be wrapped again each time it is read.
        private struct Stored { let call: Handler }

        init(_ handler: @escaping Handler, on queue: DispatchQueue, after number: UInt32) {
            self.handler = Locked(Stored(call: handler))
            self.queue = queue
            first = number
        }

        func tell(_ transition: AtomicLifecycle.Transition, number: UInt32, of operation: URLConnectionOperation) {
            guard ObservationCenter.comes(number, after: first) else { return }
            queue.async { [self] in
                handler.withLock { $0 }?.call(operation, transition.old, transition.new)
            }
        }

        /// Calls that are already on the queue are dropped too.
        func invalidate() {
            let released = handler.withLock { $0.take() }
            withExtendedLifetime(released) {}
        }
    }
}
