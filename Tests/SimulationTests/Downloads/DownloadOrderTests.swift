import ConvoyTestSupport
import Testing

/// A download in every order of what users and a server do. Calls of the file system are not divided into steps. The
/// variables are those of `OrderTests`.
@Suite struct DownloadOrderTests {
    @Test func `every order of a user and a server keeps all promises`() {
        OrderTests.tryAll(DownloadScenario.all(calls: OrderTests.calls - 1))
    }

    @Test func `random orders of random scenarios keep all promises`() throws {
        try OrderTests.tryRandom(share: 4, DownloadScenario.drawn)
    }
}
