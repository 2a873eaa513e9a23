import ConvoyTestSupport
import Testing

/// Operations, their queue and their batches, with every order of user calls and server events. The variables are those
/// of `OrderTests`.
@Suite struct OperationOrderTests {
    @Test func `every order of user and server events upholds all guarantees`() {
        OrderTests.tryAll(OperationScenario.all(calls: OrderTests.calls))
    }

    @Test func `random orders of random scenarios uphold all guarantees`() throws {
        try OrderTests.tryRandom(OperationScenario.drawn)
    }

    @Test func `a schedule is replayed in the same way each time`() {
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
