import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyOperations

/// The times at which operations may start under a rate.
@Suite struct StartRateLimiterTests {
    /// Starts as many operations as possible, and returns the times.
    private func starts(_ pace: StartRateLimiter, count: Int, from start: UInt64 = 0) -> [UInt64] {
        var (now, due) = (start, UInt64(0))
        return (0..<count).map { _ in
            let next = pace.nextStart(due, at: now)
            if next != 0 { now = next }
            due = pace.due(after: due, startAt: now)
            return now
        }
    }

    @Test func `after the burst, one operation starts in each interval`() {
        let pace = StartRateLimiter(StartRate(perSecond: 10, burst: 3))
        #expect(starts(pace, count: 6).map { $0 / 100_000_000 } == [0, 0, 0, 1, 2, 3])
        #expect(starts(StartRateLimiter(StartRate(perSecond: 4)), count: 3, from: 7) == [7, 250_000_007, 500_000_007])
        #expect(starts(StartRateLimiter(StartRate(perSecond: .infinity)), count: 3, from: 7) == [7, 7, 7])
    }

    @Test func `the intervals vary by the spread`() {
        let times = starts(StartRateLimiter(StartRate(perSecond: 10, spread: 0.5)), count: 1000)
        let gaps = zip(times, times.dropFirst()).map { $1 - $0 }
        #expect(gaps.allSatisfy { (49_999_999...150_000_001).contains($0) })
        #expect(Set(gaps).count > 100 && (90_000_000...110_000_000).contains(times[999] / 999))
        #expect(StartRate(perSecond: 1, spread: -1).spread == 0 && StartRate(perSecond: 1, spread: 7).spread == 1)
    }

    @Test func `an interval of any length is accepted`() {
        for rate in [StartRate(perSecond: 1e-300), StartRate(perSecond: 1e-300, burst: .max)] {
            let pace = StartRateLimiter(rate)
            var due: UInt64 = 0
            for _ in 0..<100 { due = pace.due(after: due, startAt: .max - 5) }
            #expect(due == .max && pace.due(limiting: due, at: .max) == .max)
            #expect(pace.nextStart(due, at: 0) >= .max - Nanoseconds.longest)
        }
    }

    @Test func `a new rate waits no longer than its own burst allows`() {
        let hourly = StartRateLimiter(StartRate(perSecond: 1.0 / 3_600))
        let due = hourly.due(after: 0, startAt: 1_000)
        let quick = StartRateLimiter(StartRate(perSecond: 10, burst: 2))
        let limited = quick.due(limiting: due, at: 1_000)
        #expect(quick.nextStart(limited, at: 1_000) == 100_001_000)
    }
}
