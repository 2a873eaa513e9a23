import ConvoyTestSupport
import Foundation
import Synchronization
import Testing

@testable import ConvoySupport

/// Threads for calls that may block.
@Suite struct BlockingWorkersTests {
    /// Counts the live objects of a kind.
    private final class Token: Sendable {
        private let count: Counter
        init(_ count: Counter) {
            self.count = count
            count.value.add(1, ordering: .sequentiallyConsistent)
        }
        deinit { count.value.subtract(1, ordering: .sequentiallyConsistent) }
        func use() {}
    }

    private final class Counter: Sendable { let value = Atomic<Int>(0) }

    @Test func `sixty-four blocked calls do not delay the sixty-fifth`() {
        let workers = BlockingWorkers.shared
        let (blocked, goOn, ran) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        for _ in 0..<100 {
            workers.perform {
                blocked.signal()
                goOn.wait()
            }
        }
        for _ in 0..<100 { #expect(blocked.wait(timeout: .now() + 100) == .success) }
        workers.perform { ran.signal() }
        #expect(ran.wait(timeout: .now() + 100) == .success)
        for _ in 0..<100 { goOn.signal() }
    }

    @Test func `a finished call is released even if other calls are always waiting`() {
        let workers = BlockingWorkers(limit: 1)
        let counter = Counter()
        let steps = DispatchSemaphore(value: 0)
        let most = Locked(0)
        // Each job adds the next two, so that the queue stays non-empty until the end.
        @Sendable func add(_ left: Int) {
            let token = Token(counter)
            workers.perform {
                token.use()
                let now = counter.value.load(ordering: .sequentiallyConsistent)
                most.withLock { $0 = max($0, now) }
                if left > 0 { add(left - 1) } else { steps.signal() }
            }
        }
        for _ in 0..<3 { add(20_000) }
        for _ in 0..<3 { #expect(steps.wait(timeout: .now() + 100) == .success) }
        #expect(most.withLock { $0 } < 10)
    }

    // MARK: Abandoned calls

    @Test func `threads of abandoned calls are replaced, and end when the calls return`() {
        let workers = BlockingWorkers(limit: 2)
        let (entered, goOn, returned) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        for _ in 0..<20 {
            let calls = [BlockingCall(), BlockingCall()]
            for call in calls {
                workers.perform(call) {
                    entered.signal()
                    goOn.wait()
                    #expect(!call.finish())
                    returned.signal()
                }
            }
            for _ in calls { #expect(entered.wait(timeout: .now() + 100) == .success) }
            // No job behind the blocked ones runs until they are abandoned.
            let (other, ran) = (BlockingCall(), DispatchSemaphore(value: 0))
            workers.perform(other) { if other.finish() { ran.signal() } }
            for call in calls {
                #expect(call.giveUp() && call.isAbandoned && !call.giveUp())
                workers.replaceThread(of: call)
            }
            #expect(ran.wait(timeout: .now() + 100) == .success)
        }
        for _ in 0..<40 { goOn.signal() }
        for _ in 0..<40 { #expect(returned.wait(timeout: .now() + 100) == .success) }
        // The remaining threads do not exceed the limit, and run the jobs.
        let both = DispatchSemaphore(value: 0)
        for _ in 0..<2 { workers.perform { both.signal() } }
        for _ in 0..<2 { #expect(both.wait(timeout: .now() + 100) == .success) }
    }

    @Test func `a call that is abandoned before a thread takes it never runs`() {
        let workers = BlockingWorkers(limit: 1)
        let (goOn, done) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        workers.perform { goOn.wait() }
        let wasMade = Locked(false)
        let call = BlockingCall()
        workers.perform(call) { wasMade.withLock { $0 = true } }
        #expect(call.giveUp() && call.isWithdrawn && !call.isAbandoned)
        workers.replaceThread(of: call)
        workers.perform { done.signal() }
        goOn.signal()
        #expect(done.wait(timeout: .now() + 100) == .success)
        #expect(!wasMade.withLock { $0 })
    }

    @Test func `a call that ends while it is abandoned has one outcome`() async {
        for _ in 0..<2_000 {
            let call = BlockingCall()
            _ = call.begin()
            async let isFinished = Task.detached { call.finish() }.value
            async let isGivenUp = Task.detached { call.giveUp() }.value
            let outcomes = await (isFinished, isGivenUp)
            #expect(outcomes.0 != outcomes.1)
        }
    }

    // MARK: Failing thread creation

    /// Creates a limited number of threads, and then fails until more are allowed.
    private final class Threads: Sendable {
        let left: Locked<Int>
        init(_ count: Int) { left = Locked(count) }

        func make(_ body: @escaping @Sendable () -> Void) throws {
            let isAllowed = left.withLock { left in
                left -= 1
                return left >= 0
            }
            guard isAllowed else { throw SystemError(code: EAGAIN) }
            try SystemThread.start(name: "Convoy.Worker", stackSize: 1 << 19, body)
        }
    }

    @Test func `the existing threads do all the work if no more can be created`() {
        let threads = Threads(2)
        let workers = BlockingWorkers(limit: 100) { try threads.make($0) }
        let ran = DispatchSemaphore(value: 0)
        for _ in 0..<1000 { workers.perform { ran.signal() } }
        for _ in 0..<1000 { #expect(ran.wait(timeout: .now() + 100) == .success) }
    }

    @Test func `no work is lost if no thread can be created`() {
        let workers = BlockingWorkers(limit: 100) { _ in throw SystemError(code: EAGAIN) }
        let ran = DispatchSemaphore(value: 0)
        for _ in 0..<1000 { workers.perform { ran.signal() } }
        for _ in 0..<1000 { #expect(ran.wait(timeout: .now() + 100) == .success) }
    }

    @Test func `threads are created again once the system allows it`() {
        let threads = Threads(1)
        let workers = BlockingWorkers(limit: 100) { try threads.make($0) }
        let (begun, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        for _ in 0..<3 {
            workers.perform {
                begun.signal()
                goOn.wait()
            }
        }
        #expect(begun.wait(timeout: .now() + 100) == .success)
        threads.left.withLock { $0 = 100 }
        // The first job ends, and the thread that takes the second one starts a thread for the third.
        goOn.signal()
        for _ in 0..<2 { #expect(begun.wait(timeout: .now() + 100) == .success) }
        for _ in 0..<2 { goOn.signal() }
    }

    @Test func `starting a thread that cannot be created fails`() {
        final class Flag: Sendable { let isSet = Atomic<Bool>(false) }
        let flag = Flag()
        // The stack size exceeds the address space.
        let failure = #expect(throws: SystemError.self) {
            try SystemThread.start(name: "Convoy.Test", stackSize: 1 << 50) { flag.isSet.store(true, ordering: .relaxed) }
        }
        #expect(failure != nil && !flag.isSet.load(ordering: .relaxed))
    }

    // MARK: Number of threads

    @Test func `many short calls need few threads`() {
        let made = Counter()
        let workers = BlockingWorkers(limit: 1024) {
            made.value.add(1, ordering: .relaxed)
            try SystemThread.start(name: "Convoy.Worker", stackSize: 1 << 19, $0)
        }
        let ran = DispatchSemaphore(value: 0)
        for _ in 0..<1000 {
            workers.perform { ran.signal() }
            #expect(ran.wait(timeout: .now() + 100) == .success)
        }
        #expect(made.value.load(ordering: .relaxed) < 50)
    }
}
