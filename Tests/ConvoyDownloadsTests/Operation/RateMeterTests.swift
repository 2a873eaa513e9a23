import Testing

@testable import ConvoyDownloads

struct RateMeterTests {
    private let second: UInt64 = 1_000_000_000

    @Test func theRateIsThatOfTheLastSecondsAndFallsWhenNothingComes() throws {
        var meter = RateMeter()
        meter.begin(at: second)
        #expect(meter.rate(at: second + 100_000_000) == nil)
        for step in 0..<100 { meter.note(1_000, at: second + UInt64(step) * 100_000_000) }
        let rate = try #require(meter.rate(at: second * 11))
        #expect((9_000...11_000).contains(rate))
        let later = try #require(meter.rate(at: second * 13))
        #expect((5_000...7_000).contains(later))
        #expect(meter.rate(at: second * 30) == 0)
        // After a pause, the time before it does not count.
        meter.begin(at: second * 40)
        meter.note(500, at: second * 40)
        #expect(meter.rate(at: second * 41) == 500)
    }
}
