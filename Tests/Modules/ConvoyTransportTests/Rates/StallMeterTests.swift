import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTransport

/// Stall detection in simulated time.
@Suite struct StallMeterTests {
    private static let millisecond: MonotonicTime = 1_000_000
    private let limit = StallLimit(bytesPerSecond: 1_000, duration: 5)

    /// Moves bytes every ten milliseconds, at a rate that depends on the time in seconds, until the transfer stalls.
    ///
    /// - Returns: The time in seconds; nil if it did not stall.
    private func stalls(within seconds: Double, _ rate: (Double) -> Double) throws -> Double? {
        var meter = try #require(StallMeter(limit, at: 0))
        meter.setCounting(true, at: 0)
        var now: MonotonicTime = 0
        var rest = 0.0
        while Double(now) / 1e9 < seconds {
            now += 10 * Self.millisecond
            rest += rate(Double(now) / 1e9) / 100
            meter.add(Int(rest))
            rest -= rest.rounded(.down)
            meter.advance(to: now)
            if meter.isStalled { return Double(now) / 1e9 }
        }
        return nil
    }

    @Test func `a transfer slightly faster than the limit never stalls`() throws {
        #expect(try stalls(within: 100) { _ in 1_010 } == nil)
        // All bytes arrive in one second of four, because only the average counts.
        #expect(try stalls(within: 100) { $0.truncatingRemainder(dividingBy: 4) < 1 ? 6_000 : 0 } == nil)
    }

    @Test func `a transfer that is too slow from the start stalls after the limit's duration`() throws {
        #expect(try stalls(within: 100) { _ in 990 } == 5)
        #expect(try stalls(within: 100) { _ in 0 } == 5)
    }

    @Test func `a transfer that stops later stalls within 1.1 times the duration`() throws {
        let time = try #require(try stalls(within: 100) { $0 < 20.2 ? 1_000_000 : 0 })
        #expect(time >= 25.2 && time <= 25.7)
    }

    @Test func `uncounted time has no effect`() throws {
        var random = SplitMix64.printingSeed()
        for _ in 0..<100 {
            var meter = try #require(StallMeter(limit, at: 0))
            var (now, counted): (MonotonicTime, MonotonicTime) = (0, 0)
            var isCounting = false
            while !meter.isStalled {
                // Advance time in small steps, because a timer fires at the end of each part.
                let step = min(
                    .random(in: 1...(400 * Self.millisecond), using: &random), meter.nextCheck.map { $0 - now } ?? .max)
                now += step
                if isCounting { counted += step }
                #expect(counted <= 5_000 * Self.millisecond)
                if Bool.random(using: &random) { isCounting.toggle() }
                meter.setCounting(isCounting, at: now)
                #expect(meter.isCounting == isCounting && (meter.nextCheck != nil) == isCounting)
            }
            #expect(counted == 5_000 * Self.millisecond)
        }
    }

    @Test func `a program that was asleep does not report a stall`() throws {
        var meter = try #require(StallMeter(limit, at: 0))
        meter.setCounting(true, at: 0)
        for hour in 1...9 {
            meter.advance(to: MonotonicTime(hour) * 3_600_000 * Self.millisecond)
            #expect(!meter.isStalled)
        }
        meter.add(5_000)
        meter.advance(to: 36_000_000 * Self.millisecond)
        #expect(!meter.isStalled)
    }

    @Test(
        arguments: [
            (0, 1), (-1, 1), (1, 0), (1, -1), (1, .nan), (1, .infinity), (1, 1e300),
        ] as [(Int64, Double)])
    func `a limit that is invalid or cannot be violated is ignored`(bytes: Int64, seconds: Double) {
        #expect(StallMeter(StallLimit(bytesPerSecond: bytes, duration: seconds), at: 0) == nil)
    }

    @Test func `extreme numbers do not overflow`() throws {
        for seconds in [1e-300, 1e-9, 9e8] {
            var meter = try #require(StallMeter(StallLimit(bytesPerSecond: .max, duration: seconds), at: 0))
            meter.setCounting(true, at: 0)
            for _ in 0..<30 { meter.add(.max) }
            meter.advance(to: .max)
            #expect(!meter.isStalled && (meter.nextCheck ?? 0) != .max - 1)
        }
    }
}
