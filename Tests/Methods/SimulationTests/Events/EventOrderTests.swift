import ConvoyTestSupport
import Testing

/// An event source with every order of user calls and server events. The variables are those of `OrderTests`.
@Suite struct EventOrderTests {
    @Test func `every order of user and server events upholds all guarantees`() {
        OrderTests.tryAll(EventScenario.all(calls: OrderTests.calls - 1))
    }

    @Test func `random orders of random scenarios uphold all guarantees`() throws {
        try OrderTests.tryRandom(share: 4, EventScenario.drawn)
    }
}
