import ConvoySupport
import Foundation
import Synchronization

/// Passes all changes of an operation's lifecycle, in order, to observers, event monitors and metrics.
///
/// Changes are made by many threads, and noted here in any order; they are put into order by their numbers, once for
/// all readers. What else a monitor receives stands behind the changes that had been noted by then: what the transport
/// reports belongs to an attempt whose beginning is among those.
///
/// An operation without readers has no log, and pays for one atomic read per change. When the last change, the one to
/// `finished`, has been submitted to the observers' queues, all observers are released.
final class TransitionLog: Sendable {
    typealias Handler = @Sendable (URLConnectionOperation, Lifecycle, Lifecycle) -> Void

    /// A change, with the circumstances when it was noted.
    struct Change: Sendable {
        let transition: AtomicLifecycle.Transition
        let number: UInt32
        let moment: MonotonicTime
        /// What the operation waits for, if it became ready.
        let whenReady: WaitReason
        /// The operation's outcome, if it has finished.
        let outcome: OperationOutcome?

        fileprivate var isLast: Bool { transition.new.state == .finished }
    }

    /// A report to a monitor, after a change.
    struct Report {
        let eventLog: OperationEventLog
        let report: OperationEventLog.Report
        let moment: MonotonicTime
    }

    private struct State {
        /// The number of the last change that was passed on; nil until there is a reader.
        var last: UInt32?
        /// The number of the latest change that was noted.
        var latest: UInt32 = 0
        /// Changes that were noted early: an earlier one is still missing.
        var early: [UInt32: Change] = [:]
        /// By the number of the change that they follow.
        var held: [UInt32: [Report]] = [:]
        var observers: [Int: Observer] = [:]
        var nextKey = 0
    }

    private let state = Locked(State())

    /// Whether there are observers.
    var hasObservers: Bool { state.withLock { !$0.observers.isEmpty } }

    /// The changes that were noted but not passed on, as an earlier one is missing.
    var early: [Change] { state.withLock { $0.early.values.sorted { Self.comes($1.number, after: $0.number) } } }

    /// Whether one change was made after another. Numbers wrap around, so their distance is compared.
    static func comes(_ number: UInt32, after other: UInt32) -> Bool { Int32(bitPattern: number &- other) > 0 }

    /// Lets a reader begin with the current state: `body` receives that, and the number of the last change in it.
    func begin(with operation: URLConnectionOperation, _ body: (Lifecycle, UInt32) -> Void) {
        state.withLock { state in
            let (life, number) = operation.lifecycle.current
            if state.last == nil { (state.last, state.latest) = (number, number) }
            body(life, number)
        }
    }

    /// Notes a change, and passes on those that follow in order.
    func note(_ change: Change, of operation: URLConnectionOperation) {
        let released = state.withLock { state in
            // The change was made before there was a reader.
            guard let last = state.last, Self.comes(change.number, after: last) else { return [Int: Observer]() }
            if Self.comes(change.number, after: state.latest) { state.latest = change.number }
            guard change.number == last &+ 1 else {
                state.early[change.number] = change
                return [:]
            }
            var following: Change? = change
            while let next = following {
                state.last = next.number
                pass(next, of: operation, &state)
                guard !next.isLast else {
                    defer { state.observers = [:] }
                    return state.observers
                }
                following = state.early.isEmpty ? nil : state.early.removeValue(forKey: next.number &+ 1)
            }
            return [:]
        }
        withExtendedLifetime(released) {}
    }

    /// Called under the lock, which keeps the order. No reader calls user code here: handlers run later, on their
    /// queues.
    private func pass(_ change: Change, of operation: URLConnectionOperation, _ state: inout State) {
        operation.metricsRecord?.read(change)
        operation.eventLog?.read(change)
        for observer in state.observers.values { observer.read(change, of: operation) }
        guard !state.held.isEmpty, let held = state.held.removeValue(forKey: change.number) else { return }
        for report in held { report.eventLog.tell(report) }
    }

    /// Calls `tell` at once if all changes that were noted have been passed on; otherwise the report is kept until then.
    func tellInOrder(_ report: @autoclosure () -> Report, _ tell: () -> Void) {
        state.withLock { state in
            guard let last = state.last else { return }
            guard state.latest == last else { return state.held[state.latest, default: []].append(report()) }
            tell()
        }
    }

    // MARK: Observers

    func observe(
        _ operation: URLConnectionOperation, on queue: DispatchQueue?, _ handler: @escaping Handler
    ) -> OperationObservation {
        // Without a target, each serial queue may get its own thread. With many observers, the threads and the memory
        // that the allocator keeps for them would add up.
        let serial = DispatchQueue(label: "Convoy.Observation", target: queue ?? OperationQueues.processing)
        let key: Int? = state.withLock { state in
            let (life, number) = operation.lifecycle.current
            // There will be no further change.
            guard life.state != .finished else { return nil }
            if state.last == nil { (state.last, state.latest) = (number, number) }
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

        func read(_ change: Change, of operation: URLConnectionOperation) {
            guard TransitionLog.comes(change.number, after: first) else { return }
            queue.async { [self] in
                handler.withLock { $0 }?.call(operation, change.transition.old, change.transition.new)
            }
        }

        /// Calls that are already on the queue are dropped too.
        func invalidate() {
            let released = handler.withLock { $0.take() }
            withExtendedLifetime(released) {}
        }
    }
}

extension URLConnectionOperation {
    /// The log; nil while nothing reads it. Takes no lock.
    final var transitionLog: TransitionLog? { logReference.object }

    /// The log, made if needed. From then on every change is noted.
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
