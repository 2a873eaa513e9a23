import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyTransport

/// Tasks that a thread runs itself, while the loop's thread sleeps.
@Suite struct InPlaceTests {
    /// A driver that only counts.
    private final class Driver: RunLoopDriver, @unchecked Sendable {
        // Used by the owner of the loop, but for `isIdle`, which is set before the loop runs.
        var isIdle = true
        var isIncomplete = false
        let turns = Atomic(0)
        var entered = 0

        func enterThread() { entered += 1 }
        func leaveThread() { entered -= 1 }
        func beginInPlace() -> Bool { isIncomplete }
        func endTurn() { turns.add(1, ordering: .relaxed) }
    }

    /// A run loop on its own thread, with a driver.
    private final class Running: Sendable {
        let loop: NetworkRunLoop
        let driver: Driver
        private let ended = DispatchSemaphore(value: 0)

        init(_ driver: Driver = Driver()) throws {
            loop = try NetworkRunLoop()
            self.driver = driver
            loop.driver = driver
            let (loop, ended) = (self.loop, self.ended)
            Thread {
                loop.run()
                ended.signal()
            }.start()
        }

        /// Runs a task. Returns whether the calling thread ran it.
        func begin(_ body: @escaping @Sendable () -> Void = {}) -> Bool {
            let caller = UInt(pthread_self())
            let isDone = DispatchSemaphore(value: 0)
            let isHere = Locked(false)
            loop.performInPlace(
                .block {
                    isHere.withLock { $0 = UInt(pthread_self()) == caller }
                    body()
                    isDone.signal()
                })
            #expect(isDone.wait(timeout: .now() + 100) == .success)
            return isHere.withLock { $0 }
        }

        func stop() {
            loop.stop()
            #expect(ended.wait(timeout: .now() + 100) == .success)
        }
    }

    @Test func `a thread runs its task itself while the loop sleeps and owns the loop meanwhile`() throws {
        let running = try Running()
        // Until the loop sleeps, it runs the tasks.
        try eventually { running.begin() }
        let (loop, driver) = (running.loop, running.driver)
        let isHere = running.begin {
            #expect(loop.isCurrent && NetworkThread.isCurrent && driver.entered == 1)
        }
        #expect(isHere)
        #expect(!loop.isCurrent && !NetworkThread.isCurrent && driver.entered == 0)
        running.stop()
    }

    @Test func `tasks and blocks wait, in order, for a loop that does not run yet`() throws {
        let loop = try NetworkRunLoop()
        let driver = Driver()
        loop.driver = driver
        let order = Locked<[Int]>([])
        loop.perform { order.withLock { $0.append(1) } }
        loop.performInPlace(.block { order.withLock { $0.append(2) } })
        #expect(order.withLock { $0 } == [])
        loop.stop()
        loop.run()
        #expect(order.withLock { $0 } == [1, 2])
    }

    @Test func `the loop's thread runs the tasks of a driver that is not idle`() throws {
        let driver = Driver()
        driver.isIdle = false
        let running = try Running(driver)
        for _ in 0..<100 { #expect(!running.begin()) }
        running.stop()
    }

    @Test func `the loop's thread runs tasks while handlers are waiting`() throws {
        let running = try Running()
        try eventually { running.begin() }
        let queue = DispatchQueue(label: "Convoy.Tests.Handlers")
        let (hasBegun, mayEnd, hasEnded) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        CompletionOutbox.post(to: queue) {
            hasBegun.signal()
            mayEnd.wait()
        }
        #expect(hasBegun.wait(timeout: .now() + 100) == .success)
        CompletionOutbox.post(to: queue) { hasEnded.signal() }
        for _ in 0..<20 { #expect(!running.begin()) }
        mayEnd.signal()
        #expect(hasEnded.wait(timeout: .now() + 100) == .success)
        try eventually { running.begin() }
        running.stop()
    }

    @Test func `what a task in place leaves to do wakes the loop's thread`() throws {
        let driver = Driver()
        driver.isIncomplete = true
        let running = try Running(driver)
        for _ in 0..<20 {
            let turns = Locked(0)
            // The loop sleeps while the task runs, so the next turn is caused by what the task has left.
            try eventually { running.begin { turns.withLock { $0 = driver.turns.load(ordering: .relaxed) } } }
            try eventually { driver.turns.load(ordering: .relaxed) > turns.withLock { $0 } }
        }
        running.stop()
    }

    @Test func `a timer scheduled by a task in place fires on time, whatever the loop waits for`()
        throws
    {
        let running = try Running()
        let loop = running.loop
        for round in 0..<6 {
            let hasFired = DispatchSemaphore(value: 0)
            let timer = RunLoopTimer { hasFired.signal() }
            let later = RunLoopTimer {}
            struct Timers: @unchecked Sendable { let timer, later: RunLoopTimer }
            let timers = Timers(timer: timer, later: later)
            if round % 3 == 1 { loop.perform { loop.schedule(timers.later, at: NetworkRunLoop.now + 1_000_000_000_000) } }
            // The loop waits for a timer that is cancelled afterwards.
            if round % 3 == 2 {
                loop.perform { loop.schedule(timers.later, at: NetworkRunLoop.now + 500_000_000_000) }
                usleep(20_000)
                loop.perform { loop.cancel(timers.later) }
            }
            try eventually { running.begin() }
            _ = running.begin { loop.schedule(timers.timer, at: NetworkRunLoop.now + 10_000_000) }
            #expect(hasFired.wait(timeout: .now() + 100) == .success)
        }
        running.stop()
    }

    @Test func `the thread of another loop hands its tasks over and remains a network thread`() throws {
        let (first, second) = (try Running(), try Running())
        try eventually { second.begin() }
        for _ in 0..<20 {
            let results = Locked<[Bool]>([])
            let isDone = DispatchSemaphore(value: 0)
            first.loop.perform {
                let caller = UInt(pthread_self())
                second.loop.performInPlace(
                    .block {
                        results.withLock { $0.append(UInt(pthread_self()) != caller) }
                        isDone.signal()
                    })
                results.withLock { $0.append(NetworkThread.isCurrent) }
                isDone.signal()
            }
            for _ in 0..<2 { #expect(isDone.wait(timeout: .now() + 100) == .success) }
            #expect(results.withLock { $0 } == [true, true])
        }
        first.stop()
        second.stop()
    }

    @Test func `pending events are handled before a task runs in place`() throws {
        let running = try Running()
        let loop = running.loop
        for _ in 0..<50 {
            var ends: [Int32] = [-1, -1]
            try #require(pipe(&ends) == 0)
            let (readEnd, writeEnd) = (ends[0], ends[1])
            let order = Locked<[String]>([])
            let isDone = DispatchSemaphore(value: 0)
            loop.perform {
                let reader = Reader { descriptor in
                    order.withLock { $0.append("event") }
                    try? loop.unwatch(descriptor)
                }
                try? loop.watch(readEnd, for: .readable, handler: reader)
                isDone.signal()
            }
            #expect(isDone.wait(timeout: .now() + 100) == .success)
            try eventually { running.begin() }
            write(writeEnd, "x", 1)
            loop.performInPlace(
                .block {
                    order.withLock { $0.append("task") }
                    isDone.signal()
                })
            #expect(isDone.wait(timeout: .now() + 100) == .success)
            #expect(order.withLock { $0 } == ["event", "task"])
            close(readEnd)
            close(writeEnd)
        }
        running.stop()
    }

    private final class Reader: FileEventHandler {
        let read: (Int32) -> Void
        init(_ read: @escaping (Int32) -> Void) { self.read = read }
        func fileDescriptor(_ descriptor: Int32, isReadyFor events: FileEvents) { read(descriptor) }
    }

    @Test func `tasks and blocks of many threads run one at a time, those of each thread in order`() throws {
        let running = try Running()
        let loop = running.loop
        // Not protected: only the owner of the loop uses it.
        final class Record: @unchecked Sendable {
            var numbers: [Int: [Int]] = [:]
            var isRunning = false
        }
        let record = Record()
        let isDone = DispatchSemaphore(value: 0)
        for thread in 0..<6 {
            Thread {
                for number in 0..<2_000 {
                    let body: @Sendable () -> Void = {
                        #expect(!record.isRunning)
                        record.isRunning = true
                        record.numbers[thread, default: []].append(number)
                        record.isRunning = false
                        if number == 1_999 { isDone.signal() }
                    }
                    if number % 3 == 0 { loop.perform(body) } else { loop.performInPlace(.block(body)) }
                }
            }.start()
        }
        for _ in 0..<6 { #expect(isDone.wait(timeout: .now() + 100) == .success) }
        running.stop()
        #expect(record.numbers == Dictionary(uniqueKeysWithValues: (0..<6).map { ($0, Array(0..<2_000)) }))
    }

    @Test func `requests one after the other, each of another thread, end as on the loop's thread`() throws {
        let server = try TestServer()
        server.route("GET", "/", .text("x"))
        let closed = try #require(URL(string: "http://127.0.0.1:1/"))
        let thread = NetworkThread()
        for round in 0..<60 {
            let results = Locked<[Bool]>([])
            let isDone = DispatchSemaphore(value: 0)
            Thread {
                // A refused connection fails within the call that starts it.
                let failed = load(URLRequest(url: closed), thread: thread)
                let succeeded = load(URLRequest(url: server.url("/")), thread: thread)
                results.withLock { $0 = [failed?.error?.code == .cannotConnectToHost, succeeded?.isFinished == true] }
                isDone.signal()
            }.start()
            #expect(isDone.wait(timeout: .now() + 100) == .success)
            #expect(results.withLock { $0 } == [true, true], "round \(round)")
        }
    }
}
