import ConvoySupport
import ConvoyTransport
import Foundation
import Synchronization

/// Reports the events of an operation to its metrics and monitors, in the order of its ``TransitionLog``. Operations
/// without either have no event log.
final class OperationEventLog: Sendable {
    /// The number of the operation, unique in the process.
    let number: UInt64
    let origin: StartMoment
    private let log: TransitionLog
    /// The event log of the parent operation, if the operation is a part of another one.
    private let parent: OperationEventLog?
    private let state: Locked<SequencerState>

    private static let count = Atomic<UInt64>(0)

    /// A report about something other than a lifecycle change, before it becomes an event. Large values are boxed to
    /// keep the other cases small.
    enum Report {
        case wait(WaitReason)
        /// The reason of the next delay between two attempts.
        case delay(for: WaitReason)
        case event(OperationEvent.Kind)
        indirect case requestStarted(RequestHead)
        indirect case responded(ResponseHead, TransactionPhases?)
        indirect case requestEnded(ResponseHead?, TransactionMetrics)
    }

    private struct SequencerState {
        /// The number of the last change before the log began; nil until it has begun.
        var begun: UInt32?
        var sequencer = EventSequencer()
        var metrics: MetricsFold
        var monitors: [EventMonitor]
        /// The number of this part's request in the log of the whole operation, if there is one.
        var partRequest: Int?
        /// The rules for secrets in cached responses.
        var secrets: ResponseSecrets?
    }

    init(monitors: [EventMonitor], log: TransitionLog) {
        number = Self.count.wrappingAdd(1, ordering: .relaxed).newValue
        origin = .now
        state = Locked(SequencerState(metrics: MetricsFold(from: origin), monitors: monitors))
        self.log = log
        parent = nil
    }

    /// Creates the event log of a part of another operation. It reports only the part's requests and decisions, to the
    /// parent's log.
    init(partOf parent: OperationEventLog) {
        number = parent.number
        origin = parent.origin
        log = parent.log
        state = Locked(SequencerState(metrics: MetricsFold(from: origin), monitors: []))
        self.parent = parent
    }

    /// Sets the rules for secrets in a cached response. Called before the response is reported.
    func noteSecrets(of configuration: ConnectionConfiguration) {
        let secrets = ResponseSecrets(configuration.secrets)
        (parent ?? self).state.withLock { $0.secrets = secrets }
    }

    /// Begins reporting with the operation's current state. Earlier changes are not reported.
    func begin(after number: UInt32, isFinished: Bool) {
        let now = origin.time
        state.withLock { state in
            state.begun = number
            state.sequencer.isOver = isFinished
            guard !isFinished else { return }
            post(from: &state) { _, emit in emit(.made, now) }
        }
    }

    // MARK: Readers

    var hasMonitors: Bool { state.withLock { !$0.monitors.isEmpty } }

    /// Adds the monitors, if there are none yet. They do not receive earlier events.
    func add(_ monitors: [EventMonitor]) {
        guard parent == nil else { return }
        state.withLock { state in
            guard state.monitors.isEmpty, !state.sequencer.isOver else { return }
            state.monitors = monitors
            guard state.begun != nil else { return }
            for monitor in monitors { monitor.gather { $0.append(event(.made, origin.time, state.secrets)) } }
        }
    }

    /// The final metrics of a finished operation; nil for a part, whose requests are reported elsewhere.
    var metrics: OperationMetrics? {
        guard parent == nil else { return nil }
        return log.withPending { changes, reports in
            state.withLock { state in
                // An earlier change may be recorded late, or the caller may be ahead of the thread that made the last
                // one. The metrics do not wait for them, and no longer change.
                if !state.metrics.isOver {
                    var sequencer = state.sequencer
                    func emit(_ kind: OperationEvent.Kind, _ moment: MonotonicTime) { state.metrics.add(kind, at: moment) }
                    for change in changes {
                        sequencer.tell(change, emit)
                        for report in reports[change.number] ?? [] { sequencer.tell(report.report, at: report.moment, emit) }
                    }
                    state.metrics.add(.finished(.succeeded), at: StartMoment.timeNow)
                }
                return state.metrics.metrics
            }
        }
    }

    // MARK: Reports

    /// Reports a change of the lifecycle. Must be called in the order of the changes.
    func read(_ change: TransitionLog.Change) {
        if let parent { return endPart(after: change, in: parent) }
        state.withLock { state in
            guard let begun = state.begun, TransitionLog.comes(change.number, after: begun) else { return }
            post(from: &state) { $0.tell(change, $1) }
        }
    }

    /// Reports a wait in a queue, or another event.
    func note(_ report: Report) {
        let now = StartMoment.timeNow
        if let parent {
            if case .event = report { parent.take(report, at: now) { $0.tell(report, at: now, $1) } }
            return
        }
        take(report, at: now) { $0.tell(report, at: now, $1) }
    }

    /// Posts a report after all changes that were recorded earlier.
    private func take(
        _ report: @autoclosure () -> Report, at moment: MonotonicTime,
        _ tell: (inout EventSequencer, EventSequencer.Emit) -> Void
    ) {
        log.tellInOrder(TransitionLog.PendingReport(eventLog: self, report: report(), moment: moment)) { self.report(tell) }
    }

    /// Posts a report that was held back until earlier changes were delivered.
    func tell(_ held: TransitionLog.PendingReport) {
        report { $0.tell(held.report, at: held.moment, $1) }
    }

    /// Posts a report immediately. Reports about a part's requests need no ordering, because the attempt of the parent
    /// operation has begun and not ended.
    private func report(_ tell: (inout EventSequencer, EventSequencer.Emit) -> Void) {
        state.withLock { state in
            guard state.begun != nil else { return }
            post(from: &state, tell)
        }
    }

    /// Passes events to the metrics and the monitors. Called under the lock, which preserves the order; the monitors'
    /// handlers run later, without it.
    private func post(from state: inout SequencerState, _ tell: (inout EventSequencer, EventSequencer.Emit) -> Void) {
        switch state.monitors.count {
        case 0: tell(&state.sequencer) { state.metrics.add($0, at: $1) }
        case 1:
            state.monitors[0].gather { intake in
                tell(&state.sequencer) { kind, moment in
                    state.metrics.add(kind, at: moment)
                    intake.append(event(kind, moment, state.secrets))
                }
            }
        default:
            var events: [OperationEvent] = []
            tell(&state.sequencer) { kind, moment in
                state.metrics.add(kind, at: moment)
                events.append(event(kind, moment, state.secrets))
            }
            guard !events.isEmpty else { return }
            for monitor in state.monitors {
                monitor.gather { intake in for event in events { intake.append(event) } }
            }
        }
    }

    private func event(
        _ kind: OperationEvent.Kind, _ moment: MonotonicTime, _ secrets: ResponseSecrets?
    ) -> OperationEvent {
        OperationEvent(
            kind: kind, moment: moment, origin: origin, secrets: kind.isOfCache ? secrets : nil, operationNumber: number)
    }

    // MARK: Requests

    func noteRequestStarted(_ head: RequestHead) {
        let now = StartMoment.timeNow
        if let parent {
            return state.withLock { $0.partRequest = parent.startRequest(head, at: now) }
        }
        take(.requestStarted(head), at: now) { $0.startOwn(head, at: now, $1) }
    }

    func noteResponded(_ head: ResponseHead, _ phases: TransactionPhases?) {
        let now = StartMoment.timeNow
        if let parent {
            guard let request = state.withLock({ $0.partRequest }) else { return }
            return parent.report { $0.respond(request, head, phases, at: now, $1) }
        }
        take(.responded(head, phases), at: now) { $0.respondToOwn(head, phases, at: now, $1) }
    }

    func noteRequestEnded(_ head: ResponseHead?, _ metrics: TransactionMetrics) {
        let now = StartMoment.timeNow
        if let parent {
            let request = state.withLock { $0.partRequest.take() }
            return parent.report { $0.end(request, head, metrics, at: now, $1) }
        }
        take(.requestEnded(head, metrics), at: now) { $0.endOwn(head, metrics, at: now, $1) }
    }

    // MARK: Parts

    private func endPart(after change: TransitionLog.Change, in parent: OperationEventLog) {
        guard change.transition.endsAttempt, let request = state.withLock({ $0.partRequest.take() }) else { return }
        parent.report { $0.end(request, nil, nil, at: change.moment, $1) }
    }

    private func startRequest(_ head: RequestHead, at moment: MonotonicTime) -> Int {
        var number = 0
        report { number = $0.start(head, at: moment, $1) }
        return number
    }
}

extension AtomicLifecycle.Transition {
    /// Whether an attempt's work ends with the change.
    var endsAttempt: Bool { old.work.isUnderWay && (!new.work.isUnderWay || new.attemptNumber != old.attemptNumber) }
    /// Whether an attempt's work begins with the change.
    var startsAttempt: Bool { new.work.isUnderWay && (!old.work.isUnderWay || new.attemptNumber != old.attemptNumber) }
}
