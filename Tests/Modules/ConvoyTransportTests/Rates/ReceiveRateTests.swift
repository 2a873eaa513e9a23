import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests of real transfers with limited receiving. They tolerate a slow machine, which only makes transfers slower.
@Suite struct ReceiveRateTests {
    let server: TestServer
    private static let size = 1_000_000
    /// The maximum size of a block passed on by libcurl.
    private static let block = 16 << 10

    init() throws {
        server = try TestServer()
        server.route("/body", .pattern(count: Self.size))
    }

    private var request: URLRequest { URLRequest(url: server.url("/body")) }

    private func isWithin(_ rate: Int, _ pace: PaceRecorder.Pace) -> Bool {
        PaceRecorder.Pace.excess(of: pace.received, over: Double(rate), since: pace.start)
            <= Double(rate) / 8 + Double(Self.block)
    }

    @Test(arguments: [1_024, 32 << 10, 512 << 10], [800_000, 8_000_000])
    func `a transfer never exceeds its limit and arrives completely`(bufferSize: Int, rate: Int) throws {
        let recorder = PaceRecorder()
        start(request, receiving: [RateLimit(bytesPerSecond: Int64(rate))], to: recorder) {
            $0.receiveBufferSize = bufferSize
        }
        let pace = try #require(recorder.wait())
        #expect(pace.isFinished && pace.isRight && pace.receivedTotal == Self.size)
        #expect(isWithin(rate, pace))
    }

    @Test(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"), arguments: [true, false], [1_000_000, 6_000_000])
    func `the limit also applies over TLS`(usesHTTP2: Bool, rate: Int) throws {
        let nginx = try Nginx()
        try nginx.add(PatternBytes.data(count: Self.size), as: "body")
        let limit = RateLimit(bytesPerSecond: Int64(rate))
        let recorders = (0..<3).map { _ in PaceRecorder() }
        let begin = MonotonicClock.now
        for recorder in recorders {
            start(URLRequest(url: nginx.secureURL("body")), receiving: [limit], to: recorder) {
                $0.certificateAuthorities = nginx.certificateAuthority
                $0.usesHTTP2 = usesHTTP2
            }
        }
        for recorder in recorders {
            let pace = try #require(recorder.wait())
            #expect(pace.isFinished && pace.isRight && pace.receivedTotal == Self.size)
        }
        let seconds = Double(MonotonicClock.now - begin) / 1e9
        #expect(Double(3 * Self.size) <= Double(rate) * (seconds + 1.0 / 8) + Double(Self.block))
    }

    @Test(arguments: [1, 3])
    func `transfers that share a limit stay within it together, and none starves`(threadCount: Int) throws {
        let threads = (0..<threadCount).map { _ in NetworkThread() }
        let rate = 4_000_000
        let limit = RateLimit(bytesPerSecond: Int64(rate))
        let start = MonotonicClock.now
        let recorders = (0..<6).map { _ in PaceRecorder() }
        for (index, recorder) in recorders.enumerated() {
            ConvoyTransportTests.start(request, receiving: [limit], thread: threads[index % threadCount], to: recorder)
        }
        let paces = try recorders.map { try #require($0.wait()) }
        #expect(paces.allSatisfy { $0.isFinished && $0.isRight && $0.receivedTotal == Self.size })
        // The bytes of all transfers together, sorted by time, stay within the limit.
        var total = 0
        var excess = -Double.infinity
        let steps = paces.flatMap { pace in
            zip(pace.received, [0] + pace.received.map(\.total)).map { ($0.time, $0.total - $1) }
        }
        for (time, count) in steps.sorted(by: { $0.0 < $1.0 }) {
            total += count
            excess = max(excess, Double(total) - Double(rate) * Double(time - start) / 1e9)
        }
        // A grant on one thread may be recorded slightly later than a subsequent grant on another.
        #expect(excess <= Double(rate) / 8 + Double(Self.block * 6))
        // When the first transfer was done, the others had made good progress, because they took turns.
        let first = paces.compactMap { $0.received.last?.time }.min() ?? 0
        for pace in paces {
            let then = pace.received.last { $0.time <= first }?.total ?? 0
            #expect(then > Self.size / 3)
        }
        #expect(limit.waiterCount == 0)
    }

    @Test func `the strictest of several limits applies, and a duplicate counts once`() throws {
        let (loose, strict) = (RateLimit(bytesPerSecond: 50_000_000), RateLimit(bytesPerSecond: 2_000_000))
        for limits in [[loose, strict], [strict, loose], [RateLimit(), strict]] {
            let recorder = PaceRecorder()
            start(request, receiving: limits, to: recorder)
            let pace = try #require(recorder.wait())
            #expect(pace.isFinished && isWithin(2_000_000, pace))
        }
        // If the limit was in the list twice, the first would take all savings, and the second the same amount on
        // credit.
        let limit = RateLimit(bytesPerSecond: 8_000_000)
        let twice = TransferThrottle(limits: [limit, limit], thread: .shared) {}
        #expect(twice.admits(900_000))
        twice.use(900_000)
        twice.leave()
        let next = TransferThrottle(limits: [limit], thread: .shared) {}
        #expect(next.admits(1))
    }

    @Test func `a limit of zero suspends a transfer until the limit is removed`() throws {
        let limit = RateLimit(bytesPerSecond: 0)
        let recorder = PaceRecorder()
        let connection = start(request, receiving: [limit], to: recorder)
        try eventually(timeout: 60, "the transfer waits") { limit.waiterCount == 1 }
        // Resuming by the delegate does not lift the limit.
        connection.resumeReceiving()
        connection.thread.perform { recorder.noteTurn() }
        try eventually(timeout: 60, "a turn of the thread") { recorder.turns > 0 }
        #expect(recorder.paceSoFar.hasHead && recorder.paceSoFar.receivedTotal == 0 && limit.waiterCount == 1)
        limit.bytesPerSecond = nil
        let pace = try #require(recorder.wait())
        #expect(pace.isFinished && pace.isRight && pace.receivedTotal == Self.size && limit.waiterCount == 0)
    }

    @Test func `a rate change applies to transfers in progress`() throws {
        let limit = RateLimit(bytesPerSecond: 1)
        let recorder = PaceRecorder()
        start(request, receiving: [limit], to: recorder)
        try eventually(timeout: 60, "the transfer waits") { limit.waiterCount == 1 }
        // At the old rate, the transfer would take more than a week.
        limit.bytesPerSecond = 10_000_000
        #expect(recorder.wait()?.isFinished == true)

        // Conversely, an unlimited transfer gets a limit.
        let gate = TestServer.Gate()
        server.route("/held", .pattern(count: Self.size).heldBody(by: gate, afterBytes: 1_000))
        let (late, second) = (RateLimit(), PaceRecorder())
        let connection = start(URLRequest(url: server.url("/held")), receiving: [late], to: second)
        try eventually(timeout: 60, "the first bytes") { second.paceSoFar.receivedTotal == 1_000 }
        late.bytesPerSecond = 1
        gate.open()
        try eventually(timeout: 60, "the transfer waits") { late.waiterCount == 1 }
        // The savings are one byte, for which the first block was admitted.
        #expect(second.paceSoFar.receivedTotal <= 1_000 + Self.block)
        connection.cancel()
        #expect(second.wait() != nil)
    }

    @Test func `cancelling a waiting transfer ends it immediately and lets others proceed`() throws {
        let limit = RateLimit(bytesPerSecond: 0)
        let recorders = (0..<3).map { _ in PaceRecorder() }
        let connections = recorders.map { start(request, receiving: [limit], to: $0) }
        try eventually(timeout: 60, "all wait") { limit.waiterCount == 3 }
        connections[0].cancel()
        guard case .cancelled = try #require(recorders[0].wait()).end else {
            Issue.record("The transfer was not cancelled.")
            return
        }
        #expect(limit.waiterCount == 2)
        limit.bytesPerSecond = 20_000_000
        connections[1].cancel()
        #expect(recorders[1].wait() != nil)
        #expect(try #require(recorders[2].wait()).isFinished)
    }

    @Test func `idle and stall timeouts do not run while a limit holds the transfer back`() throws {
        let limit = RateLimit(bytesPerSecond: 0)
        var request = request
        request.timeoutInterval = 0.3
        let recorder = PaceRecorder()
        start(request, receiving: [limit], stall: StallLimit(bytesPerSecond: 1_000_000, duration: 0.3), to: recorder)
        try eventually(timeout: 60, "the transfer waits, or has ended") {
            limit.waiterCount == 1 || recorder.paceSoFar.end != nil
        }
        #expect(recorder.wait(within: 1) == nil)
        limit.bytesPerSecond = nil
        #expect(recorder.wait()?.isFinished == true)
    }

    /// The limit for the head covers this wait.
    @Test func `waiting for the head does not count as a stall`() throws {
        let gate = TestServer.Gate()
        server.route("/late", .text("late").held(by: gate))
        let recorder = PaceRecorder()
        let thread = NetworkThread()
        let connection = start(
            URLRequest(url: server.url("/late")), stall: StallLimit(bytesPerSecond: 1_000_000, duration: 0.1),
            thread: thread, to: recorder)
        try eventually("the request") { server.requests.count == 1 }
        // Make the transfer check again whether bytes could move.
        thread.perform {
            connection.suspendReceiving()
            connection.resumeReceiving()
        }
        #expect(recorder.wait(within: 0.5) == nil)
        gate.open()
        #expect(recorder.wait()?.isFinished == true)
    }

    @Test func `the shared limit applies to transfers without their own`() throws {
        let limit = RateLimit.shared
        defer { limit.bytesPerSecond = nil }
        limit.bytesPerSecond = 4_000_000
        let recorder = PaceRecorder()
        start(request, to: recorder)
        let pace = try #require(recorder.wait())
        #expect(pace.isFinished && pace.isRight && isWithin(4_000_000, pace))
        // A transfer without a limit checks only this property of the shared limit.
        #expect(RateLimit(bytesPerSecond: 1).isLimiting && !RateLimit().isLimiting)
    }

    @Test func `the limit counts encoded bytes`() throws {
        // The encoded body is a hundred times smaller than the decoded one.
        let plain = PatternBytes.data(count: Self.size)
        let encoded = try Encoders.gzip([UInt8](plain))
        try #require(encoded.count < Self.size / 20)
        server.route("/gzip", .bytes(Data(encoded)).header("Content-Encoding", "gzip"))
        let rate = 100_000
        let recorder = PaceRecorder()
        start(URLRequest(url: server.url("/gzip")), receiving: [RateLimit(bytesPerSecond: Int64(rate))], to: recorder)
        let pace = try #require(recorder.wait())
        #expect(pace.isFinished && pace.isRight && pace.receivedTotal == Self.size)
        // If the decoded bytes were counted, the transfer would take ten seconds.
        #expect((pace.received.last?.time ?? .max) - pace.start < 8_000_000_000)
    }

    @Test func `configurations with different limits are not equal`() {
        var (first, second) = (ConnectionConfiguration(), ConnectionConfiguration())
        first.receiveRateLimits = [RateLimit(bytesPerSecond: 1)]
        #expect(first != second && first.receiveRateLimits == first.receiveRateLimits)
        second.receiveRateLimits = [RateLimit(bytesPerSecond: 1)]
        #expect(first != second)
        second.receiveRateLimits = first.receiveRateLimits
        #expect(first == second && first.hashValue == second.hashValue)
        first.receiveRateLimits = []
        #expect(first == ConnectionConfiguration() && "\(second)".contains("receiveRateLimits: [1]"))
    }
}
