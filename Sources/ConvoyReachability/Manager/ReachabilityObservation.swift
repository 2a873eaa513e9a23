import ConvoySupport
import Foundation

/// An observation of a ``NetworkReachabilityManager``, which lasts as long as this object: the counterpart of
/// `NSKeyValueObservation`.
public final class ReachabilityObservation: Sendable {
    private let end: Locked<(@Sendable () -> Void)?>

    init(_ end: @escaping @Sendable () -> Void) { self.end = Locked(end) }

    deinit { invalidate() }

    /// Ends the observation. No call of the handler begins after this has returned, but one that is under way may go on.
    public func invalidate() { end.withLock { $0.take() }?() }
}

/// A change of an observed value, like `NSKeyValueObservedChange`.
public struct ReachabilityChange<Value: Sendable>: Sendable {
    /// The value before the change.
    public let oldValue: Value
    /// The value after the change. The network may have changed again since.
    public let newValue: Value
}

extension NetworkReachabilityManager {
    /// What can be observed.
    public struct ObservedValue<Value: Sendable & Equatable>: Sendable {
        let read: @Sendable (NetworkReachabilityStatus) -> Value
    }

    /// Observes the manager, like `observe(_:)` with KVO on Apple's systems. Foundation on Linux has no KVO.
    ///
    /// The handler is called for every change from now on, in order, one call at a time, on the given queue or on a serial
    /// queue of the manager's own.
    ///
    /// - Returns: the observation. It ends when this is released: keep it, for example in a property.
    public func observe<Value: Sendable & Equatable>(
        _ value: ObservedValue<Value>, on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (NetworkReachabilityManager, ReachabilityChange<Value>) -> Void
    ) -> ReachabilityObservation {
        addObserver(queue: queue) { manager, old, new in
            let (old, new) = (value.read(old), value.read(new))
            if old != new { handler(manager, ReachabilityChange(oldValue: old, newValue: new)) }
        }
    }
}

extension NetworkReachabilityManager.ObservedValue where Value == NetworkReachabilityStatus {
    /// The status.
    public static var status: Self { Self { $0 } }
}

extension NetworkReachabilityManager.ObservedValue where Value == Bool {
    /// Whether there is a way.
    public static var isReachable: Self { Self { $0.isReachable } }
    /// Whether the way begins in a mobile network.
    public static var isReachableViaWWAN: Self { Self { $0 == .reachableViaWWAN } }
    /// Whether the way begins in a wireless LAN.
    public static var isReachableViaWiFi: Self { Self { $0 == .reachableViaWiFi } }
    /// Whether the way begins at a cable, or is inside this machine.
    public static var isReachableViaWire: Self { Self { $0 == .reachableViaWire } }
}
