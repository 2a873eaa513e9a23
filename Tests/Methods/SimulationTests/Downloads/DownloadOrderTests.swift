import ConvoyTestSupport
import Testing

/// A download with every order of user calls and server events. File system calls are not divided into steps. The
/// variables are those of `OrderTests`.
@Suite struct DownloadOrderTests {
    @Test func `every order of user and server events upholds all guarantees`() {
        OrderTests.tryAll(DownloadScenario.all(calls: OrderTests.calls - 1))
    }

    @Test func `random orders of random scenarios uphold all guarantees`() throws {
        try OrderTests.tryRandom(share: 4, DownloadScenario.drawn)
    }

    /// All bytes have arrived, so the other part is stopped. Then no piece is correct.
    @Test func `a connection stopped by the download itself is not the reason for a failure`() {
        var scenario = DownloadScenario(replies: [], users: [[.start, .resume], [.resume]])
        (scenario.segments, scenario.hasWrongPieces) = (2, true)
        let (play, _) = Schedule(scenario, [0, 0, 0, 0, 0, 1, 2, 3]).play()
        #expect(play.fault == nil)
    }

    /// A paused download of a changed file has fewer bytes of the new version than of the old one, which is kept until
    /// it has more.
    @Test func `bytes that cannot be claimed yet are not synchronized repeatedly`() throws {
        var scenario = DownloadScenario(replies: [.lost, .changed], users: [[.start, .pause, .pause, .resume, .pause]])
        (scenario.segments, scenario.isLate) = (3, true)
        let picks = [0, 0, 0, 1, 0, 2] + [Int](repeating: 0, count: 17) + [1, 1, 1, 1, 1]
        let (play, _) = Schedule(scenario, picks).play()
        #expect(play.fault == nil)
    }
}
