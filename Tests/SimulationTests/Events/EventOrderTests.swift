import ConvoyTestSupport
import Testing

/// An event source in every order of what users and a server do. The variables are those of `OrderTests`.
@Suite struct EventOrderTests {
    @Test func `every order of a user and a server keeps all promises`() {
        OrderTests.tryAll(EventScenario.all(calls: OrderTests.calls - 1))
    }

    @Test func `random orders of random scenarios keep all promises`() throws {
        try OrderTests.tryRandom(share: 4, EventScenario.drawn)
    }
}
