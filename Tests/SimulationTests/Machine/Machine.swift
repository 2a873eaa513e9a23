import ConvoyOperations
import ConvoySupport
import Foundation

/// All threads of a program as lists of what they do next, on one real thread. Somebody picks what is done next.
///
/// A thread does one thing after another; which thread goes on is open at each step. A serial dispatch queue is a thread,
/// the network is one, each user is one. What the library hands to a worker, to a concurrent queue or to a timer runs on
/// a thread of its own. A step is what the library does without handing anything over; a change of an operation's state
/// and what follows from it can be two steps (see ``hold(_:)``).
final class Machine: SimulatedThreads, @unchecked Sendable {
    /// A simulated thread.
    final class Thread {
        private let title: String
        /// Of a thread that runs one job, and then ends.
        private let number: Int?
        fileprivate var jobs: [() -> Void] = []
        fileprivate var held: [() -> Void] = []

        fileprivate init(_ title: String, number: Int? = nil) { (self.title, self.number) = (title, number) }

        var name: String { number.map { "\(title) (\($0))" } ?? title }
        fileprivate var isOfJob: Bool { number != nil }

        /// Whether it is in the middle of something.
        var isHeld: Bool { !held.isEmpty }
    }

    private enum Step {
        /// What was held back.
        case goOn(Int)
        case job(Int)
        case source(Int)
        case time

        func name(in machine: Machine) -> String {
            switch self {
            case .goOn(let index): "\(machine.threads[index].name) goes on"
            case .job(let index): machine.threads[index].name
            case .source(let index): machine.sources[index].name
            case .time: "time passes"
            }
        }
    }

    private var threads: [Thread] = []
    private var queues: [ObjectIdentifier: (queue: DispatchQueue, thread: Thread)] = [:]
    private var sources: [any StepSource] = []
    private var current: Thread?
    /// What the current step has held back.
    private var heldHere: [() -> Void] = []
    private var jobCount = 0
    let clock = SimulatedClock()
    /// The queues that run several blocks at a time.
    private let concurrent: Set<ObjectIdentifier>

    /// - Parameter concurrent: the queues whose blocks run at the same time.
    init(concurrent: [DispatchQueue]) {
        self.concurrent = Set(concurrent.map { ObjectIdentifier($0) })
        clock.fire = { [unowned self] block in run("a timer", block) }
    }

    /// A thread that goes on until the end.
    func makeThread(_ name: String) -> Thread {
        let thread = Thread(name)
        threads.append(thread)
        return thread
    }

    func add(_ source: any StepSource) { sources.append(source) }

    // MARK: What is handed over

    func submit(_ block: @escaping @Sendable () -> Void, to queue: DispatchQueue) {
        let identity = ObjectIdentifier(queue)
        if concurrent.contains(identity) { return run(queue.label, block) }
        if queues[identity] == nil { queues[identity] = (queue, makeThread(queue.label)) }
        queues[identity]?.thread.jobs.append(block)
    }

    func submit(_ block: @escaping @Sendable () -> Void, to queue: DispatchQueue, after seconds: TimeInterval) {
        clock.schedule(at: Nanoseconds.deadline(seconds, after: clock.now)) { [self] in submit(block, to: queue) }
    }

    func perform(_ job: @escaping @Sendable () -> Void) { run("a worker", job) }

    /// Gives a job to a thread.
    func append(_ job: @escaping () -> Void, to thread: Thread) { thread.jobs.append(job) }

    private func run(_ name: String, _ job: @escaping () -> Void) {
        jobCount += 1
        let thread = Thread(name, number: jobCount)
        thread.jobs = [job]
        threads.append(thread)
    }

    /// Keeps the rest of what the current thread does for a later step. The thread does nothing else before.
    func hold(_ rest: @escaping () -> Void) { heldHere.append(rest) }

    // MARK: Steps

    private var steps: [Step] = []

    private func findSteps() {
        steps.removeAll(keepingCapacity: true)
        for index in threads.indices {
            let thread = threads[index]
            if thread.isHeld { steps.append(.goOn(index)) } else if !thread.jobs.isEmpty { steps.append(.job(index)) }
        }
        for index in sources.indices where sources[index].canStep && !sources[index].thread.isHeld {
            steps.append(.source(index))
        }
        if clock.hasTimers { steps.append(.time) }
    }

    /// Takes a step. False if there is none.
    ///
    /// - Parameters:
    ///   - pick: picks one of several.
    ///   - tell: is told what is done; nil if nobody wants to know.
    func step(_ pick: (Int) -> Int, _ tell: ((String) -> Void)?) -> Bool {
        findSteps()
        guard !steps.isEmpty else { return false }
        let step = steps[steps.count == 1 ? 0 : pick(steps.count)]
        tell?(step.name(in: self))
        switch step {
        case .goOn(let index):
            let thread = threads[index]
            let rest = thread.held.removeFirst()
            take(thread, rest)
        case .job(let index):
            let thread = threads[index]
            let job = thread.jobs.removeFirst()
            take(thread, job)
        case .source(let index):
            let source = sources[index]
            take(source.thread, source.step)
        case .time: clock.advance()
        }
        threads.removeAll { $0.isOfJob && $0.jobs.isEmpty && $0.held.isEmpty }
        sources.removeAll(where: \.isOver)
        return true
    }

    /// Does something as a part of a thread.
    func take(_ thread: Thread, _ body: () -> Void) {
        current = thread
        body()
        current = nil
        // Before what was held back earlier, by what this is a part of.
        if !heldHere.isEmpty {
            thread.held.insert(contentsOf: heldHere, at: 0)
            heldHere.removeAll(keepingCapacity: true)
        }
    }

    /// Whether a thread is in the middle of something.
    var isAnyHeld: Bool { threads.contains(where: \.isHeld) }

    /// What is left to do, by name.
    var pending: [String] {
        findSteps()
        return steps.map { $0.name(in: self) }
    }
}

/// Does steps on a thread, when it can.
protocol StepSource: AnyObject {
    var name: String { get }
    var thread: Machine.Thread { get }
    var canStep: Bool { get }
    /// Whether it will never step again.
    var isOver: Bool { get }
    func step()
}

/// A clock that goes on when somebody picks that.
final class SimulatedClock: SchedulingClock, @unchecked Sendable {
    private final class Timer: ClockTimer, @unchecked Sendable {
        let deadline: UInt64
        var block: (@Sendable () -> Void)?
        private weak var clock: SimulatedClock?

        init(_ deadline: UInt64, _ block: @escaping @Sendable () -> Void, of clock: SimulatedClock) {
            (self.deadline, self.block, self.clock) = (deadline, block, clock)
        }

        func cancel() {
            clock?.timers.removeAll { $0 === self }
            let released = block.take()
            withExtendedLifetime(released) {}
        }
    }

    private var timers: [Timer] = []
    private(set) var now: UInt64 = 1_000_000_000
    fileprivate var fire: (@escaping @Sendable () -> Void) -> Void = { _ in }

    var hasTimers: Bool { !timers.isEmpty }

    @discardableResult
    func schedule(at deadline: UInt64, _ block: @escaping @Sendable () -> Void) -> any ClockTimer {
        let timer = Timer(deadline, block, of: self)
        timers.append(timer)
        return timer
    }

    /// Goes on to the next timer. All that are due then fire, each on a thread of its own.
    fileprivate func advance() {
        guard let next = timers.map(\.deadline).min() else { return }
        now = max(now, next)
        let due = timers.filter { $0.deadline <= now }
        timers.removeAll { $0.deadline <= now }
        for timer in due { if let block = timer.block.take() { fire(block) } }
    }
}
