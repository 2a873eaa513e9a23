import ConvoySupport
import Foundation
import Synchronization

/// An observation, which lasts as long as this object: the counterpart of `NSKeyValueObservation`.
///
/// It ends when the object is released, by `invalidate()`, or when the end of the operation was reported.
public final class OperationObservation: Sendable {
    private let end: Locked<(@Sendable () -> Void)?>

    package init(_ end: @escaping @Sendable () -> Void) { self.end = Locked(end) }

    deinit { invalidate() }

    /// Ends the observation. No call of the handler begins after this has returned, but a running one may continue.
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
    /// The values that can be observed.
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
        openedLog.observe(self, on: queue) { operation, old, new in
            let (old, new) = (value.read(old), value.read(new))
            if old != new { handler(operation, OperationChange(oldValue: old, newValue: new)) }
        }
    }
}

extension URLConnectionOperation.ObservedValue where Value == OperationState {
    /// The state of the operation.
    public static var state: Self { Self { $0.state } }
}

extension URLConnectionOperation.ObservedValue where Value == Bool {
    /// Whether the state is `ready`, regardless of dependencies.
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

/// Flags of rarely used features: followers of the progress, delegates, and settings that must be looked up under the
/// lock.
///
/// Read without a lock at each change and each block of bytes; flags are never cleared.
struct OperationFlags: ~Copyable, Sendable {
    enum Interest: UInt8 {
        /// A progress handler is set, or the `Progress` was asked for.
        case progress = 1
        /// A supervisor is called with changes before they have consequences.
        case supervisor = 2
        /// A delegate follows the transfer and decides about it.
        case delegate = 4
        /// The settings have, or had, a completion group.
        case completionGroup = 8
        /// The settings have, or had, a retry policy.
        case retryPolicy = 16
        /// The request is no longer the one that the operation was made with.
        case otherRequest = 32
        /// There is a record of who the client is, or a token.
        case authentication = 64
        /// The delivery is waited for.
        case delivery = 128
    }

    private let bits = Atomic<UInt8>(0)

    func insert(_ interest: Interest) { bits.bitwiseOr(interest.rawValue, ordering: .sequentiallyConsistent) }

    func contains(_ interest: Interest) -> Bool { bits.load(ordering: .sequentiallyConsistent) & interest.rawValue != 0 }
}

/// Is called when an operation of the process begins or ceases to be active.
protocol ActivityListener: AnyObject, Sendable {
    /// The operation has begun, stopped, continued or ended; its state shows which, and may be newer than this change.
    /// Called on any thread, and must be short.
    func activityDidChange(of operation: URLConnectionOperation)
}

/// The listeners of all operations. Without any, an operation pays for one atomic read per change.
enum ActivityListeners {
    private struct Listener {
        weak var object: (any ActivityListener)?
    }

    private static let areListening = Atomic<Bool>(false)
    private static let all = Locked<[ObjectIdentifier: Listener]>([:])

    /// Adds a listener for all later changes. It is not retained.
    static func add(_ listener: any ActivityListener) {
        all.withLock { all in
            all[ObjectIdentifier(listener)] = Listener(object: listener)
            areListening.store(true, ordering: .sequentiallyConsistent)
        }
    }

    /// Removes a listener; required before it is released.
    static func remove(_ listener: any ActivityListener) {
        all.withLock { all in
            all[ObjectIdentifier(listener)] = nil
            areListening.store(!all.isEmpty, ordering: .sequentiallyConsistent)
        }
    }

    /// Reports a change of an operation's activity, if there are listeners.
    static func note(_ transition: AtomicLifecycle.Transition, of operation: URLConnectionOperation) {
        guard areListening.load(ordering: .relaxed) else { return }
        guard (transition.old.state == .executing) != (transition.new.state == .executing) else { return }
        // A part of another operation is that one's activity, and an operation without a slot mostly waits.
        guard !operation.core.withLock({ $0.common.values.holder.isPart || $0.worker?.takesSlot == false }) else { return }
        let listeners = all.withLock { all in all.values.compactMap(\.object) }
        for listener in listeners { listener.activityDidChange(of: operation) }
    }
}
