import ConvoyTestSupport
import Foundation
import Testing

/// Tests of plans with any responses of servers, in any order, and any ends of parts. Bytes of two versions are never
/// combined without a checksum, everything ends, and each claimed byte was written.
///
/// `CONVOY_SEED` repeats a run, and `CONVOY_PLAN` one of its cases. `CONVOY_PLANS` sets the number of cases.
@Suite struct DownloadPlanPropertyTests {
    private static let environment = ProcessInfo.processInfo.environment

    @Test func `a plan never combines two versions of a file and always ends`() {
        let seed = Self.environment["CONVOY_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0...0xFFFF_FFFF)
        let count = Self.environment["CONVOY_PLANS"].flatMap { Int($0) } ?? PropertyBudget.rounds(800)
        let numbers = Self.environment["CONVOY_PLAN"].flatMap { Int($0) }.map { [$0] } ?? Array(0..<count)
        var (successes, faults) = (0, 0)
        for number in numbers {
            var random = SplitMix64(seed: seed)
            var run = PlanRun(seed: random.next() ^ UInt64(number) &* 0x9E37_79B9_7F4A_7C15)
            run.run()
            successes += run.successes
            if !run.faults.isEmpty || numbers.count == 1 {
                faults += run.faults.count
                print("plan \(number): \(run.faults)\n   \(run.log.suffix(40).joined(separator: "\n   "))")
                if faults > 5 { break }
            }
        }
        print("plans: \(successes) of \(numbers.count) right, CONVOY_SEED=\(seed)")
        #expect(faults == 0, "CONVOY_SEED=\(seed)")
        #expect(numbers.count < 100 || successes > numbers.count / 3)
    }
}
