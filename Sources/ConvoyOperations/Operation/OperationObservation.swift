import ConvoySupport
import Foundation
import Synchronization

/// An observation that lasts as long as this object. The counterpart of `NSKeyValueObservation`.
///
/// It ends when the object is released, when `invalidate()` is called, or when the finish of the operation has been
/// reported.
public final class OperationObservation: Sendable {
    private let end: Locked<(@Sendable () -> Void)?>

    package init(_ end: @escaping @Sendable () -> Void) { self.end = Locked(end) }

    deinit { invalidate() }

    /// Ends the observation. After this returns, no new call of the handler begins, but a running one may continue.
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
    /// The handler is called for every change from now on, in order and never concurrently, on the given queue or on an
    /// internal queue. It is called after the change without any lock held, so values that it reads from the operation
    /// may be newer than those it is passed.
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

extension URLConnectionOperation: LoggedOperation {
    /// The log, or nil if it has no readers. Takes no lock.
    final var transitionLog: TransitionLog? { logReference.object }

    /// The log, created if needed. From then on every change is recorded.
    final var openedLog: TransitionLog {
        if let log = logReference.object { return log }
        let made = TransitionLog()
        guard logReference.set(made) else { return logReference.object ?? made }
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        return made
    }

    /// Passes a change to its readers, if there are any.
    func note(_ transition: AtomicLifecycle.Transition) {
        guard let log = transitionLog, let number = transition.number else { return }
        let (isRecorded, isMonitored, new) = (metricsReference.isSet, eventLogReference.isSet, transition.new)
        let change = TransitionLog.Change(
            transition: transition, number: number, moment: StartMoment.timeNow,
            whenReady: (isRecorded || isMonitored) && new.isStartable ? reasonToWait : .start,
            outcome: isMonitored && new.state == .finished ? outcome(of: new) : nil)
        log.note(change, of: self)
    }

    private func outcome(of life: Lifecycle) -> OperationOutcome {
        if life.isCancelled { return .cancelled }
        return error.map { .failed($0) } ?? .succeeded
    }
}

// MARK: Metrics

/// The metrics of an operation.
extension URLConnectionOperation {
    /// The waits and all requests of the operation. nil until the operation has finished, and if `collectsMetrics` is
    /// not set. Final when the finish of the operation is posted, like its results.
    public final var metrics: OperationMetrics? {
        guard lifecycle.value.state == .finished, let record = metricsRecord, collectsMetrics else { return nil }
        return record.metrics(retryCount: retryCount, before: transitionLog?.early ?? [])
    }

    /// The record that collects the metrics; nil if they are not collected. Takes no lock.
    final var metricsRecord: MetricsRecord? { metricsReference.object }

    /// Starts to collect metrics, if needed and not already started.
    final func beginMetrics() {
        guard !metricsReference.isSet, collectsMetrics, metricsReference.set(MetricsRecord()) else { return }
        openedLog.begin(with: self) { _, _ in }
        declare([.hearsOfQueue, .hearsOfWaits])
    }

    /// Adds the requests of this operation to the metrics of the operation that it is a part of.
    final func addMetrics(to parent: URLConnectionOperation) {
        guard let record = parent.metricsRecord else { return }
        guard metricsReference.set(MetricsRecord(partOf: record)) else { return }
        openedLog.begin(with: self) { _, _ in }
        declare(.hearsOfQueue)
    }

    /// The reason why a startable operation waits, as far as the operation itself knows.
    var reasonToWait: WaitReason {
        guard isScheduled else { return .start }
        return areDependenciesFinished ? .slot : .dependencies
    }

    /// Records that the operation was added to a queue or must wait there again.
    func noteWaiting() {
        guard metricsReference.isSet || eventLogReference.isSet else { return }
        willWait(for: reasonToWait)
    }
}

// MARK: Monitors

/// Reports the events of an operation to its monitors.
extension URLConnectionOperation {
    /// The number of the operation in the events of monitors; nil without monitors.
    public final var operationNumber: UInt64? { eventLog?.number }

    /// The log that reports to monitors; nil without any. Takes no lock.
    final var eventLog: OperationEventLog? { eventLogReference.object }

    /// Starts to report to the monitors, if there are any.
    final func beginEventLog() {
        guard !eventLogReference.isSet else { return }
        let monitors = eventMonitors
        guard !monitors.isEmpty else { return }
        let (log, eventLog) = (openedLog, OperationEventLog(monitors: monitors, log: openedLog))
        guard eventLogReference.set(eventLog) else { return }
        log.begin(with: self) { life, number in eventLog.begin(after: number, isFinished: life.state == .finished) }
        declare([.hearsOfQueue, .hearsOfWaits])
    }

    /// Reports the requests of this operation in the event log of the operation that it is a part of.
    final func addEventLog(to parent: URLConnectionOperation) {
        guard let eventLog = parent.eventLog else { return }
        guard eventLogReference.set(OperationEventLog(partOf: eventLog)) else { return }
        openedLog.begin(with: self) { _, _ in }
        declare(.hearsOfQueue)
    }
}

// MARK: Activity

/// Called when any operation of the process becomes active or inactive.
protocol ActivityListener: AnyObject, Sendable {
    /// The operation has begun, stopped, continued or ended. Its state shows which, and may be newer than this change.
    /// Called on any thread; must return quickly.
    func activityDidChange(of operation: URLConnectionOperation)
}

/// The listeners of all operations. Without listeners, an operation pays for one atomic read per change.
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

    /// Removes a listener, which is required before it is released.
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
        // A part counts as activity of its parent operation, and an operation without a slot mostly waits.
        guard !operation.core.withLock({ $0.common.values.holder.isPart || $0.worker?.takesSlot == false }) else { return }
        let listeners = all.withLock { all in all.values.compactMap(\.object) }
        for listener in listeners { listener.activityDidChange(of: operation) }
    }
}
