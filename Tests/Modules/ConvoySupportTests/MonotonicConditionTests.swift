import ConvoySupport
import Foundation
import Testing

@Suite struct MonotonicConditionTests {
    @Test func `a wait ends at its time, and reports that`() {
        let condition = MonotonicCondition(), start = MonotonicClock.now
        condition.lock()
        while condition.wait(until: start + 50_000_000) {}
        condition.unlock()
        #expect(MonotonicClock.now >= start + 50_000_000)
        condition.lock()
        #expect(!condition.wait(until: 0))
        condition.unlock()
    }

    @Test func `a signal ends a wait`() {
        let condition = MonotonicCondition(), isDone = Locked(false)
        Thread.detachNewThread {
            condition.lock()
            isDone.withLock { $0 = true }
            condition.broadcast()
            condition.unlock()
        }
        condition.lock()
        while !isDone.withLock({ $0 }) { _ = condition.wait(until: .max) }
        condition.unlock()
    }
}
