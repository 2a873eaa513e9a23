import ConvoyOperations
import ConvoySupport
import Foundation

/// A machine that represents all threads of a program as lists of their next jobs, on one real thread. A caller picks
/// the next step.
///
/// A thread runs its jobs in order, but any thread may run next at each step. Each serial dispatch queue, the network
/// and each user is a thread. Blocks that the library submits to a worker, a concurrent queue or a timer run on
/// separate threads. A step is the library's work between two submissions. A change of an operation's state and its
/// consequences can be two steps (see ``hold(_:)``).
final class Machine: SimulatedThreads, @unchecked Sendable {
    /// A simulated thread.
    final class Thread {
        private let title: String
        /// The number of a thread that runs one job and then ends.
        private let number: Int?
        fileprivate var jobs: [() -> Void] = []
        fileprivate var held: [() -> Void] = []

        fileprivate init(_ title: String, number: Int? = nil) { (self.title, self.number) = (title, number) }

        var name: String { number.map { "\(title) (\($0))" } ?? title }
        fileprivate var isOfJob: Bool { number != nil }

        /// Whether the thread is in the middle of a job.
        var isHeld: Bool { !held.isEmpty }
    }

    private enum Step {
        /// A continuation that was held back.
        case goOn(Int)
        case job(Int)
        case source(Int)
        case time

        func name(in machine: Machine) -> String {
            switch self {
            case .goOn(let index): "\(machine.threads[index].name) continues"
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
    /// The continuations held back by the current step.
    private var heldHere: [() -> Void] = []
    private var jobCount = 0
    let clock = SimulatedClock()
    /// The queues that run several blocks concurrently.
    private let concurrent: Set<ObjectIdentifier>

    /// - Parameter concurrent: The queues whose blocks run concurrently.
    init(concurrent: [DispatchQueue]) {
        self.concurrent = Set(concurrent.map { ObjectIdentifier($0) })
        clock.fire = { [unowned self] block in run("a timer", block) }
    }

    /// Creates a thread that runs until the end.
    func makeThread(_ name: String) -> Thread {
        let thread = Thread(name)
        threads.append(thread)
        return thread
    }

    func add(_ source: any StepSource) { sources.append(source) }

    // MARK: Submitted blocks

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

    /// Appends a job to a thread.
    func append(_ job: @escaping () -> Void, to thread: Thread) { thread.jobs.append(job) }

    private func run(_ name: String, _ job: @escaping () -> Void) {
        jobCount += 1
        let thread = Thread(name, number: jobCount)
        thread.jobs = [job]
        threads.append(thread)
    }

    /// Postpones the rest of the current thread's work to a later step, before which the thread does nothing else.
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

    /// Takes a step. Returns false if no step is left.
    ///
    /// - Parameters:
    ///   - pick: Picks one of several steps.
    ///   - tell: Receives a description of the step; nil to omit it.
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

    /// Runs a block as part of a thread.
    func take(_ thread: Thread, _ body: () -> Void) {
        current = thread
        body()
        current = nil
        // These continuations run before those held back earlier by the enclosing step.
        if !heldHere.isEmpty {
            thread.held.insert(contentsOf: heldHere, at: 0)
            heldHere.removeAll(keepingCapacity: true)
        }
    }

    /// Whether any thread is in the middle of a job.
    var isAnyHeld: Bool { threads.contains(where: \.isHeld) }

    /// The pending steps, by name.
    var pending: [String] {
        findSteps()
        return steps.map { $0.name(in: self) }
    }
}

/// A source of steps on a thread.
protocol StepSource: AnyObject {
    var name: String { get }
    var thread: Machine.Thread { get }
    var canStep: Bool { get }
    /// Whether the source will take no further steps.
    var isOver: Bool { get }
    func step()
}

/// A clock that advances when the caller picks it.
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

    /// Advances to the next timer. All due timers then fire, each on a separate thread.
    fileprivate func advance() {
        guard let next = timers.map(\.deadline).min() else { return }
        now = max(now, next)
        let due = timers.filter { $0.deadline <= now }
        timers.removeAll { $0.deadline <= now }
        for timer in due { if let block = timer.block.take() { fire(block) } }
    }
}
