import ConvoySupport
import Foundation

/// A thread that owns a connection to a queue's database, and reestablishes the connection if it is lost.
final class StoreThread: @unchecked Sendable {
    typealias Opening = @Sendable () throws(SharedQueueError) -> any WorkDatabase

    private typealias Job = (StoreThread) -> Void

    private let open: Opening
    private let condition = MonotonicCondition()
    // The condition guards the following properties.
    private var jobs = Backlog<Job>()
    private var isClosed = false
    private var isRunning = false
    /// The store, used only by the thread.
    private var store: WorkStore?

    init(open: @escaping Opening) { self.open = open }

    /// Runs a closure with the store. Tries to reestablish a lost connection for up to `patience` seconds.
    func perform<Result: Sendable>(
        patience: TimeInterval = 30, _ body: @escaping @Sendable (WorkStore) throws(SharedQueueError) -> Result
    ) async throws(SharedQueueError) -> Result {
        let result: Swift.Result<Result, SharedQueueError> = await withCheckedContinuation { continuation in
            submit { thread in continuation.resume(returning: thread.run(patience, body)) }
        }
        return try result.get()
    }

    /// Runs a closure with the store, ignoring errors.
    func submit(
        patience: TimeInterval, _ body: @escaping @Sendable (WorkStore) throws(SharedQueueError) -> Void,
        completion: @escaping @Sendable () -> Void
    ) {
        submit { thread in
            _ = thread.run(patience, body)
            completion()
        }
    }

    /// Ends the thread after all submitted jobs. Later calls fail.
    func close() {
        condition.lock()
        isClosed = true
        condition.broadcast()
        condition.unlock()
    }

    private func submit(_ job: @escaping Job) {
        condition.lock()
        jobs.append(job)
        let starts = !isRunning
        isRunning = true
        condition.signal()
        condition.unlock()
        guard starts else { return }
        do throws(SystemError) {
            try SystemThread.start(name: "Convoy.Store", stackSize: 1 << 20) { self.work() }
        } catch {
            // If no thread can be created, a libdispatch thread runs these jobs.
            DispatchQueue.global().async { self.work() }
        }
    }

    private func work() {
        while true {
            condition.lock()
            // Close the connection if it is unused for a minute.
            let end = MonotonicClock.now + 60_000_000_000
            while jobs.isEmpty, !isClosed, condition.wait(until: end) {}
            guard let job = jobs.popFirst() else {
                isRunning = false
                store = nil
                condition.unlock()
                return
            }
            condition.unlock()
            job(self)
        }
    }

    private func run<Result>(
        _ patience: TimeInterval, _ body: (WorkStore) throws(SharedQueueError) -> Result
    ) -> Swift.Result<Result, SharedQueueError> {
        var delay = 0.05
        let end = Nanoseconds.deadline(patience, after: MonotonicClock.now)
        while true {
            if isOver { return .failure(.closed) }
            do throws(SharedQueueError) {
                if store?.database.isBroken == true { store = nil }
                let current: WorkStore
                if let store { current = store } else { current = WorkStore(try open()) }
                store = current
                return .success(try body(current))
            } catch {
                guard case .unavailable = error, MonotonicClock.now < end else { return .failure(error) }
                store = nil
                wait(delay)
                delay = min(delay * 2, 2)
            }
        }
    }

    private var isOver: Bool {
        condition.lock()
        defer { condition.unlock() }
        return isClosed
    }

    private func wait(_ seconds: TimeInterval) {
        condition.lock()
        defer { condition.unlock() }
        let end = Nanoseconds.deadline(seconds, after: MonotonicClock.now)
        while !isClosed, condition.wait(until: end) {}
    }
}

/// A wait that another thread can interrupt.
package final class Interruption: @unchecked Sendable {
    private let condition = MonotonicCondition()
    private var isInterrupted = false

    package init() {}

    /// Waits for the given time, or until interrupted. Returns whether the wait was interrupted.
    package func wait(milliseconds: Int) -> Bool {
        condition.lock()
        defer { condition.unlock() }
        let end = Nanoseconds.deadline(Double(milliseconds) / 1000, after: MonotonicClock.now)
        while !isInterrupted, condition.wait(until: end) {}
        defer { isInterrupted = false }
        return isInterrupted
    }

    package func interrupt() {
        condition.lock()
        isInterrupted = true
        condition.signal()
        condition.unlock()
    }
}
