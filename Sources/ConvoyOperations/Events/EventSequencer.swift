import ConvoySupport
import ConvoyTransport
import Foundation

/// A value that creates ordered events from the changes and reports of one operation.
///
/// The sequencer guarantees that each attempt and each request that has started also ends, and that no event follows
/// the end of the operation.
struct EventSequencer {
    typealias Emit = (OperationEvent.Kind, MonotonicTime) -> Void

    /// Whether the operation has finished.
    var isOver = false
    private var attempts = 0
    private var isAttempting = false
    private var requests = 0
    /// The requests that have not ended.
    private var open = OpenRequests()
    /// The current request of an operation that performs a single transfer itself, if any.
    private var current: Int?
    /// The reason why the operation waits; nil while it works or is paused, or if the reason is unknown.
    private var waiting: WaitReason?
    /// Whether a queue may report the reason why the operation waits.
    private var isInQueue = true
    /// The reason of the next delay between two attempts; nil for a retry.
    private var delay: WaitReason?
    private var isStopped = false
    private var latest: MonotonicTime = 0

    private struct Request {
        let began: MonotonicTime
        var arePhasesTold = false
    }

    /// The open requests by number. The first one is stored without a dictionary, because operations nearly always have
    /// only one.
    private struct OpenRequests {
        private var one: (number: Int, request: Request)?
        private var others: [Int: Request] = [:]

        var isEmpty: Bool { one == nil && others.isEmpty }
        /// The numbers in ascending order.
        var numbers: [Int] { (others.keys + [one?.number].compactMap(\.self)).sorted() }

        subscript(number: Int) -> Request? {
            get { one?.number == number ? one?.request : others.isEmpty ? nil : others[number] }
            set {
                if one?.number == number || (one == nil && others[number] == nil) {
                    one = newValue.map { (number, $0) }
                } else {
                    others[number] = newValue
                }
            }
        }
    }

    mutating func tell(_ report: OperationLog.LogReport, at moment: MonotonicTime, _ emit: Emit) {
        guard !isOver else { return }
        switch report {
        case .wait(let reason): if isInQueue { wait(for: reason, at: moment, emit) }
        case .delay(let reason): delay = reason
        case .event(let kind): post(kind, moment, emit)
        case .requestStarted(let head): startOwn(head, at: moment, emit)
        case .responded(let head, let phases): respondToOwn(head, phases, at: moment, emit)
        case .requestEnded(let head, let metrics): endOwn(head, metrics, at: moment, emit)
        }
    }

    /// Emits an event. Its time is not earlier than that of the previous event, even if two threads have read the clock
    /// in a different order.
    private mutating func post(_ kind: OperationEvent.Kind, _ moment: MonotonicTime, _ emit: Emit) {
        latest = max(latest, moment)
        emit(kind, latest)
    }

    // MARK: The lifecycle

    mutating func tell(_ change: OperationLog.RecordedChange, _ emit: Emit) {
        guard !isOver else { return }
        let (transition, moment) = (change.transition, change.moment)
        let (old, new) = (transition.old, transition.new)
        if transition.endsAttempt, isAttempting {
            endRequests(at: moment, emit)
            isAttempting = false
            post(.attemptEnded(attempts), moment, emit)
        }
        if new.isEnding, !isStopped {
            isStopped = true
            post(.stopped, moment, emit)
        }
        if old.state == .paused, new.state == .ready, !new.isEnding { post(.resumed, moment, emit) }
        if new.state == .paused, old.state != .paused {
            waiting = nil
            isInQueue = false
            post(.paused, moment, emit)
        }
        if transition.startsAttempt {
            waiting = nil
            isInQueue = false
            isAttempting = true
            attempts += 1
            post(.attemptStarted(attempts), moment, emit)
        }
        if new.state == .executing {
            waiting = nil
            isInQueue = false
            if old.state != .executing, !transition.startsAttempt { post(.continued, moment, emit) }
        }
        if new.state == .ready, !new.isEnding, old.state != .ready || old.isBackingOff != new.isBackingOff {
            isInQueue = !new.isBackingOff
            wait(for: new.isBackingOff ? delay.take() ?? .retry : change.whenReady, at: moment, emit)
        }
        guard let outcome = change.outcome else { return }
        post(.finished(outcome), moment, emit)
        isOver = true
    }

    private mutating func wait(for reason: WaitReason, at moment: MonotonicTime, _ emit: Emit) {
        guard waiting != reason else { return }
        waiting = reason
        post(.waiting(reason), moment, emit)
    }

    // MARK: Requests

    mutating func startOwn(_ head: RequestHead, at moment: MonotonicTime, _ emit: Emit) {
        guard !isOver else { return }
        current = start(head, at: moment, emit)
    }

    mutating func respondToOwn(
        _ head: ResponseHead, _ phases: TransactionPhases?, at moment: MonotonicTime, _ emit: Emit
    ) {
        if let current { respond(current, head, phases, at: moment, emit) }
    }

    mutating func endOwn(
        _ head: ResponseHead?, _ metrics: TransactionMetrics, at moment: MonotonicTime, _ emit: Emit
    ) {
        guard !isOver else { return }
        end(metrics.cacheUse == nil ? current.take() : nil, head, metrics, at: moment, emit)
    }

    /// Reports the start of a request, and returns its number.
    @discardableResult
    mutating func start(_ head: RequestHead, at moment: MonotonicTime, _ emit: Emit) -> Int {
        requests += 1
        guard !isOver else { return requests }
        // If the current request is started again, report the end of its first start.
        if let current, open[current] != nil { end(current, nil, nil, at: moment, emit) }
        open[requests] = Request(began: moment)
        post(.requestStarted(request: requests, head), moment, emit)
        return requests
    }

    mutating func respond(
        _ request: Int, _ head: ResponseHead, _ phases: TransactionPhases?, at moment: MonotonicTime, _ emit: Emit
    ) {
        guard !isOver, open[request] != nil else { return }
        if let phases { tell(phases, of: request, isShared: false, emit) }
        post(.responded(request: request, head), moment, emit)
    }

    /// - Parameter request: The number of the request; nil if its start was not reported.
    mutating func end(
        _ request: Int?, _ head: ResponseHead?, _ metrics: TransactionMetrics?, at moment: MonotonicTime, _ emit: Emit
    ) {
        guard !isOver else { return }
        if let metrics, metrics.cacheUse != nil { return post(.servedFromCache(head, metrics), moment, emit) }
        guard let request, open[request] != nil else { return }
        if let metrics, open[request]?.arePhasesTold == false {
            tell(metrics.phases, of: request, isShared: metrics.isShared, emit)
        }
        open[request] = nil
        post(.requestEnded(request: request, head, metrics), moment, emit)
    }

    private mutating func endRequests(at moment: MonotonicTime, _ emit: Emit) {
        current = nil
        guard !open.isEmpty else { return }
        for request in open.numbers { end(request, nil, nil, at: moment, emit) }
    }

    /// Reports the phases of a request that have ended, with their times.
    private mutating func tell(_ phases: TransactionPhases, of request: Int, isShared: Bool, _ emit: Emit) {
        guard let began = open[request]?.began else { return }
        open[request]?.arePhasesTold = true
        func tell(_ phase: TransactionPhase, _ time: TimeInterval?) {
            guard let time else { return }
            // The phases of a shared request may have ended before this operation began.
            post(.phaseEnded(phase, request: request), isShared ? began : began + UInt64(max(0, time) * 1e9), emit)
        }
        tell(.nameLookup, phases.nameLookup)
        tell(.connect, phases.connect)
        tell(.tunnel, phases.tunnel)
        tell(.tls, phases.tls)
        tell(.send, phases.send)
        tell(.wait, phases.wait)
    }
}
