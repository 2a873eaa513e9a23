import ConvoySupport
import Foundation
import Synchronization

/// An observation that lasts as long as this object. The counterpart of `NSKeyValueObservation`.
///
/// The observation ends when this object is released, when `invalidate()` is called, or when the finish of the
/// operation has been reported.
public final class OperationObservation: Sendable {
    private let end: Locked<(@Sendable () -> Void)?>

    package init(_ end: @escaping @Sendable () -> Void) { self.end = Locked(end) }

    deinit { invalidate() }

    /// Ends the observation. After this returns, no new call of the handler begins, but a running one may continue.
    public func invalidate() { end.withLock { $0.take() }?() }
}

/// A change to an observed value, like `NSKeyValueObservedChange`.
public struct OperationChange<Value: Sendable>: Sendable {
    /// The value before the change.
    public let oldValue: Value
    /// The value after the change. The operation may have changed again in the meantime.
    public let newValue: Value

    package init(oldValue: Value, newValue: Value) { (self.oldValue, self.newValue) = (oldValue, newValue) }
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

// MARK: Changes

extension URLConnectionOperation {
    /// The log, or nil if it has no readers. Takes no lock.
    final var log: OperationLog? { logReference.object }

    /// The log, created if needed. From then on every change is recorded.
    final var openedLog: OperationLog {
        if let log { return log }
        let made = OperationLog()
        guard logReference.set(made) else { return logReference.object ?? made }
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        return made
    }

    /// Passes a lifecycle change to the log, if the log has been opened.
    func note(_ transition: AtomicLifecycle.Transition) {
        guard let log, let number = transition.number else { return }
        let (hasEvents, new) = (log.hasEvents, transition.new)
        let change = OperationLog.Change(
            transition: transition, number: number, moment: StartMoment.timeNow,
            whenReady: hasEvents && new.isStartable ? reasonToWait : .start,
            outcome: hasEvents && new.state == .finished ? outcome(of: new) : nil)
        log.note(change, of: self)
    }

    private func outcome(of life: Lifecycle) -> OperationOutcome {
        if life.isCancelled { return .cancelled }
        return error.map { .failed($0) } ?? .succeeded
    }
}

// MARK: Metrics and monitors

/// Metrics and events.
extension URLConnectionOperation {
    /// The metrics of the operation's waits and of all its requests. nil until the operation has finished, or if
    /// `collectsMetrics` is false. Like the results, the metrics are final when the finish of the operation is posted.
    public final var metrics: OperationMetrics? {
        guard lifecycle.value.state == .finished, collectsMetrics else { return nil }
        return eventLog?.metrics
    }

    /// The number of the operation in the events of monitors; nil without monitors.
    public final var operationNumber: UInt64? { eventLog?.operationNumber }

    /// The log, if it reports to metrics or monitors; nil without either. Takes no lock.
    final var eventLog: OperationLog? { log.flatMap { $0.hasEvents ? $0 : nil } }

    /// Starts to report to the metrics and the monitors.
    final func beginEvents(for monitors: [EventMonitor]) {
        openedLog.beginEvents(of: self, for: monitors)
        declare([.hearsOfQueue, .hearsOfWaits])
    }

    /// Reports the requests of this operation as events of the operation that it is a part of.
    final func addEvents(to parent: URLConnectionOperation) {
        guard let log = parent.eventLog else { return }
        openedLog.beginEvents(of: self, in: log)
        declare(.hearsOfQueue)
    }

    /// The reason why a startable operation waits, derived from the operation's own state.
    var reasonToWait: WaitReason {
        guard isScheduled else { return .start }
        return areDependenciesFinished ? .slot : .dependencies
    }

    /// Records that the operation was added to a queue or must wait in its queue again.
    func noteWaiting() {
        if eventLog != nil { willWait(for: reasonToWait) }
    }
}

// MARK: Activity

/// A listener that is called when any operation of the process becomes active or inactive.
protocol ActivityListener: AnyObject, Sendable {
    /// Called when an operation has begun, stopped, resumed or ended. The operation's state shows the current activity,
    /// and may be newer than this change. Called on any thread; must return quickly.
    func activityDidChange(of operation: URLConnectionOperation)
}

/// The listeners of all operations. Without listeners, each change to an operation costs one atomic read.
enum ActivityListeners {
    private struct Listener {
        weak var object: (any ActivityListener)?
    }

    private static let areListening = Atomic<Bool>(false)
    private static let all = Locked<[ObjectIdentifier: Listener]>([:])

    /// Adds a listener for all later changes, without retaining it.
    static func add(_ listener: any ActivityListener) {
        all.withLock { all in
            all[ObjectIdentifier(listener)] = Listener(object: listener)
            areListening.store(true, ordering: .sequentiallyConsistent)
        }
    }

    /// Removes a listener. Call this before the listener is released.
    static func remove(_ listener: any ActivityListener) {
        all.withLock { all in
            all[ObjectIdentifier(listener)] = nil
            areListening.store(!all.isEmpty, ordering: .sequentiallyConsistent)
        }
    }

    /// Reports a change to an operation's activity, if there are listeners.
    static func note(_ transition: AtomicLifecycle.Transition, of operation: URLConnectionOperation) {
        guard areListening.load(ordering: .relaxed) else { return }
        guard (transition.old.state == .executing) != (transition.new.state == .executing) else { return }
        // The activity of a part is that of its parent operation, and an operation without a slot is idle most of the
        // time.
        guard !operation.core.withLock({ $0.common.values.holder.isPart || $0.worker?.takesSlot == false }) else { return }
        let listeners = all.withLock { all in all.values.compactMap(\.object) }
        for listener in listeners { listener.activityDidChange(of: operation) }
    }
}
