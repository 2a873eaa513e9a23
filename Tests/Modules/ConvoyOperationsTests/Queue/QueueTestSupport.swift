import ConvoySupport
import ConvoyTestSupport
import Foundation
import Synchronization
import Testing

@testable import ConvoyOperations

/// The queues that share one contract.
enum QueueKind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case convoy, foundation

    var testDescription: String { rawValue }

    func make() -> OperationQueue {
        self == .convoy ? RequestOperationQueue() : OperationQueue()
    }
}

/// The kinds of operations that can be added to each kind of queue.
enum OperationKind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case scheduled, block

    var testDescription: String { rawValue }

    func make(_ block: @escaping @Sendable () -> Void) -> Operation {
        self == .scheduled ? ScheduledBlockOperation(block) : BlockOperation(block: block)
    }
}

extension [Operation] {
    var areAllFinished: Bool { allSatisfy { $0.isFinished } }
    var areAllCancelled: Bool { allSatisfy { $0.isCancelled } }
}

/// A record of events, in order.
final class Log: Sendable {
    private let lines = Locked<[String]>([])
    var all: [String] { lines.withLock { $0 } }
    func add(_ line: String) { lines.withLock { $0.append(line) } }
}

/// A counter of the callers that are currently inside, and of their maximum.
final class Gauge: Sendable {
    private let state = Locked((now: 0, most: 0, total: 0))
    var now: Int { state.withLock { $0.now } }
    var most: Int { state.withLock { $0.most } }
    var total: Int { state.withLock { $0.total } }

    func enter() {
        state.withLock {
            $0.now += 1
            $0.total += 1
            $0.most = max($0.most, $0.now)
        }
    }

    func leave() { state.withLock { $0.now -= 1 } }
    func forgetMost() { state.withLock { $0.most = $0.now } }
}

/// A gate where threads wait until it is opened.
final class Door: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    func open() { semaphore.signal() }
    /// Waits until the door is opened. Returns false after the time at which a test counts as hung.
    @discardableResult func wait() -> Bool {
        guard semaphore.wait(timeout: .now() + patience) == .success else { return false }
        semaphore.signal()
        return true
    }
}

/// The time after which a test counts as hung, in seconds.
let patience = 60.0

/// Runs code that may hang on a separate thread. Returns false if it hung.
func returns(_ body: @escaping @Sendable () -> Void) -> Bool {
    let door = Door()
    Thread {
        body()
        door.open()
    }.start()
    return door.wait()
}

func drains(_ queue: OperationQueue) -> Bool {
    returns { queue.waitUntilAllOperationsAreFinished() }
}

/// Polls a condition that nothing signals. Returns false if it never holds.
func eventually(_ condition: () -> Bool) -> Bool {
    (try? ConvoyTestSupport.eventually(timeout: patience, "it", condition)) != nil
}

/// An asynchronous Foundation operation that the test finishes.
final class ForeignAsyncOperation: Operation, @unchecked Sendable {
    private let phase = Atomic<Int>(0)
    private let allowed = Atomic<Bool>(true)
    let started = Door()

    override var isAsynchronous: Bool { true }
    override var isExecuting: Bool { phase.load(ordering: .sequentiallyConsistent) == 1 }
    override var isFinished: Bool { phase.load(ordering: .sequentiallyConsistent) == 2 }
    override var isReady: Bool { super.isReady && allowed.load(ordering: .sequentiallyConsistent) }

    override func start() {
        if isCancelled { return finish() }
        phase.store(1, ordering: .sequentiallyConsistent)
        didChangeValue(forKey: "isExecuting")
        started.open()
    }

    func finish() {
        guard phase.exchange(2, ordering: .sequentiallyConsistent) != 2 else { return }
        didChangeValue(forKey: "isFinished")
    }

    func allow(_ isAllowed: Bool) {
        allowed.store(isAllowed, ordering: .sequentiallyConsistent)
        didChangeValue(forKey: "isReady")
    }
}

/// A minimal request operation: it starts inline, continues elsewhere, and can be paused and resumed.
class PausableTestOperation: ScheduledOperation, PausableOperation, @unchecked Sendable {
    enum Phase: Int { case ready, executing, paused, finished }

    private let phase = Atomic<Int>(Phase.ready.rawValue)
    private let finishes = Atomic<Int>(0)
    private let host: String?
    private let isDirect: Bool
    private let waitsAtGate: Bool
    private let toldOfGates = Locked<[UInt64]>([])
    private let gauge: Gauge
    private let whenStarted: (@Sendable (PausableTestOperation) -> Void)?

    required init(
        host: String? = nil, direct: Bool = true, waitsAtGate: Bool = false, gauge: Gauge = Gauge(),
        whenStarted: (@Sendable (PausableTestOperation) -> Void)? = nil
    ) {
        self.host = host
        isDirect = direct
        self.waitsAtGate = waitsAtGate
        self.gauge = gauge
        self.whenStarted = whenStarted
        super.init()
        declare(.hearsOfQueue)
    }

    var current: Phase { Phase(rawValue: phase.load(ordering: .sequentiallyConsistent)) ?? .finished }
    var timesFinished: Int { finishes.load(ordering: .sequentiallyConsistent) }

    override var isStartedDirectly: Bool { isDirect }
    override var reportsItsEnd: Bool { true }
    override var hostAndGate: (host: String?, waitsAtGate: Bool) { (host, host != nil && waitsAtGate) }
    override func willWaitAtGate(until deadline: UInt64) { toldOfGates.withLock { $0.append(deadline) } }
    /// The deadlines of gates that were reported to the operation.
    var gateDeadlines: [UInt64] { toldOfGates.withLock { $0 } }
    override var isAsynchronous: Bool { true }
    override var isExecuting: Bool { current == .executing }
    override var isFinished: Bool { current == .finished }
    override var isReady: Bool { super.isReady && (current == .ready || isCancelled) }

    /// Moves from any of several phases to the next one. Returns the phase that was left; nil if it was none of them.
    ///
    /// This must be a single step. With a step for each phase, a pause or a resume in between could make all of them
    /// fail, and `start()` would return without effect: the operation would stay in the queue forever, together with
    /// everything behind the next barrier.
    private func leave(_ phases: Phase..., for next: Phase) -> Phase? {
        var known = current
        while phases.contains(known) {
            willLeave(known)
            let (isExchanged, original) = phase.compareExchange(
                expected: known.rawValue, desired: next.rawValue, ordering: .sequentiallyConsistent)
            if isExchanged { return known }
            known = Phase(rawValue: original) ?? .finished
        }
        return nil
    }

    /// Runs before the operation leaves a phase, although another thread may leave it first.
    func willLeave(_ phase: Phase) {}

    override func start() {
        if isCancelled {
            if leave(.ready, .paused, for: .finished) != nil { didEnd() }
            return
        }
        gauge.enter()
        guard leave(.ready, for: .executing) != nil else {
            gauge.leave()
            return slotDidFree()
        }
        executionDidBegin()
        whenStarted?(self)
    }

    func pause() {
        switch leave(.ready, .executing, for: .paused) {
        case .executing:
            gauge.leave()
            slotDidFree()
        case .ready: readinessDidChange()
        case .paused, .finished, nil: break
        }
    }

    func resume() {
        if leave(.paused, for: .ready) != nil { readinessDidChange() }
    }

    func finish() {
        guard leave(.executing, for: .finished) != nil else { return }
        gauge.leave()
        didEnd()
    }

    override func cancel() {
        super.cancel()
        finish()
    }

    private func didEnd() {
        finishes.add(1, ordering: .sequentiallyConsistent)
        executionDidFinish()
    }
}

/// The properties of an operation that a queue reads, one after another, while it holds no lock.
enum QueueQuestion: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case joined, isReady, endsWithoutWork, priority, quality, isDirect, host, isFinished
    var testDescription: String { rawValue }
}

/// A pausable operation that runs a closure when a property is read, after its value is determined and before the queue
/// receives it.
class AskedTestOperation: PausableTestOperation, @unchecked Sendable {
    func didAnswer(_ question: QueueQuestion) {}

    private func answer<Answer>(_ question: QueueQuestion, _ answer: Answer) -> Answer {
        didAnswer(question)
        return answer
    }

    override func didJoinQueue() { didAnswer(.joined) }
    override var isReady: Bool { answer(.isReady, super.isReady) }
    override var endsWithoutWork: Bool { answer(.endsWithoutWork, super.endsWithoutWork) }
    override var isStartedDirectly: Bool { answer(.isDirect, super.isStartedDirectly) }
    override var hostAndGate: (host: String?, waitsAtGate: Bool) { answer(.host, super.hostAndGate) }
    override var isFinished: Bool { answer(.isFinished, super.isFinished) }
    override var queuePriority: QueuePriority {
        get { answer(.priority, super.queuePriority) }
        set { super.queuePriority = newValue }
    }
    override var qualityOfService: QualityOfService {
        get { answer(.quality, super.qualityOfService) }
        set { super.qualityOfService = newValue }
    }
}

/// A clock that a test advances manually.
final class ManualClock: SchedulingClock {
    private final class Timer: ClockTimer {
        let deadline: UInt64
        let block: @Sendable () -> Void
        private let clock: ManualClock

        init(_ deadline: UInt64, _ block: @escaping @Sendable () -> Void, of clock: ManualClock) {
            (self.deadline, self.block, self.clock) = (deadline, block, clock)
        }

        func cancel() {
            let removed = clock.state.withLock { state in
                state.timers.firstIndex { $0 === self }.map { state.timers.remove(at: $0) }
            }
            withExtendedLifetime(removed) {}
        }
    }

    private let state = Locked((now: UInt64(0), timers: [Timer]()))

    var now: UInt64 { state.withLock { $0.now } }
    var timerCount: Int { state.withLock { $0.timers.count } }

    func schedule(at deadline: UInt64, _ block: @escaping @Sendable () -> Void) -> any ClockTimer {
        let timer = Timer(deadline, block, of: self)
        state.withLock { $0.timers.append(timer) }
        return timer
    }

    func advance(by seconds: Double) {
        let due = state.withLock { state in
            state.now += UInt64(seconds * 1e9)
            let due = state.timers.filter { $0.deadline <= state.now }
            state.timers.removeAll { $0.deadline <= state.now }
            return due
        }
        for timer in due { timer.block() }
    }
}
