import ConvoySupport
import Foundation
import Synchronization

/// An operation whose changes a ``TransitionLog`` passes to readers.
protocol LoggedOperation: ScheduledOperation {
    /// The log that reports to metrics and monitors; nil without either. Takes no lock.
    var eventLog: OperationEventLog? { get }
}

/// Passes all changes of an operation's lifecycle, in order, to its observers and its event log.
///
/// Changes are made by many threads and recorded here in any order. They are sorted by their numbers, once for all
/// readers. The event log receives other reports after the changes recorded before them: a report of the transport belongs
/// to an attempt whose start is among those changes.
///
/// An operation without readers has no log, and each of its changes costs one atomic read. When the last change, to
/// `finished`, has been submitted to the observers' queues, all observers are released.
final class TransitionLog: Sendable {
    typealias Receiver = @Sendable (any LoggedOperation, Lifecycle, Lifecycle) -> Void

    /// A change, with the circumstances at the time it was recorded.
    struct Change: Sendable {
        let transition: AtomicLifecycle.Transition
        let number: UInt32
        let moment: MonotonicTime
        /// The reason why the operation waits, if it became ready.
        let whenReady: WaitReason
        /// The operation's outcome, if it has finished.
        let outcome: OperationOutcome?

        fileprivate var isLast: Bool { transition.new.state == .finished }
    }

    /// A report to the event log, after a change.
    struct PendingReport {
        let eventLog: OperationEventLog
        let report: OperationEventLog.Report
        let moment: MonotonicTime
    }

    private struct State {
        /// The number of the last delivered change; nil until there is a reader.
        var last: UInt32?
        /// The number of the latest change that was recorded.
        var latest: UInt32 = 0
        /// The changes that were recorded while an earlier change is missing, by number.
        var early: [UInt32: Change] = [:]
        /// Pending reports, by the number of the change that they follow.
        var held: [UInt32: [PendingReport]] = [:]
        var observers: [Int: Observer] = [:]
        var nextKey = 0
    }

    private let state = Locked(State())

    /// Whether there are observers.
    var hasObservers: Bool { state.withLock { !$0.observers.isEmpty } }

    /// Calls `body` with the changes that were recorded but not delivered, because an earlier one is missing, and with
    /// the reports that follow them, by the number of the change.
    func withPending<Result>(_ body: ([Change], [UInt32: [PendingReport]]) -> Result) -> Result {
        state.withLock { state in
            body(state.early.values.sorted { Self.comes($1.number, after: $0.number) }, state.held)
        }
    }

    /// Returns whether one change was made after another. Compares the distance of their numbers, because the numbers
    /// wrap around.
    static func comes(_ number: UInt32, after other: UInt32) -> Bool { Int32(bitPattern: number &- other) > 0 }

    /// Adds a reader that begins with the current state. `body` receives that state and the number of the last change.
    func begin(with operation: ScheduledOperation, _ body: (Lifecycle, UInt32) -> Void) {
        state.withLock { state in
            let (life, number) = operation.lifecycle.current
            if state.last == nil { (state.last, state.latest) = (number, number) }
            body(life, number)
        }
    }

    /// Records a change, and delivers all changes that are next in order.
    func note(_ change: Change, of operation: any LoggedOperation) {
        let released = state.withLock { state in
            // Ignore changes made before the first reader was added.
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

    /// Delivers a change to all readers. Called under the lock, which preserves the order. Readers call no user code
    /// here, because handlers run later, on their queues.
    private func pass(_ change: Change, of operation: any LoggedOperation, _ state: inout State) {
        operation.eventLog?.read(change)
        for observer in state.observers.values { observer.read(change, of: operation) }
        guard !state.held.isEmpty, let held = state.held.removeValue(forKey: change.number) else { return }
        for report in held { report.eventLog.tell(report) }
    }

    /// Runs `tell` immediately if all recorded changes have been delivered; otherwise stores the report until then.
    func tellInOrder(_ report: @autoclosure () -> PendingReport, _ tell: () -> Void) {
        state.withLock { state in
            guard let last = state.last else { return }
            guard state.latest == last else { return state.held[state.latest, default: []].append(report()) }
            tell()
        }
    }

    // MARK: Observers

    /// Calls a receiver for every later change, on a separate serial queue with the given target.
    ///
    /// - Returns: A closure that ends the observation; nil if no further change can occur.
    func observe(
        _ operation: ScheduledOperation, on target: DispatchQueue, _ receiver: @escaping Receiver
    ) -> (@Sendable () -> Void)? {
        // The queue has a target because otherwise each serial queue may get its own thread. With many observers, the
        // threads and the memory that the allocator keeps for them would add up.
        let serial = DispatchQueue(label: "Convoy.Observation", target: target)
        let key: Int? = state.withLock { state in
            let (life, number) = operation.lifecycle.current
            // No further change can occur.
            guard life.state != .finished else { return nil }
            if state.last == nil { (state.last, state.latest) = (number, number) }
            state.nextKey += 1
            state.observers[state.nextKey] = Observer(receiver, on: serial, after: number)
            return state.nextKey
        }
        guard let key else { return nil }
        return { [weak self] in
            let removed = self?.state.withLock { $0.observers.removeValue(forKey: key) }
            removed?.invalidate()
        }
    }

    /// A handler, and the queue on which it is called.
    private final class Observer: Sendable {
        private let queue: DispatchQueue
        private let first: UInt32
        private let receiver: Locked<Stored?>

        /// A box for the receiver. A closure stored directly in the generic `Locked` would be wrapped again each time
        /// it is read.
        private struct Stored { let call: Receiver }

        init(_ receiver: @escaping Receiver, on queue: DispatchQueue, after number: UInt32) {
            self.receiver = Locked(Stored(call: receiver))
            self.queue = queue
            first = number
        }

        func read(_ change: Change, of operation: any LoggedOperation) {
            guard TransitionLog.comes(change.number, after: first) else { return }
            queue.submit { [self] in
                receiver.withLock { $0 }?.call(operation, change.transition.old, change.transition.new)
            }
        }

        /// Discards all further calls, including those already submitted to the queue.
        func invalidate() {
            let released = receiver.withLock { $0.take() }
            withExtendedLifetime(released) {}
        }
    }
}
