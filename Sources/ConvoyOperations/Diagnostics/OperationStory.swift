import ConvoySupport
import ConvoyTransport
import Foundation
import Synchronization

/// Tells the monitors of an operation what happens to it, in the order of its ``TransitionLog``. Operations without
/// monitors have none.
final class OperationStory: Sendable {
    /// Unique in the process.
    let number: UInt64
    let origin: StartMoment
    let monitors: [EventMonitor]
    private let log: TransitionLog
    /// The story of the operation of whose work this one does a part; nil for none.
    private let parent: OperationStory?
    private let telling = Locked(Telling())

    private static let count = Atomic<UInt64>(0)

    /// What is reported besides the changes of the lifecycle, before it becomes an event. What is large is in boxes, so that the
    /// others are small.
    enum Report {
        case wait(WaitReason)
        /// What the next delay between two attempts is for.
        case delay(for: WaitReason)
        case event(OperationEvent.Kind)
        indirect case requestStarted(RequestHead)
        indirect case responded(ResponseHead, TransactionPhases?)
        indirect case requestEnded(ResponseHead?, TransactionMetrics)
    }

    private struct Telling {
        /// The number of the last change that was made before the story; nil before it has begun.
        var begun: UInt32?
        var teller = EventSequencer()
        /// The number of this part's request in the story of the whole; nil while there is none.
        var partRequest: Int?
        /// What is secret in responses for which no request was sent.
        var secrets: ResponseSecrets?
    }

    init(monitors: [EventMonitor], log: TransitionLog) {
        number = Self.count.wrappingAdd(1, ordering: .relaxed).newValue
        origin = .now
        self.monitors = monitors
        self.log = log
        parent = nil
    }

    /// The story of an operation that does a part of another's work: only its requests are told, there.
    init(partOf parent: OperationStory) {
        (number, origin, monitors, log) = (parent.number, parent.origin, [], parent.log)
        self.parent = parent
    }

    /// Says what is secret in a response for which no request was sent, before that is told.
    func noteSecrets(of configuration: ConnectionConfiguration) {
        let secrets = ResponseSecrets(configuration.secrets)
        (parent ?? self).telling.withLock { $0.secrets = secrets }
    }

    /// Begins with what the operation is at that moment. Changes that were made before are not told.
    func begin(after number: UInt32, isFinished: Bool) {
        let now = origin.time
        telling.withLock { telling in
            telling.begun = number
            telling.teller.isOver = isFinished
            guard !isFinished else { return }
            post(from: &telling) { _, told in told(.made, now) }
        }
    }

    // MARK: Reports

    /// The lifecycle has changed. Called in order.
    func read(_ change: TransitionLog.Change) {
        if let parent { return endPart(after: change, in: parent) }
        telling.withLock { telling in
            guard let begun = telling.begun, TransitionLog.comes(change.number, after: begun) else { return }
            post(from: &telling) { $0.tell(change, $1) }
        }
    }

    /// Takes a report of a queue, or of what was decided.
    func note(_ report: Report) {
        let now = StartMoment.timeNow
        if let parent {
            if case .event = report { parent.take(report, at: now) { $0.tell(report, at: now, $1) } }
            return
        }
        take(report, at: now) { $0.tell(report, at: now, $1) }
    }

    /// Lets the teller tell when all changes are told that were noted before.
    private func take(
        _ report: @autoclosure () -> Report, at moment: MonotonicTime,
        _ tell: (inout EventSequencer, EventSequencer.Told) -> Void
    ) {
        log.tellInOrder(TransitionLog.Report(story: self, report: report(), moment: moment)) { self.report(tell) }
    }

    /// Tells what was held back until now.
    func tell(_ held: TransitionLog.Report) {
        report { $0.tell(held.report, at: held.moment, $1) }
    }

    /// Lets the teller tell. What belongs to the request of a part is told at once: the attempt of the whole has begun and has
    /// not ended.
    private func report(_ tell: (inout EventSequencer, EventSequencer.Told) -> Void) {
        telling.withLock { telling in
            guard telling.begun != nil else { return }
            post(from: &telling, tell)
        }
    }

    /// Hands what the teller tells to the monitors. Under the lock, which keeps the order; the handlers run later, without
    /// it.
    private func post(from telling: inout Telling, _ tell: (inout EventSequencer, EventSequencer.Told) -> Void) {
        let (number, origin, secrets) = (number, origin, telling.secrets)
        func event(_ kind: OperationEvent.Kind, _ moment: MonotonicTime) -> OperationEvent {
            OperationEvent(
                kind: kind, moment: moment, origin: origin, secrets: kind.isOfCache ? secrets : nil,
                operationNumber: number)
        }
        if monitors.count == 1 {
            return monitors[0].gather { intake in tell(&telling.teller) { intake.append(event($0, $1)) } }
        }
        var events: [OperationEvent] = []
        tell(&telling.teller) { events.append(event($0, $1)) }
        guard !events.isEmpty else { return }
        for monitor in monitors {
            monitor.gather { intake in for event in events { intake.append(event) } }
        }
    }

    // MARK: Requests

    func noteRequestStarted(_ head: RequestHead) {
        let now = StartMoment.timeNow
        if let parent {
            return telling.withLock { $0.partRequest = parent.startRequest(head, at: now) }
        }
        take(.requestStarted(head), at: now) { $0.startOwn(head, at: now, $1) }
    }

    func noteResponded(_ head: ResponseHead, _ phases: TransactionPhases?) {
        let now = StartMoment.timeNow
        if let parent {
            guard let request = telling.withLock({ $0.partRequest }) else { return }
            return parent.report { $0.respond(request, head, phases, at: now, $1) }
        }
        take(.responded(head, phases), at: now) { $0.respondToOwn(head, phases, at: now, $1) }
    }

    func noteRequestEnded(_ head: ResponseHead?, _ metrics: TransactionMetrics) {
        let now = StartMoment.timeNow
        if let parent {
            let request = telling.withLock { $0.partRequest.take() }
            return parent.report { $0.end(request, head, metrics, at: now, $1) }
        }
        take(.requestEnded(head, metrics), at: now) { $0.endOwn(head, metrics, at: now, $1) }
    }

    // MARK: Parts

    private func endPart(after change: TransitionLog.Change, in parent: OperationStory) {
        guard change.transition.endsAttempt, let request = telling.withLock({ $0.partRequest.take() }) else { return }
        parent.report { $0.end(request, nil, nil, at: change.moment, $1) }
    }

    private func startRequest(_ head: RequestHead, at moment: MonotonicTime) -> Int {
        var number = 0
        report { number = $0.start(head, at: moment, $1) }
        return number
    }
}

extension AtomicLifecycle.Transition {
    /// Whether the work of a try has ended with it.
    var endsAttempt: Bool { old.work.isUnderWay && (!new.work.isUnderWay || new.tryNumber != old.tryNumber) }
    /// Whether the work of a try begins with it.
    var startsAttempt: Bool { new.work.isUnderWay && (!old.work.isUnderWay || new.tryNumber != old.tryNumber) }
}
