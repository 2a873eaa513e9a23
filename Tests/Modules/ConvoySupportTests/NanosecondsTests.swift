import Foundation
import Testing

@testable import ConvoySupport

struct NanosecondsTests {
    @Test(
        arguments: [
            (0, 0), (-0.0, 0), (1, 1_000_000_000), (0.25, 250_000_000), (1e-10, 0), (-1, 0), (-.infinity, 0), (.nan, 0),
            (.signalingNaN, 0), (-1e300, 0), (999_999_999, 999_999_999_000_000_000), (1e9, Nanoseconds.longest),
            (1e11, Nanoseconds.longest), (1e300, Nanoseconds.longest), (.infinity, Nanoseconds.longest),
            (.greatestFiniteMagnitude, Nanoseconds.longest), (Double(UInt64.max), Nanoseconds.longest),
            (.leastNonzeroMagnitude, 0), ((1e9 as Double).nextDown, 999_999_999_999_999_872),
        ] as [(Double, UInt64)])
    func `any number of seconds is converted without a trap`(seconds: Double, nanoseconds: UInt64) {
        #expect(Nanoseconds.clamping(seconds: seconds) == nanoseconds)
    }

    @Test(arguments: [0, 1, .nan, -5, .infinity, 1e300] as [Double])
    func `a deadline is never before now`(seconds: Double) {
        for now in [0, 1, UInt64.max / 2, .max - 1, .max] as [UInt64] {
            #expect(Nanoseconds.deadline(seconds, after: now) >= now)
        }
        #expect(Nanoseconds.deadline(2, after: 5) == 2_000_000_005)
        #expect(Nanoseconds.deadline(.infinity, after: .max - 3) == .max)
    }

    @Test func `the distance between times in the wrong order is zero`() {
        #expect(Nanoseconds.seconds(from: 1, to: 500_000_001) == 0.5)
        #expect(Nanoseconds.seconds(from: 2, to: 1) == 0)
        #expect(Nanoseconds.seconds(from: .max, to: 0) == 0)
    }
}
