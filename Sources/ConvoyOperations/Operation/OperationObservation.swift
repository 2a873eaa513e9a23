import ConvoySupport
import Foundation

/// An observation that lasts as long as this object. The counterpart of `NSKeyValueObservation`.
///
/// The observation ends when this object is released, when `invalidate()` is called, or when the finish of the
/// operation has been reported.
public final class OperationObservation: Sendable {
    private let end: Once<Void>

    package init(_ end: @escaping @Sendable () -> Void) { self.end = Once { end() } }

    deinit { invalidate() }

    /// Ends the observation. After this returns, no new call of the handler begins, but a running one may continue.
    public func invalidate() { end.set(()) }
}

/// A change to an observed value, like `NSKeyValueObservedChange`.
public struct OperationChange<Value: Sendable>: Sendable {
    /// The value before the change.
    public let oldValue: Value
    /// The value after the change. The operation may have changed again in the meantime.
    public let newValue: Value

    package init(oldValue: Value, newValue: Value) {
        self.oldValue = oldValue
        self.newValue = newValue
    }
}

extension URLConnectionOperation {
    /// A property of an operation that can be observed.
    public struct ObservedValue<Value: Sendable & Equatable>: Sendable {
        let read: @Sendable (Lifecycle) -> Value
    }

    /// Observes the operation, like `observe(_:)` with KVO on Apple's systems. Foundation on Linux has no KVO.
    ///
    /// The handler is called for every change from now on, in order and never concurrently, on the given queue or on an
    /// internal queue. It is called after the change, without any lock held, so values that it reads from the operation
    /// may be newer than those passed to it.
    ///
    /// - Returns: The observation, which ends when it is released. Keep it, for example in a property or in the
    ///   operation's `userInfo`.
    public final func observe<Value: Sendable & Equatable>(
        _ value: ObservedValue<Value>, on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (URLConnectionOperation, OperationChange<Value>) -> Void
    ) -> OperationObservation {
        let end = openedLog.observe(self, on: queue ?? OperationQueues.processing) { operation, old, new in
            let (old, new) = (value.read(old), value.read(new))
            guard old != new, let operation = operation as? URLConnectionOperation else { return }
            handler(operation, OperationChange(oldValue: old, newValue: new))
        }
        return OperationObservation(end ?? {})
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
