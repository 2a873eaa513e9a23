import ConvoySupport
import Foundation
import Synchronization

/// An observation, which lasts as long as this object: the counterpart of `NSKeyValueObservation`.
///
/// It ends when the object is released, by `invalidate()`, or when the operation has finished and that was told.
public final class OperationObservation: Sendable {
    private let end: Locked<(@Sendable () -> Void)?>

    package init(_ end: @escaping @Sendable () -> Void) { self.end = Locked(end) }

    deinit { invalidate() }

    /// Ends the observation. No call of the handler begins after this has returned, but one that is under way may go on.
    public func invalidate() { end.withLock { $0.take() }?() }
}

/// A change of an observed value, like `NSKeyValueObservedChange`.
public struct OperationChange<Value: Sendable>: Sendable {
    /// The value before the change.
    public let oldValue: Value
    /// The value after the change. The operation may have changed again since.
    public let newValue: Value

    package init(oldValue: Value, newValue: Value) { (self.oldValue, self.newValue) = (oldValue, newValue) }
}

extension URLConnectionOperation {
    /// What can be observed.
    public struct ObservedValue<Value: Sendable & Equatable>: Sendable {
        let read: @Sendable (Lifecycle) -> Value
    }

    /// Observes the operation, like `observe(_:)` with KVO on Apple's systems. Foundation on Linux has no KVO.
    ///
    /// The handler is called for every change from now on, in order, one call at a time, on the given queue or on a
    /// serial queue of the library. It is called after the change, with no lock held: values that it reads from the
    /// operation may be newer than those it is passed.
    ///
    /// - Returns: the observation. It ends when this is released: keep it, for example in a property, or in the
    ///   operation's `userInfo`.
    public final func observe<Value: Sendable & Equatable>(
        _ value: ObservedValue<Value>, on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (URLConnectionOperation, OperationChange<Value>) -> Void
    ) -> OperationObservation {
        observationCenter.add(to: self, queue: queue) { operation, old, new in
            let (old, new) = (value.read(old), value.read(new))
            if old != new { handler(operation, OperationChange(oldValue: old, newValue: new)) }
        }
    }
}

extension URLConnectionOperation.ObservedValue where Value == OperationState {
    /// Where the operation is in its life.
    public static var state: Self { Self { $0.state } }
}

extension URLConnectionOperation.ObservedValue where Value == Bool {
    /// Whether the state is `ready`. The dependencies are not in it.
    public static var isReady: Self { Self { $0.state == .ready } }
    /// Whether the state is `executing`.
    public static var isExecuting: Self { Self { $0.state == .executing } }
    /// Whether the state is `paused`.
    public static var isPaused: Self { Self { $0.state == .paused } }
    /// Whether the state is `finished`.
    public static var isFinished: Self { Self { $0.state == .finished } }
    /// Whether the operation was cancelled. It may not have finished yet.
    public static var isCancelled: Self { Self { $0.isCancelled } }
}

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

/// Whether anybody observes an operation or its progress. Read without a lock at each change and each block of bytes;
/// flags are never cleared.
struct Onlookers: ~Copyable, Sendable {
    enum Interest: UInt8 {
        /// Somebody observes the state.
        case observer = 1
        /// Somebody has set a progress handler, or has asked for the `Progress`.
        case progress = 2
        /// Somebody hears of changes before they have consequences.
        case supervisor = 4
        /// Somebody hears of the transfer, and decides about it.
        case delegate = 8
    }

    private let bits = Atomic<UInt8>(0)

    func insert(_ interest: Interest) { bits.bitwiseOr(interest.rawValue, ordering: .sequentiallyConsistent) }

    func contains(_ interest: Interest) -> Bool { bits.load(ordering: .sequentiallyConsistent) & interest.rawValue != 0 }
}

/// Hears of all operations of the process that begin or cease to be under way.
protocol ActivityListener: AnyObject, Sendable {
    /// The operation has begun, stopped, gone on or ended; its state says which, and may be newer than what is told here.
    /// Called on any thread, and must be short.
    func activityDidChange(of operation: URLConnectionOperation)
}

/// Those who hear of all operations. Where there are none, an operation pays for one atomic read per change.
enum ActivityListeners {
    private struct Listener {
        weak var object: (any ActivityListener)?
    }

    private static let areListening = Atomic<Bool>(false)
    private static let all = Locked<[ObjectIdentifier: Listener]>([:])

    /// Lets an object hear of all changes from now on. It is not retained.
    static func add(_ listener: any ActivityListener) {
        all.withLock { all in
            all[ObjectIdentifier(listener)] = Listener(object: listener)
            areListening.store(true, ordering: .sequentiallyConsistent)
        }
    }

    /// To be called by whoever was added, at its end at the latest.
    static func remove(_ listener: any ActivityListener) {
        all.withLock { all in
            all[ObjectIdentifier(listener)] = nil
            areListening.store(!all.isEmpty, ordering: .sequentiallyConsistent)
        }
    }

    /// Tells of a change of an operation, if anybody wants to know and it has to do with being under way.
    static func note(_ transition: AtomicLifecycle.Transition, of operation: URLConnectionOperation) {
        guard areListening.load(ordering: .relaxed) else { return }
        guard (transition.old.state == .executing) != (transition.new.state == .executing) else { return }
        // What does a part of another's work is that one's activity, and what takes no slot mostly waits.
        guard !operation.core.withLock({ $0.common.values.isPart || $0.worker?.takesSlot == false }) else { return }
        let listeners = all.withLock { all in all.values.compactMap(\.object) }
        for listener in listeners { listener.activityDidChange(of: operation) }
    }
}
