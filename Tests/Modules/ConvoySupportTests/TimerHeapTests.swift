import ConvoyTestSupport
import Testing

@testable import ConvoySupport

struct TimerHeapTests {
    @Test func `timers fire in the order of their deadlines, and none too early`() {
        var heap = TimerHeap()
        let timers = [30, 10, 20, 50, 40].map { (RunLoopTimer {}, MonotonicTime($0)) }
        for (timer, deadline) in timers { heap.schedule(timer, at: deadline) }
        #expect(heap.nextDeadline == 10)
        var deadlines: [MonotonicTime] = []
        while let timer = heap.popDue(now: 40) { deadlines.append(timer.deadline) }
        #expect(deadlines == [10, 20, 30, 40])
        #expect(heap.count == 1)
    }

    @Test func `a moved or cancelled timer leaves nothing behind`() {
        var heap = TimerHeap()
        let moved = RunLoopTimer {}, cancelled = RunLoopTimer {}, other = RunLoopTimer {}
        heap.schedule(moved, at: 1)
        heap.schedule(cancelled, at: 2)
        heap.schedule(other, at: 3)
        heap.schedule(moved, at: 4)
        heap.cancel(cancelled)
        heap.cancel(cancelled)
        #expect(!cancelled.isScheduled && heap.count == 2)
        #expect(heap.popDue(now: 10) === other)
        #expect(heap.popDue(now: 10) === moved)
        #expect(heap.popDue(now: 10) == nil && heap.nextDeadline == nil)
    }

    @Test func `the earliest timer is on top in any order of scheduling and cancelling`() {
        var random = SplitMix64(seed: 1)
        var heap = TimerHeap()
        let timers = (0..<50).map { _ in RunLoopTimer {} }
        for _ in 0..<5_000 {
            let timer = timers[Int.random(in: 0..<timers.count, using: &random)]
            if Bool.random(using: &random) {
                heap.schedule(timer, at: .random(in: 0..<1000, using: &random))
            } else {
                heap.cancel(timer)
            }
            let scheduled = timers.filter(\.isScheduled)
            #expect(heap.count == scheduled.count)
            #expect(heap.nextDeadline == scheduled.map(\.deadline).min())
        }
    }
}
