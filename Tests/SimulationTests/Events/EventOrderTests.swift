import ConvoyTestSupport
import Testing

/// An event source with every order of user calls and server events. The variables are those of `OrderTests`.
@Suite struct EventOrderTests {
    @Test func `every order of user and server events keeps all promises`() {
        OrderTests.tryAll(EventScenario.all(calls: OrderTests.calls - 1))
    }

    @Test func `random orders of random scenarios keep all promises`() throws {
        try OrderTests.tryRandom(share: 4, EventScenario.drawn)
    }
}
