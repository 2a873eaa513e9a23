import CEpoll
import ConvoySupport
import Foundation
import Synchronization

/// A handler of a file descriptor that has become ready, called by the owner of the run loop.
package protocol FileEventHandler: AnyObject {
    func fileDescriptor(_ descriptor: Int32, isReadyFor events: FileEvents)
}

/// The object that a run loop drives. Used by the thread that owns the loop.
protocol RunLoopDriver: AnyObject {
    /// Whether nothing is in progress, so that a task may run in place.
    var isIdle: Bool { get }

    /// Called before and after the calling thread runs a task in place.
    func enterThread()
    func leaveThread()

    /// Performs what a task in place has begun, as far as another thread may. Returns whether the loop's thread must do
    /// more.
    func beginInPlace() -> Bool

    /// Called at the end of each turn, before the thread may sleep.
    func endTurn()
}

/// A run loop for one thread, which handles file descriptors, timers, and blocks from other threads.
///
/// On Linux, Foundation's `RunLoop` cannot watch a socket, is not woken by `perform` and leaks its timers. This class
/// provides only what a network thread needs. `perform(_:)`, `performInPlace(_:)` and `stop()` can be called from any
/// thread. All other members can be used only by the owner of the loop: the thread that called `run()` or, while that
/// thread sleeps, another thread that runs a task in place.
package final class NetworkRunLoop: @unchecked Sendable {
    package typealias Block = @Sendable () -> Void

    // The following state is shared. All other state is used by the owner only.

    /// The tasks passed from other threads.
    private let inbox = ContendedLock<[LoopTask]>([])
    /// Whether the inbox may contain items. Set after an item was added, and cleared before items are taken. Together
    /// with `isAsleep`, this ensures that either the thread finds the item before it sleeps, or the other thread wakes
    /// it.
    private let hasItems = Atomic<Bool>(false)
    private let isAsleep = Atomic<Bool>(false)
    private let isStopped = Atomic<Bool>(false)
    /// The lock that an owner of the loop holds, with the time until which the thread sleeps. No thread waits for it but
    /// the loop's own.
    private let ownership = ContendedLock<MonotonicTime>(0)
    /// The thread that owns the loop; 0 before it runs.
    private let owner = Atomic<UInt>(0)

    private let wakeUp: WakeUp
    private let poller: Poller
    @exclusivity(unchecked) private var timers = TimerHeap()
    @exclusivity(unchecked) private var timeOfTurn: MonotonicTime = 0
    @exclusivity(unchecked) private var handlers: [(any FileEventHandler)?] = []
    @exclusivity(unchecked) private var spare: [LoopTask] = []
    private let outbox = DeferredWakeups()
    /// The driver, which the thread's engine retains.
    @exclusivity(unchecked) unowned(unsafe) var driver: (any RunLoopDriver)?

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

    private func hand(over item: LoopTask) {
        inbox.withLock { $0.append(item) }
        hasItems.store(true, ordering: .sequentiallyConsistent)
        wake()
    }

    /// Runs a task on the loop's thread, after earlier blocks. If the thread sleeps and the driver is idle, the calling
    /// thread runs the task itself: waking the other thread would take longer than the task. The task must not block,
    /// and the caller must hold no lock that it needs. Other run loops' threads never run it, and no thread does while
    /// handlers are waiting to run: the two threads then share the work.
    func performInPlace(_ task: LoopTask) {
        guard isAsleep.load(ordering: .relaxed), DeferredWakeups.current == nil, CompletionOutbox.isEmpty,
            let shares = ownership.withLockIfAvailable({ run(task, until: $0) }) ?? nil
        else { return hand(over: task) }
        // Wake the queues without the lock: their handlers may begin tasks in place at once.
        for share in shares { CompletionOutbox.submit(share) }
    }

    /// Makes `run()` return after all earlier blocks have run.
    package func stop() {
        isStopped.store(true, ordering: .sequentiallyConsistent)
        wakeUp.signal()
    }

    /// Wakes the thread if it sleeps.
    private func wake() {
        guard isAsleep.load(ordering: .sequentiallyConsistent),
            isAsleep.exchange(false, ordering: .sequentiallyConsistent)
        else { return }
        wakeUp.signal()
    }

    // MARK: Called by the owner

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

    /// Runs turns until `stop()`.
    package func run() {
        var timeout: Int32? = 0
        while let milliseconds = timeout {
            let count = poller.wait(milliseconds: milliseconds)
            timeout = ownership.withLock { wakeTime in
                turn(count)
                var timeout = timeToSleep(until: &wakeTime)
                // Keep the loop until the thread sleeps, so that other threads need not look whether it does.
                while timeout == 0 {
                    turn(poller.wait(milliseconds: 0))
                    timeout = timeToSleep(until: &wakeTime)
                }
                return timeout
            }
        }
        for share in outbox.leaveThread() { CompletionOutbox.submit(share) }
        // The system may reuse the thread's identity.
        owner.store(0, ordering: .relaxed)
    }

    /// Whether the caller owns the loop.
    package var isCurrent: Bool { owner.load(ordering: .relaxed) == UInt(pthread_self()) }

    private func turn(_ readyCount: Int) {
        if owner.load(ordering: .relaxed) == 0 { adoptThread() }
        timeOfTurn = 0
        poller.report(readyCount) { descriptor, events in
            if descriptor == wakeUp.descriptor {
                wakeUp.drain()
            } else if Int(descriptor) < handlers.count, let handler = handlers[Int(descriptor)] {
                handler.fileDescriptor(descriptor, isReadyFor: events)
            }
        }
        runInbox()
        fireTimers()
        driver?.endTurn()
        outbox.flush()
    }

    private func adoptThread() {
        owner.store(UInt(pthread_self()), ordering: .relaxed)
        outbox.adoptThread()
    }

    /// Runs a task on the calling thread, which has become the owner. Returns the queues to wake; nil, without running
    /// the task, if the loop's thread is needed.
    private func run(_ task: LoopTask, until wakeTime: MonotonicTime) -> [CompletionOutbox.BacklogSegment]? {
        // The thread may have been woken for earlier tasks, which must run first. So must pending events: a connection on
        // which one is pending may be dead.
        guard let driver, driver.isIdle, isAsleep.load(ordering: .sequentiallyConsistent),
            !isStopped.load(ordering: .relaxed), !poller.hasEvents
        else { return nil }
        let thread = owner.load(ordering: .relaxed)
        adoptThread()
        driver.enterThread()
        timeOfTurn = 0
        task.run()
        let isIncomplete = driver.beginInPlace()
        driver.leaveThread()
        let shares = outbox.leaveThread()
        owner.store(thread, ordering: .relaxed)
        if isIncomplete || timers.nextDeadline ?? .max < wakeTime { wake() }
        return shares
    }

    /// Returns the time for which the thread may sleep, in milliseconds; a negative number for any time, nil to stop.
    private func timeToSleep(until wakeTime: inout MonotonicTime) -> Int32? {
        if hasItems.load(ordering: .relaxed) { return 0 }
        isAsleep.store(true, ordering: .sequentiallyConsistent)
        // Read the flag first, so that blocks added before the stop still run.
        let isStopped = isStopped.load(ordering: .sequentiallyConsistent)
        if hasItems.load(ordering: .sequentiallyConsistent) {
            isAsleep.store(false, ordering: .relaxed)
            return 0
        }
        return isStopped ? nil : millisecondsToNextTimer(&wakeTime)
    }

    private func runInbox() {
        isAsleep.store(false, ordering: .relaxed)
        guard hasItems.load(ordering: .relaxed), hasItems.exchange(false, ordering: .acquiring) else { return }
        var items = spare
        spare = []
        inbox.withLock { swap(&$0, &items) }
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

    /// Returns the time until the next timer, in milliseconds, and sets `wakeTime`.
    ///
    /// If the next timer was cancelled, the thread still wakes at its time: a task in place must wake the thread only
    /// for a timer that is due earlier, and the timeouts of requests one after the other are due ever later.
    private func millisecondsToNextTimer(_ wakeTime: inout MonotonicTime) -> Int32 {
        let next = timers.nextDeadline ?? .max
        if next == .max, wakeTime == .max { return -1 }
        let now = Self.now
        wakeTime = wakeTime > now ? min(wakeTime, next) : next
        guard wakeTime > now else { return 0 }
        // Round up: a timer may fire slightly late, but the loop must not spin until it is due.
        let (rounded, isEndless) = (wakeTime - now).addingReportingOverflow(999_999)
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
