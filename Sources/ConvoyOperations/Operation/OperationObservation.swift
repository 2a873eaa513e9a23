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
        openedLog.observe(self, on: queue) { operation, old, new in
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
