import Testing

@testable import ConvoyTransport

/// The decision to stop reading the rest of a response that does not affect the result.
@Suite struct DrainMeterTests {
    private let second: UInt64 = 1_000_000_000

    @Test func `an unneeded body is read for one short interval, regardless of its rate`() {
        var meter = DrainMeter(.unneeded, at: 5)
        let answer1 = meter.take(60 << 10)
        #expect(answer1)
        let answer2 = meter.isOver(at: meter.deadline - 1)
        #expect(!answer2)
        let answer3 = meter.isOver(at: meter.deadline)
        #expect(answer3)
    }

    @Test func `an error body is read while bytes arrive, up to a time limit`() {
        var meter = DrainMeter(.error, at: 0)
        for interval in 1..<UInt64(DrainLimit.error.intervals) {
            let answer4 = meter.take(1 << 10)
            #expect(answer4)
            let answer5 = meter.isOver(at: interval * second)
            #expect(!answer5)
        }
        let answer6 = meter.take(1 << 10)
        #expect(answer6)
        let answer7 = meter.isOver(at: UInt64(DrainLimit.error.intervals) * second)
        #expect(answer7)
    }

    @Test func `reading stops after an interval with too few bytes`() {
        var meter = DrainMeter(.error, at: 0)
        let answer8 = meter.take(500_000)
        #expect(answer8)
        let answer9 = meter.isOver(at: second)
        #expect(!answer9)
        let answer10 = meter.take(1023)
        #expect(answer10)
        let answer11 = meter.isOver(at: 2 * second)
        #expect(answer11)
    }

    @Test func `time during which the client is paused does not count`() {
        var meter = DrainMeter(.error, at: 0)
        meter.postpone(to: second)
        let answer12 = meter.isOver(at: second)
        #expect(!answer12)
        #expect(meter.deadline == 2 * second)
    }

    @Test func `bytes beyond the limit are neither read nor counted`() {
        var meter = DrainMeter(.error, at: 0)
        let answer13 = meter.take(1 << 20)
        #expect(answer13)
        let answer14 = meter.take(1)
        #expect(!answer14)
        #expect(meter.isExhausted)
        #expect(meter.received == 1 << 20)
        let answer15 = meter.take(0)
        #expect(!answer15)
    }
}
