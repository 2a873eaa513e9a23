import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTransport

/// The number of bytes that may pass, in simulated time.
@Suite struct TokenBucketTests {
    private static let second: MonotonicTime = 1_000_000_000

    /// Takes blocks whenever that is allowed, at random times. Returns the number of bytes and seconds, and the largest
    /// excess over the rate.
    private func run(
        rate: Int64, seconds: Double, largestBlock: Int, largestPause: MonotonicTime, _ random: inout SplitMix64
    ) -> (passed: Double, elapsed: Double, excess: Double) {
        var now: MonotonicTime = 77
        var bucket = TokenBucket(rate: rate, at: now)
        let start = now
        var (passed, excess) = (0.0, -Double.infinity)
        while Double(now - start) / 1e9 < seconds {
            if bucket.isOpen(at: now) {
                let block = Double(Int.random(in: 1...largestBlock, using: &random))
                bucket.take(block)
                passed += block
                excess = max(excess, passed - Double(rate) * Double(now - start) / 1e9)
            } else if let next = bucket.timeOfTurn(at: now) {
                now = max(next, now + .random(in: 0...largestPause, using: &random))
            }
        }
        return (passed, Double(now - start) / 1e9, excess)
    }

    @Test(arguments: [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000] as [Int64])
    func `the bytes passed never exceed the rate by more than the burst and one block`(rate: Int64) {
        var random = SplitMix64.printingSeed()
        for largestBlock in [1, 1_024, 16 << 10] where rate / Int64(largestBlock) < 1_000_000 {
            let run = run(rate: rate, seconds: 5, largestBlock: largestBlock, largestPause: 50_000_000, &random)
            #expect(run.excess <= Double(rate) / 8 + Double(largestBlock) + 1)
        }
    }

    @Test(arguments: [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000] as [Int64])
    func `the average matches the rate if the thread is late by up to 0.1 seconds`(rate: Int64) {
        var random = SplitMix64.printingSeed()
        // Blocks of a fiftieth of a second, as chosen by the transport.
        let block = Int(min(16 << 10, max(1_024, rate / 50)))
        let run = run(rate: rate, seconds: 10, largestBlock: block, largestPause: 100_000_000, &random)
        #expect(abs(run.passed / run.elapsed / Double(rate) - 1) < 0.05)
    }

    @Test func `a turn is available at its announced time and not before`() throws {
        var random = SplitMix64.printingSeed()
        for _ in 0..<10_000 {
            let largest = Int64(1) << Int64.random(in: 1...40, using: &random)
            let rate = Int64.random(in: 1...largest, using: &random)
            let now = MonotonicTime.random(in: 0...(1 << 60), using: &random)
            var bucket = TokenBucket(rate: rate, at: now)
            bucket.take(bucket.burst + Double(Int.random(in: 0...100_000, using: &random)))
            let announced = bucket.timeOfTurn(at: now)
            let time = try #require(announced)
            var early = bucket
            let (isEarly, isThere) = (early.hasTurn(at: now + (time - now) / 2), bucket.hasTurn(at: time))
            #expect(time > now && !isEarly && isThere)
        }
    }

    @Test func `a turn that lacks half a byte becomes available after the time for half a byte`() throws {
        var bucket = TokenBucket(rate: 100, at: 0)
        bucket.take(bucket.burst - 0.5)
        let announced = bucket.timeOfTurn(at: 0)
        let time = try #require(announced)
        #expect(bucket.turn == 1 && (5_000_000..<6_000_000).contains(time))
    }

    @Test func `a transfer that takes turns wakes its thread at most 100 times per second`() {
        for rate in [10_000, 1_000_000, 100_000_000] as [Int64] {
            var now: MonotonicTime = 0
            var bucket = TokenBucket(rate: rate, at: now)
            var turns = 0
            while now < 10 * Self.second, let time = bucket.timeOfTurn(at: now) {
                now = max(now, time)
                turns += 1
                bucket.take(max(bucket.turn, 1_024))
            }
            #expect(turns <= 10 * 100 + 13)
        }
    }

    @Test func `everything passes without a limit, and nothing with a limit of zero`() {
        var none = TokenBucket(rate: nil, at: 5)
        none.take(1e18)
        let (isOpen, hasTurn, time) = (none.isOpen(at: 5), none.hasTurn(at: 5), none.timeOfTurn(at: 5))
        #expect(isOpen && hasTurn && time == 5)
        for rate in [0, -1, .min] as [Int64] {
            var zero = TokenBucket(rate: rate, at: 5)
            let (isOpen, hasTurn, time) = (zero.isOpen(at: .max), zero.hasTurn(at: .max), zero.timeOfTurn(at: .max))
            #expect(!isOpen && !hasTurn && time == nil)
        }
    }

    @Test func `a lower rate forfeits savings, and a higher one pays debt sooner`() {
        var bucket = TokenBucket(rate: 80_000_000, at: 0)
        #expect(bucket.balance == 10_000_000)
        bucket.setRate(8_000, at: 0)
        #expect(bucket.balance == 1_000)
        bucket.take(9_000)
        let slow = bucket.timeOfTurn(at: 0) ?? 0
        bucket.setRate(80_000, at: 0)
        let fast = bucket.timeOfTurn(at: 0) ?? .max
        #expect(bucket.balance == -8_000 && slow > Self.second && fast < slow / 5)
    }

    @Test func `a limit that is set again starts without debt`() {
        var bucket = TokenBucket(rate: 1_000, at: 0)
        bucket.take(1_000_000)
        bucket.setRate(nil, at: 0)
        bucket.setRate(1_000, at: 0)
        let isOpen = bucket.isOpen(at: 0)
        #expect(isOpen && bucket.balance == bucket.burst)
    }

    @Test func `extreme numbers do not overflow`() {
        for rate in [1, 2, .max] as [Int64] {
            var bucket = TokenBucket(rate: rate, at: .max)
            bucket.take(1e30)
            let time = bucket.timeOfTurn(at: .max)
            bucket.giveBack(1e31)
            let hasTurn = bucket.hasTurn(at: 0)
            #expect(time == .max && bucket.balance == bucket.burst && hasTurn)
        }
    }
}
