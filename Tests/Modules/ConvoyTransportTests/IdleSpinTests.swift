import Testing

@testable import ConvoyTransport

@Suite struct IdleSpinTests {
    private var lingering = IdleSpin()
    private var now: UInt64 = 1_000_000_000

    /// Passes work to another thread and gets a response after a delay in nanoseconds. Returns how long the loop would
    /// have polled.
    private mutating func exchange(taking time: UInt64) -> UInt64 {
        lingering.begin(at: now)
        var looked: UInt64 = 0
        while looked <= 2 * IdleSpin.limit, lingering.goesOn(at: now + looked) { looked += 1_000 }
        now += time
        lingering.noteArrival(at: now)
        return looked
    }

    @Test mutating func `the loop polls slightly longer than responses usually take`() {
        for _ in 0..<50 { _ = exchange(taking: 20_000) }
        let short = exchange(taking: 20_000)
        #expect((25_000...40_000).contains(short))
        for _ in 0..<50 { _ = exchange(taking: 60_000) }
        let long = exchange(taking: 60_000)
        #expect((70_000...IdleSpin.limit).contains(long))
    }

    @Test mutating func `the loop stops polling while responses are slow and starts again when they are fast`() {
        for _ in 0..<50 { _ = exchange(taking: 5_000_000) }
        let slow = exchange(taking: 5_000_000)
        #expect(slow == 0)
        for _ in 0..<50 { _ = exchange(taking: 10_000) }
        let quick = exchange(taking: 10_000)
        #expect(quick > 10_000)
    }

    @Test mutating func `the loop neither polls nor updates its estimate if it has handed over no work`() {
        let expected = lingering.expected
        lingering.noteArrival(at: now)
        let looks = lingering.goesOn(at: now)
        #expect(!looks && lingering.expected == expected)
        _ = exchange(taking: 10_000)
        let looksAgain = lingering.goesOn(at: now)
        #expect(!looksAgain)
    }

    @Test mutating func `a clock that stops or goes backwards does not extend polling beyond its limit`() {
        lingering.begin(at: now)
        lingering.noteArrival(at: now - 1)
        let looked = exchange(taking: 0)
        #expect(looked <= IdleSpin.limit)
    }
}
