import ConvoyTestSupport
import Foundation
import Testing

/// Operations, their queue and their batches, in every order of what users and servers do.
///
/// `CONVOY_SCHEDULE` plays one schedule, as a test that fails has printed it; `CONVOY_SEED` draws the same scenarios again.
@Suite struct OperationOrderTests {
    private func number(_ name: String, _ usual: Int) -> Int {
        ProcessInfo.processInfo.environment[name].flatMap { Int($0) } ?? usual
    }

    @Test func `every order of a user and a server keeps all promises`() {
        var search = Search<OperationScenario>()
        let scenarios = OperationScenario.all(calls: number("CONVOY_CALLS", 2))
        let depth = number("CONVOY_DEPTH", 5)
        let start = ContinuousClock.now
        for scenario in scenarios {
            guard let finding = search.tryAll(scenario, depth: depth) else { continue }
            Issue.record("\(finding.text)")
            return
        }
        print(
            "\(scenarios.count) scenarios, \(search.plays) orders of up to \(search.mostSteps) steps, to a depth of \(depth), "
                + "in \(ContinuousClock.now - start)")
    }

    @Test func `random orders of random scenarios keep all promises`() throws {
        if let text = ProcessInfo.processInfo.environment["CONVOY_SCHEDULE"] { return try replay(text) }
        var random = SplitMix64.printingSeed()
        var search = Search<OperationScenario>()
        let start = ContinuousClock.now
        for _ in 0..<number("CONVOY_ORDERS", 2000) {
            let scenario = OperationScenario.drawn(&random)
            guard let finding = search.tryOne(scenario, &random) else { continue }
            Issue.record("\(finding.text)")
            return
        }
        print("\(search.plays) orders of up to \(search.mostSteps) steps, in \(ContinuousClock.now - start)")
    }

    private func replay(_ text: String) throws {
        let (play, _) = try Schedule<OperationScenario>(text: text).play(tells: true)
        for (index, step) in play.steps.enumerated() { print("\(index + 1). \(step)") }
        #expect(play.fault == nil)
    }

    @Test func `a schedule is played the same way each time`() {
        var random = SplitMix64.printingSeed()
        for _ in 0..<50 {
            let scenario = OperationScenario.drawn(&random)
            let picks = (0..<100).map { _ in Int.random(in: 0..<4, using: &random) }
            let (first, second) = (Schedule(scenario, picks).play(tells: true), Schedule(scenario, picks).play(tells: true))
            #expect(first.play.steps == second.play.steps)
            #expect(first.picks.map(\.of) == second.picks.map(\.of))
        }
    }
}
