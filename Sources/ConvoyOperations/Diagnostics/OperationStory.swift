import ConvoySupport
import ConvoyTransport
import Foundation
import Synchronization

/// Tells the monitors of an operation what happens to it, in order. Operations that nobody monitors have none.
///
/// The changes of the lifecycle are made by many threads, and reported here in any order; they are sorted by their numbers.
/// What the transport reports is put behind the changes that had been reported by then: it belongs to an attempt whose begin
/// is among those.
final class OperationStory: Sendable {
    /// Unique in the process.
    let number: UInt64
    let origin: StartMoment
    let monitors: [EventMonitor]
    /// The story of the operation of whose work this one does a part; nil for none.
    private let parent: OperationStory?
    private let telling = Locked(Telling())

    private static let count = Atomic<UInt64>(0)

    /// What is reported, before it is told. What is large is in boxes, so that the others are small.
    enum Report {
        case change(AtomicLifecycle.Transition, whenReady: WaitReason, OperationOutcome?)
        case wait(WaitReason)
        /// What the next delay between two attempts is for.
        case delay(for: WaitReason)
        case event(OperationEvent.Kind)
        indirect case requestStarted(RequestHead)
        indirect case responded(ResponseHead, TransactionPhases?)
        indirect case requestEnded(ResponseHead?, TransactionMetrics)
    }

    private struct Telling {
        /// The number of the last change that was told; nil before the story has begun.
        var told: UInt32?
        /// The number of the latest change that was reported.
        var latest: UInt32 = 0
        /// Changes that were reported early: an earlier one is still missing.
        var early: [UInt32: (Report, MonotonicTime)] = [:]
        /// What was reported after a change that is not told yet.
        var held: [UInt32: [(Report, MonotonicTime)]] = [:]
        var teller = StoryTeller()
        /// The number of this part's request in the story of the whole; nil while there is none.
        var partRequest: Int?
        /// What is secret in responses for which no request was sent.
        var secrets: ResponseSecrets?
    }

    init(monitors: [EventMonitor]) {
        number = Self.count.wrappingAdd(1, ordering: .relaxed).newValue
        origin = .now
        self.monitors = monitors
        parent = nil
    }

    /// The story of an operation that does a part of another's work: only its requests are told, there.
    init(partOf parent: OperationStory) {
        (number, origin, monitors) = (parent.number, parent.origin, [])
        self.parent = parent
    }

    /// Says what is secret in a response for which no request was sent, before that is told.
    func noteSecrets(of configuration: ConnectionConfiguration) {
        let secrets = ResponseSecrets(configuration.secrets)
        (parent ?? self).telling.withLock { $0.secrets = secrets }
    }

    /// Begins with what the operation is at that moment. Changes that were made before are not told.
    func begin(after number: UInt32, isFinished: Bool) {
        guard parent == nil else { return }
        let now = origin.time
        telling.withLock { telling in
            guard telling.told == nil else { return }
            (telling.told, telling.latest) = (number, number)
            telling.teller.isOver = isFinished
            guard !isFinished else { return }
            post(from: &telling) { _, told in told(.made, now) }
        }
    }

    // MARK: Reports

    func note(
        _ transition: AtomicLifecycle.Transition, whenReady: @autoclosure () -> WaitReason,
        outcome: @autoclosure () -> OperationOutcome
    ) {
        guard let number = transition.number else { return }
        let now = StartMoment.timeNow
        if let parent { return endPart(after: transition, in: parent, at: now) }
        // Before the lock: they ask others.
        let isEnd = transition.new.state == .finished
        let report = Report.change(
            transition, whenReady: transition.new.isStartable ? whenReady() : .start, isEnd ? outcome() : nil)
        telling.withLock { telling in
            guard let told = telling.told, Int32(bitPattern: number &- told) > 0 else { return }
            if Int32(bitPattern: number &- telling.latest) > 0 { telling.latest = number }
            guard number == told &+ 1 else { return telling.early[number] = (report, now) }
            tell(report, at: now, &telling)
            telling.told = number
            releaseHeld(after: number, &telling)
            while let told = telling.told, !telling.early.isEmpty,
                let next = telling.early.removeValue(forKey: told &+ 1)
            {
                tell(next.0, at: next.1, &telling)
                telling.told = told &+ 1
                releaseHeld(after: told &+ 1, &telling)
            }
        }
    }

    private func releaseHeld(after number: UInt32, _ telling: inout Telling) {
        guard !telling.held.isEmpty, let held = telling.held.removeValue(forKey: number) else { return }
        for (report, moment) in held { tell(report, at: moment, &telling) }
    }

    /// Takes a report of a queue, or of what was decided.
    func note(_ report: Report) {
        let now = StartMoment.timeNow
        if let parent {
            if case .event = report { parent.note(report, at: now) }
            return
        }
        note(report, at: now)
    }

    private func note(_ report: Report, at moment: MonotonicTime) {
        take(report, at: moment) { $0.tell(report, at: moment, $1) }
    }

    /// Lets the teller tell, or keeps the report until all changes are told that were made before it.
    private func take(
        _ report: @autoclosure () -> Report, at moment: MonotonicTime, _ tell: (inout StoryTeller, StoryTeller.Told) -> Void
    ) {
        telling.withLock { telling in
            guard let told = telling.told else { return }
            guard telling.latest == told else {
                return telling.held[telling.latest, default: []].append((report(), moment))
            }
            post(from: &telling, tell)
        }
    }

    private func tell(_ report: Report, at moment: MonotonicTime, _ telling: inout Telling) {
        post(from: &telling) { $0.tell(report, at: moment, $1) }
    }

    /// Hands what the teller tells to the monitors. Under the lock, which keeps the order; the handlers run later, without
    /// it.
    private func post(from telling: inout Telling, _ tell: (inout StoryTeller, StoryTeller.Told) -> Void) {
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

    private func endPart(after transition: AtomicLifecycle.Transition, in parent: OperationStory, at now: MonotonicTime) {
        guard transition.endsAttempt, let request = telling.withLock({ $0.partRequest.take() }) else { return }
        parent.report { $0.end(request, nil, nil, at: now, $1) }
    }

    private func startRequest(_ head: RequestHead, at moment: MonotonicTime) -> Int {
        var number = 0
        report { number = $0.start(head, at: moment, $1) }
        return number
    }

    /// Lets the teller tell of a part's request. Its attempt is that of the whole, which has begun and has not ended.
    private func report(_ tell: (inout StoryTeller, StoryTeller.Told) -> Void) {
        telling.withLock { telling in
            guard telling.told != nil else { return }
            post(from: &telling, tell)
        }
    }
}

extension AtomicLifecycle.Transition {
    /// Whether the work of a try has ended with it.
    var endsAttempt: Bool { old.work.isUnderWay && (!new.work.isUnderWay || new.tryNumber != old.tryNumber) }
    /// Whether the work of a try begins with it.
    var startsAttempt: Bool { new.work.isUnderWay && (!old.work.isUnderWay || new.tryNumber != old.tryNumber) }
}
