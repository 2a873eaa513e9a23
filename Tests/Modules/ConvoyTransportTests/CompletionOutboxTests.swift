import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTransport

/// The order in which blocks posted by many threads run on a queue.
@Suite struct CompletionOutboxTests {
    private final class Log: Sendable {
        private let entries = Locked<[Int]>([])
        private let done = DispatchSemaphore(value: 0)
        private let expected: Int

        init(expecting count: Int) { expected = count }

        func note(_ number: Int) {
            let count = entries.withLock { entries in
                entries.append(number)
                return entries.count
            }
            if count == expected { done.signal() }
        }

        /// Returns the log once it is complete.
        func wait() -> [Int]? {
            guard done.wait(timeout: .now() + 100) == .success else { return nil }
            return entries.withLock { $0 }
        }
    }

    /// A run loop on its own thread.
    private final class Running: Sendable {
        let loop: NetworkRunLoop
        private let ended = DispatchSemaphore(value: 0)

        init() throws {
            loop = try NetworkRunLoop()
            let (loop, ended) = (self.loop, self.ended)
            Thread {
                loop.run()
                ended.signal()
            }.start()
        }

        func stop() {
            loop.stop()
            #expect(ended.wait(timeout: .now() + 100) == .success)
        }
    }

    private func wait(_ semaphore: DispatchSemaphore) -> Bool { semaphore.wait(timeout: .now() + 100) == .success }

    // MARK: Order

    @Test func `ten thousand blocks run in order on a serial queue`() throws {
        let queue = DispatchQueue(label: "Convoy.Tests.Serial")
        let log = Log(expecting: 10_000)
        for number in 0..<10_000 { CompletionOutbox.post(to: queue) { log.note(number) } }
        #expect(log.wait() == Array(0..<10_000))
    }

    @Test func `blocks that several threads post alternately run in posting order`() throws {
        let queue = DispatchQueue(label: "Convoy.Tests.Serial")
        let loops = [try Running(), try Running(), try Running()]
        let log = Log(expecting: 3000)
        let posted = DispatchSemaphore(value: 0)
        for number in 0..<3000 {
            let post: @Sendable () -> Void = {
                CompletionOutbox.post(to: queue) { log.note(number) }
                posted.signal()
            }
            // Every fourth block is posted by a thread without a run loop.
            if number % 4 == 3 { post() } else { loops[number % 4].loop.perform(post) }
            #expect(wait(posted))
        }
        #expect(log.wait() == Array(0..<3000))
        for running in loops { running.stop() }
    }

    /// The first two lanes always exist.
    @Test(arguments: [0, 3])
    func `posted blocks run before the end of the turn if another thread wakes the queue`(otherQueues: Int) throws {
        // Each queue runs one block while another one waits.
        let isOver = DispatchSemaphore(value: 0)
        defer { for _ in 0..<otherQueues { isOver.signal() } }
        for _ in 0..<otherQueues {
            let other = DispatchQueue(label: "Convoy.Tests.Other")
            CompletionOutbox.post(to: other) { isOver.wait() }
            CompletionOutbox.post(to: other) {}
        }
        let queue = DispatchQueue(label: "Convoy.Tests.Serial")
        let running = try Running()
        let log = Log(expecting: 3)
        let (begun, told) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let isToldInTime = Locked(false)
        running.loop.perform {
            CompletionOutbox.post(to: queue) { log.note(0) }
            begun.signal()
            // The turn has not ended, and the other thread's block has run.
            let isTold = told.wait(timeout: .now() + 100) == .success
            isToldInTime.withLock { $0 = isTold }
            CompletionOutbox.post(to: queue) { log.note(2) }
        }
        #expect(wait(begun))
        CompletionOutbox.post(to: queue) {
            log.note(1)
            told.signal()
        }
        #expect(log.wait() == [0, 1, 2])
        #expect(isToldInTime.withLock { $0 })
        running.stop()
    }

    @Test func `blocks posted in the last turn run even though the loop has ended`() throws {
        for _ in 0..<50 {
            let queue = DispatchQueue(label: "Convoy.Tests.Serial")
            let running = try Running()
            let log = Log(expecting: 2)
            running.loop.perform {
                running.loop.stop()
                CompletionOutbox.post(to: queue) { log.note(0) }
                CompletionOutbox.post(to: queue) { log.note(1) }
            }
            running.stop()
            #expect(log.wait() == [0, 1])
        }
    }

    /// On Linux, each `DispatchQueue.main` is a different object.
    @Test func `all main queue objects are treated as the same queue`() throws {
        let running = try Running()
        for _ in 0..<50 {
            let log = Log(expecting: 2)
            let (posted, isOver) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
            running.loop.perform {
                CompletionOutbox.post(to: .main) { log.note(0) }
                posted.signal()
                isOver.wait()
            }
            #expect(wait(posted))
            CompletionOutbox.post(to: .main) { log.note(1) }
            // The turn has not ended, so only the second post can have woken the queue for both.
            #expect(log.wait() == [0, 1])
            isOver.signal()
        }
        running.stop()
    }

    @Test func `a queue with a target queue preserves the order`() throws {
        let target = DispatchQueue(label: "Convoy.Tests.Target", attributes: .concurrent)
        let queue = DispatchQueue(label: "Convoy.Tests.Serial", target: target)
        let log = Log(expecting: 500)
        for number in 0..<500 { CompletionOutbox.post(to: queue) { log.note(number) } }
        #expect(log.wait() == Array(0..<500))
    }

    // MARK: Other work of the queue

    @Test func `a block does not overtake earlier work on the queue`() throws {
        let queue = DispatchQueue(label: "Convoy.Tests.Serial")
        let log = Log(expecting: 4)
        let (begun, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        CompletionOutbox.post(to: queue) {
            begun.signal()
            goOn.wait()
            log.note(0)
        }
        #expect(wait(begun))
        CompletionOutbox.post(to: queue) { log.note(1) }
        queue.async { log.note(2) }
        CompletionOutbox.post(to: queue) { log.note(3) }
        goOn.signal()
        #expect(log.wait() == [0, 1, 2, 3])
    }

    @Test func `many blocks do not starve other work on the queue`() throws {
        let queue = DispatchQueue(label: "Convoy.Tests.Serial")
        let running = try Running()
        let log = Log(expecting: 1001)
        running.loop.perform {
            for number in 0..<1000 {
                CompletionOutbox.post(to: queue) {
                    if number == 0 { queue.async { log.note(-1) } }
                    log.note(number)
                }
            }
        }
        let order = try #require(log.wait())
        #expect(try #require(order.firstIndex(of: -1)) < 200)
        #expect(order.filter { $0 >= 0 } == Array(0..<1000))
        running.stop()
    }

    // MARK: Concurrent queues

    @Test func `a block that blocks its thread does not delay others on a concurrent queue`() throws {
        let queue = DispatchQueue(label: "Convoy.Tests.Wide", attributes: .concurrent)
        let running = try Running()
        let log = Log(expecting: 60)
        running.loop.perform {
            for group in 0..<20 {
                let (one, two) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
                // These three blocks cannot finish one after another.
                CompletionOutbox.post(to: queue) {
                    log.note(one.wait(timeout: .now() + 100) == .success ? group : -1)
                }
                CompletionOutbox.post(to: queue) {
                    log.note(two.wait(timeout: .now() + 100) == .success ? group : -1)
                    one.signal()
                }
                CompletionOutbox.post(to: queue) {
                    two.signal()
                    log.note(group)
                }
            }
        }
        #expect(log.wait()?.contains(-1) == false)
        running.stop()
    }

    @Test func `blocks from many threads each run once on a concurrent queue`() throws {
        let queue = DispatchQueue(label: "Convoy.Tests.Wide", attributes: .concurrent)
        let loops = try (0..<3).map { _ in try Running() }
        let log = Log(expecting: 9000)
        for (index, running) in loops.enumerated() {
            running.loop.perform {
                for number in 0..<1500 { CompletionOutbox.post(to: queue) { log.note(index * 3000 + number) } }
            }
            Thread {
                for number in 1500..<3000 { CompletionOutbox.post(to: queue) { log.note(index * 3000 + number) } }
            }.start()
        }
        #expect(log.wait()?.sorted() == Array(0..<9000))
        for running in loops { running.stop() }
    }

    // MARK: Leftovers

    @Test func `a queue and its blocks are released after they have run`() throws {
        final class Token: Sendable { func use() {} }
        weak var queue: DispatchQueue?
        weak var token: Token?
        let running = try Running()
        do {
            let (own, held) = (DispatchQueue(label: "Convoy.Tests.Own"), Token())
            (queue, token) = (own, held)
            let log = Log(expecting: 200)
            running.loop.perform {
                for number in 0..<100 {
                    CompletionOutbox.post(to: own) {
                        held.use()
                        log.note(number)
                    }
                }
            }
            for number in 0..<100 {
                CompletionOutbox.post(to: own) {
                    held.use()
                    log.note(number)
                }
            }
            #expect(log.wait()?.count == 200)
        }
        try eventually(timeout: 20, "the queue and the blocks to be released") { queue == nil && token == nil }
        running.stop()
    }
}
