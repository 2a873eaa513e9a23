import CEpoll
import ConvoySupport
import Foundation
import Synchronization

/// A handler of a file descriptor that has become ready, called on the run loop's thread.
package protocol FileEventHandler: AnyObject {
    func fileDescriptor(_ descriptor: Int32, isReadyFor events: FileEvents)
}

/// A run loop for one thread, which handles file descriptors, timers, and blocks from other threads.
///
/// On Linux, Foundation's `RunLoop` cannot watch a socket, is not woken by `perform` and leaks its timers. This class
/// provides only what a network thread needs. `perform(_:)` and `stop()` can be called from any thread. All other
/// members can be used only on the thread that called `run()`.
package final class NetworkRunLoop: @unchecked Sendable {
    package typealias Block = @Sendable () -> Void

    // The following state is shared. All other state is used on the thread only.

    /// The tasks passed from other threads.
    private let inbox = ContendedLock<[LoopTask]>([])
    /// Whether the inbox may contain items. Set after an item was added, and cleared before items are taken. Together
    /// with `isAsleep`, this ensures that either the thread finds the item before it sleeps, or the other thread wakes
    /// it.
    private let hasItems = Atomic<Bool>(false)
    private let isAsleep = Atomic<Bool>(false)
    private let isStopped = Atomic<Bool>(false)
    /// The time at which the thread was last woken for new items; 0 if it has not been woken since it last took items.
    private let wokenAt = Atomic<MonotonicTime>(0)

    private let wakeUp: WakeUp
    private let thread = Atomic<UInt>(0)
    private let poller: Poller
    @exclusivity(unchecked) private var timers = TimerHeap()
    @exclusivity(unchecked) private var timeOfTurn: MonotonicTime = 0
    @exclusivity(unchecked) private var idleSpin = IdleSpin()
    /// Whether work was passed in this turn to another thread, which is expected to respond soon.
    @exclusivity(unchecked) private var expectsAnswer = false
    @exclusivity(unchecked) private var handlers: [(any FileEventHandler)?] = []
    @exclusivity(unchecked) private var spare: [LoopTask] = []
    private let outbox = DeferredWakeups()
    @exclusivity(unchecked) private var endOfTurn: EndOfTurn?

    /// A closure that is called in place. A copy would be retained and released in each turn.
    private struct EndOfTurn: ~Copyable {
        let call: () -> Bool
    }

    /// - Throws: `RunLoopError` if no descriptor is available for the loop.
    package init() throws {
        wakeUp = try WakeUp()
        poller = try Poller()
        try poller.watch(wakeUp.descriptor, for: .readable)
    }

    /// The time on the monotonic clock, in nanoseconds.
    package static var now: MonotonicTime { MonotonicClock.now }

    /// The time of the current turn, read once on first use. It is accurate enough for timeouts.
    package var turnTime: MonotonicTime {
        if timeOfTurn == 0 { timeOfTurn = Self.now }
        return timeOfTurn
    }

    // MARK: Called from any thread

    /// Runs a block on the loop's thread, after earlier blocks. The thread is woken at most once for any number of
    /// blocks, and not at all while it is awake.
    package func perform(_ block: @escaping Block) { hand(over: .block(block)) }

    /// Runs a task on the loop's thread, after earlier blocks.
    package func perform(_ task: any HandoverTask) { hand(over: .task(task)) }

    private func hand(over item: LoopTask) {
        inbox.withLock { $0.append(item) }
        hasItems.store(true, ordering: .sequentiallyConsistent)
        guard isAsleep.load(ordering: .sequentiallyConsistent),
            isAsleep.exchange(false, ordering: .sequentiallyConsistent)
        else { return }
        wokenAt.store(Self.now, ordering: .relaxed)
        wakeUp.signal()
    }

    /// Makes `run()` return after all earlier blocks have run.
    package func stop() {
        isStopped.store(true, ordering: .sequentiallyConsistent)
        wakeUp.signal()
    }

    // MARK: Called on the loop's thread

    /// Stops watching a descriptor.
    package func unwatch(_ descriptor: Int32) throws {
        guard descriptor >= 0 else { return }
        if Int(descriptor) < handlers.count { handlers[Int(descriptor)] = nil }
        try poller.watch(descriptor, for: [])
    }

    /// Watches a descriptor for the given events; an empty set stops watching.
    ///
    /// - Throws: `RunLoopError` if the system call fails. The descriptor is not watched in that case.
    package func watch(_ descriptor: Int32, for events: FileEvents, handler: any FileEventHandler) throws {
        guard !events.isEmpty else { return try unwatch(descriptor) }
        guard descriptor >= 0 else { throw RunLoopError(call: "watch", number: EBADF) }
        let index = Int(descriptor)
        if index >= handlers.count {
            handlers.append(contentsOf: repeatElement(nil, count: index + 1 - handlers.count))
        }
        do {
            try poller.watch(descriptor, for: events)
            handlers[index] = handler
        } catch {
            handlers[index] = nil
            throw error
        }
    }

    /// Schedules a timer to fire once when the monotonic clock reaches a time. A timer that is already scheduled is
    /// moved. If the time has passed, the timer fires after the loop has checked for other events.
    package func schedule(_ timer: RunLoopTimer, at deadline: MonotonicTime) {
        timers.schedule(timer, at: deadline)
    }

    package func cancel(_ timer: RunLoopTimer) {
        timers.cancel(timer)
    }

    /// Sets a closure that is called at the end of each turn, before the thread may sleep. The closure must not change
    /// this setting itself. It returns whether there is work that will wake the thread.
    package func atEndOfTurn(_ call: (() -> Bool)?) { endOfTurn = call.map { EndOfTurn(call: $0) } }

    /// Runs turns until `stop()`.
    package func run() {
        thread.store(UInt(pthread_self()), ordering: .relaxed)
        outbox.adoptThread()
        while turn() {}
        outbox.leaveThread()
        // The system may reuse the thread's identity.
        thread.store(0, ordering: .relaxed)
    }

    /// Whether the caller is on the loop's thread.
    package var isCurrent: Bool { thread.load(ordering: .relaxed) == UInt(pthread_self()) }

    private func turn() -> Bool {
        guard let mayBlock = isSpinning ? false : prepareToSleep() else { return false }
        timeOfTurn = 0
        poller.wait(milliseconds: mayBlock ? millisecondsToNextTimer() : 0) { descriptor, events in
            if descriptor == wakeUp.descriptor {
                wakeUp.drain()
            } else if Int(descriptor) < handlers.count, let handler = handlers[Int(descriptor)] {
                handler.fileDescriptor(descriptor, isReadyFor: events)
            }
        }
        runInbox()
        fireTimers()
        let isBusy =
            switch endOfTurn {
            case .some(let end): end.call()
            case .none: false
            }
        let isExpecting = outbox.flush() || expectsAnswer
        expectsAnswer = false
        if isExpecting, !isBusy { idleSpin.begin(at: Self.now) }
        return true
    }

    /// Records that work was passed to another thread, which will respond with `perform(_:)` within some tens of
    /// microseconds.
    package func expectAnswer() { expectsAnswer = true }

    private var isSpinning: Bool {
        guard idleSpin.goesOn(at: Self.now) else { return false }
        sched_yield()
        return true
    }

    /// Returns whether the thread may sleep; nil if it must stop.
    private func prepareToSleep() -> Bool? {
        if hasItems.load(ordering: .relaxed) { return false }
        isAsleep.store(true, ordering: .sequentiallyConsistent)
        // Read the flag first, so that blocks added before the stop still run.
        let isStopped = isStopped.load(ordering: .sequentiallyConsistent)
        guard hasItems.load(ordering: .sequentiallyConsistent) else { return isStopped ? nil : true }
        isAsleep.store(false, ordering: .relaxed)
        return false
    }

    private func runInbox() {
        isAsleep.store(false, ordering: .relaxed)
        guard hasItems.load(ordering: .relaxed), hasItems.exchange(false, ordering: .acquiring) else { return }
        var items = spare
        spare = []
        inbox.withLock { swap(&$0, &items) }
        let wokenAt = wokenAt.exchange(0, ordering: .relaxed)
        if !items.isEmpty { idleSpin.noteArrival(at: wokenAt != 0 ? wokenAt : Self.now) }
        // Reverse the items, so that removing them from the end moves no elements.
        if items.count > 1 { items.reverse() }
        while let item = items.popLast() { item.run() }
        // Reuse the storage, unless a burst has made it large.
        if items.capacity <= 4096 { spare = items }
    }

    private func fireTimers() {
        guard timers.nextDeadline != nil else { return }
        let now = turnTime
        // A timer that schedules itself again for now, or for the past, must not starve everything else.
        for _ in 0..<timers.count {
            guard let timer = timers.popDue(now: now) else { return }
            timer.fire()
        }
    }

    private func millisecondsToNextTimer() -> Int32 {
        guard let deadline = timers.nextDeadline else { return -1 }
        let now = Self.now
        guard deadline > now else { return 0 }
        // Round up: a timer may fire slightly late, but the loop must not spin until it is due.
        let (rounded, isEndless) = (deadline - now).addingReportingOverflow(999_999)
        return isEndless ? -1 : Int32(clamping: rounded / 1_000_000)
    }
}

/// A task that can be passed to another thread without allocating a closure.
package protocol HandoverTask: AnyObject, Sendable {
    func runHandedOver()
}

/// A block or a task from another thread.
enum LoopTask: Sendable {
    case block(@Sendable () -> Void)
    case task(any HandoverTask)

    func run() {
        switch self {
        case .block(let block): block()
        case .task(let task): task.runHandedOver()
        }
    }
}

/// The polling of a run loop's inbox before it sleeps, after it has passed work to another thread.
///
/// A handler that receives a response often sends the next request immediately. Polling briefly for that request takes
/// less time than being woken, which costs a system call on each side. The loop learns the typical delay; if that is
/// too long, it does not poll. All times are in nanoseconds.
struct IdleSpin {
    /// The maximum polling time, because polling uses a processor.
    static let limit: MonotonicTime = 100_000

    /// A moving average of the recent delays.
    private(set) var expected: MonotonicTime = 30_000
    private var began: MonotonicTime = 0
    /// The time until which to poll; 0 for no polling.
    private var end: MonotonicTime = 0

    /// Starts polling, because work was passed to another thread and there is nothing else to do.
    mutating func begin(at now: MonotonicTime) {
        began = now
        end = expected > Self.limit ? 0 : now + min(Self.limit, expected + expected / 2)
    }

    /// Returns whether to poll again instead of sleeping.
    mutating func goesOn(at now: @autoclosure () -> MonotonicTime) -> Bool {
        guard end != 0 else { return false }
        if now() < end { return true }
        end = 0
        return false
    }

    /// Records the arrival of an item from another thread.
    mutating func noteArrival(at time: @autoclosure () -> MonotonicTime) {
        guard began != 0 else { return }
        let now = time()
        // An item that arrives after a long time is not a response, so its delay is capped.
        let took = min(now > began ? now - began : 0, 4 * Self.limit)
        expected = (7 * expected + took) / 8
        began = 0
        end = 0
    }
}

/// An eventfd on which one thread waits and that others make readable.
final class WakeUp: Sendable {
    let descriptor: Int32

    init() throws {
        descriptor = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC))
        guard descriptor >= 0 else { throw RunLoopError(call: "eventfd", number: errno) }
    }

    deinit { close(descriptor) }

    /// Wakes the waiting thread. Can be called from any thread.
    func signal() {
        var one: UInt64 = 1
        // A full counter means that a wake-up is already pending.
        _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
    }

    /// Clears the signals. Called on the waiting thread only.
    func drain() {
        var count: UInt64 = 0
        _ = read(descriptor, &count, MemoryLayout<UInt64>.size)
    }
}
