import ConvoySupport
import ConvoyTransport
import Foundation
import Synchronization

/// The log of one operation: the changes of its lifecycle in order, for its observers, and its events, for its metrics
/// and monitors.
///
/// Changes are made by many threads and recorded here in any order. They are sorted by their numbers, once for all
/// readers. Other reports become events after the changes recorded before them: a report of the transport belongs to an
/// attempt whose start is among those changes.
///
/// An operation without readers has no log, and pays for one atomic read per change. When the last change, to
/// `finished`, has been submitted to the observers' queues, all observers are released.
final class OperationLog: Sendable {
    typealias Receiver = @Sendable (ScheduledOperation, Lifecycle, Lifecycle) -> Void

    /// A change, with the circumstances at the time it was recorded.
    struct RecordedChange: Sendable {
        let transition: AtomicLifecycle.Transition
        let number: UInt32
        let moment: MonotonicTime
        /// The reason why the operation waits, if it became ready.
        let whenReady: WaitReason
        /// The operation's outcome, if it has finished.
        let outcome: OperationOutcome?

        fileprivate var isLast: Bool { transition.new.state == .finished }
    }

    /// A report about something other than a change, before it becomes an event. Large values are boxed to keep the
    /// others small.
    enum LogReport {
        case wait(WaitReason)
        /// The reason of the next delay between two attempts.
        case delay(for: WaitReason)
        case event(OperationEvent.Kind)
        indirect case requestStarted(RequestHead)
        indirect case responded(ResponseHead, TransactionPhases?)
        indirect case requestEnded(ResponseHead?, TransactionMetrics)
    }

    /// A report that waits for an earlier change.
    struct PendingReport {
        let report: LogReport
        let moment: MonotonicTime
    }

    private struct State {
        /// The number of the last delivered change; nil until a reader is added.
        var last: UInt32?
        /// The number of the latest change that was recorded.
        var latest: UInt32 = 0
        /// Changes that were recorded early, while an earlier one is missing.
        var early: [UInt32: RecordedChange] = [:]
        /// Pending reports, by the number of the change that they follow.
        var held: [UInt32: [PendingReport]] = [:]
        var observers: [Int: Observer] = [:]
        var nextKey = 0
        /// The operation's events, if the log has readers and the operation is not a part of another operation.
        var events: EventRecord?
        /// The number of a part's request in the log of the whole operation, if any.
        var partRequest: Int?

        /// Begins the log with the operation's current state, unless an earlier reader has already begun it.
        mutating func begin(with operation: ScheduledOperation) -> (life: Lifecycle, number: UInt32) {
            let current = operation.lifecycle.current
            if last == nil {
                last = current.number
                latest = current.number
            }
            return current
        }
    }

    private let state = Locked(State())
    private let eventsFlag = Atomic<Bool>(false)
    /// The log of the operation that this one is a part of, if any. It receives the events of the part's requests.
    private let parent = AtomicOnce<OperationLog>()

    /// Whether the log has observers.
    var hasObservers: Bool { state.withLock { !$0.observers.isEmpty } }

    /// Whether a change was recorded but not delivered, because an earlier one is missing.
    var isChangeMissing: Bool { state.withLock { !$0.early.isEmpty } }

    /// Returns whether one change was made after another. Numbers wrap around, so their distance is compared.
    static func comes(_ number: UInt32, after other: UInt32) -> Bool { Int32(bitPattern: number &- other) > 0 }

    // MARK: Events

    /// Whether reports become events. Reading this property takes no lock.
    var hasEvents: Bool { eventsFlag.load(ordering: .sequentiallyConsistent) }

    /// Starts creating events, if necessary, and adds the monitors unless the log already has monitors.
    func beginEvents(of operation: ScheduledOperation, for monitors: [EventMonitor]) {
        guard !parent.isSet else { return }
        // A concurrent change either is part of the current state or observes the flag.
        eventsFlag.store(true, ordering: .sequentiallyConsistent)
        state.withLock { state in
            if state.events != nil {
                state.events?.add(monitors)
                return
            }
            let (life, number) = state.begin(with: operation)
            state.events = EventRecord(after: number, isFinished: life.state == .finished, monitors: monitors)
        }
    }

    /// Starts to report the requests of a part in the log of the whole operation.
    func beginEvents(of part: ScheduledOperation, in parent: OperationLog) {
        guard !hasEvents, self.parent.set(parent) else { return }
        eventsFlag.store(true, ordering: .sequentiallyConsistent)
        state.withLock { state in _ = state.begin(with: part) }
    }

    /// The number of the operation in the events of its monitors; nil without monitors.
    var operationNumber: UInt64? {
        if let parent = parent.object { return parent.operationNumber }
        return state.withLock { state in state.events.flatMap { $0.monitors.isEmpty ? nil : $0.source.operationNumber } }
    }

    /// The final metrics of a finished operation; nil for a part, whose requests are reported elsewhere.
    var metrics: OperationMetrics? {
        state.withLock { state in
            let changes = state.early.values.sorted { Self.comes($1.number, after: $0.number) }
            let reports = state.held
            return state.events?.finalMetrics(after: changes, reports)
        }
    }

    /// Sets the rules for secrets in a cached response. Called before the response is reported.
    func noteSecrets(of configuration: ConnectionConfiguration) {
        let secrets = ResponseSecrets(configuration.secrets)
        (parent.object ?? self).state.withLock { $0.events?.source.secrets = secrets }
    }

    // MARK: Changes

    /// Records a change, and passes on the changes that follow in order.
    func note(_ change: RecordedChange, of operation: ScheduledOperation) {
        let released = state.withLock { state in
            // The change was made before a reader was added.
            guard let last = state.last, Self.comes(change.number, after: last) else { return [Int: Observer]() }
            if Self.comes(change.number, after: state.latest) { state.latest = change.number }
            guard change.number == last &+ 1 else {
                state.early[change.number] = change
                return [:]
            }
            var following: RecordedChange? = change
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

    /// Passes a change to the readers. Called under the lock, which preserves the order. No reader calls user code
    /// here: handlers run later, on their queues.
    private func pass(_ change: RecordedChange, of operation: ScheduledOperation, _ state: inout State) {
        state.events?.report(change)
        if change.transition.endsAttempt, let request = state.partRequest.take() {
            parent.object?.report { $0.end(request, nil, nil, at: change.moment, $1) }
        }
        for observer in state.observers.values { observer.read(change, of: operation) }
        guard !state.held.isEmpty, let held = state.held.removeValue(forKey: change.number) else { return }
        for report in held { state.events?.report { $0.tell(report.report, at: report.moment, $1) } }
    }

    // MARK: Reports

    /// Reports a wait in a queue, or a decision.
    func note(_ report: LogReport) {
        let now = StartMoment.timeNow
        guard let parent = parent.object else { return take(report, at: now) { $0.tell(report, at: now, $1) } }
        // The waits of a part are not those of the whole operation.
        if case .event = report { parent.take(report, at: now) { $0.tell(report, at: now, $1) } }
    }

    func noteRequestStarted(_ head: RequestHead) {
        let now = StartMoment.timeNow
        guard let parent = parent.object else {
            return take(.requestStarted(head), at: now) { $0.startOwn(head, at: now, $1) }
        }
        state.withLock { state in parent.report { state.partRequest = $0.start(head, at: now, $1) } }
    }

    func noteResponded(_ head: ResponseHead, _ phases: TransactionPhases?) {
        let now = StartMoment.timeNow
        guard let parent = parent.object else {
            return take(.responded(head, phases), at: now) { $0.respondToOwn(head, phases, at: now, $1) }
        }
        guard let request = state.withLock({ $0.partRequest }) else { return }
        parent.report { $0.respond(request, head, phases, at: now, $1) }
    }

    func noteRequestEnded(_ head: ResponseHead?, _ metrics: TransactionMetrics) {
        let now = StartMoment.timeNow
        guard let parent = parent.object else {
            return take(.requestEnded(head, metrics), at: now) { $0.endOwn(head, metrics, at: now, $1) }
        }
        let request = state.withLock { $0.partRequest.take() }
        parent.report { $0.end(request, head, metrics, at: now, $1) }
    }

    /// Passes on a report after all changes that were recorded earlier: immediately if they have been delivered, or
    /// together with the last of these changes.
    private func take(
        _ report: @autoclosure () -> LogReport, at moment: MonotonicTime,
        _ tell: (inout EventSequencer, EventSequencer.Emit) -> Void
    ) {
        state.withLock { state in
            if state.latest == state.last {
                state.events?.report(tell)
            } else if state.events != nil {
                state.held[state.latest, default: []].append(PendingReport(report: report(), moment: moment))
            }
        }
    }

    /// Passes on a report about a part's request. The report needs no ordering, because the attempt of the whole
    /// operation has begun and has not ended.
    private func report(_ tell: (inout EventSequencer, EventSequencer.Emit) -> Void) {
        state.withLock { state in state.events?.report(tell) ?? () }
    }

    // MARK: Observers

    /// Calls a receiver for every later change, on its own queue with the given target.
    ///
    /// - Returns: A closure that ends the observation; nil if no further change can occur.
    func observe(
        _ operation: ScheduledOperation, on target: DispatchQueue, _ receiver: @escaping Receiver
    ) -> (@Sendable () -> Void)? {
        // Without a target, each serial queue may get its own thread. With many observers, the threads and the memory
        // that the allocator keeps for them would add up.
        let serial = DispatchQueue(label: "Convoy.Observation", target: target)
        let key: Int? = state.withLock { state in
            let (life, number) = state.begin(with: operation)
            // No further change can occur.
            guard life.state != .finished else { return nil }
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

        /// A closure stored directly in the generic `Locked` would be wrapped again each time it is read.
        private struct Stored { let call: Receiver }

        init(_ receiver: @escaping Receiver, on queue: DispatchQueue, after number: UInt32) {
            self.receiver = Locked(Stored(call: receiver))
            self.queue = queue
            first = number
        }

        func read(_ change: RecordedChange, of operation: ScheduledOperation) {
            guard OperationLog.comes(change.number, after: first) else { return }
            queue.submit { [self] in
                receiver.withLock { $0 }?.call(operation, change.transition.old, change.transition.new)
            }
        }

        /// Drops all calls, including those already on the queue.
        func invalidate() {
            let released = receiver.withLock { $0.take() }
            withExtendedLifetime(released) {}
        }
    }
}

extension AtomicLifecycle.Transition {
    /// Whether an attempt's work ends with the change.
    var endsAttempt: Bool { old.work.isUnderWay && (!new.work.isUnderWay || new.attemptNumber != old.attemptNumber) }
    /// Whether an attempt's work begins with the change.
    var startsAttempt: Bool { new.work.isUnderWay && (!old.work.isUnderWay || new.attemptNumber != old.attemptNumber) }
}
