import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// HTTP/2 streams whose resets libcurl 7.88 does not detect.
@Suite(.enabled(if: FrameServer.isInstalled, "needs \(FrameServer.installHint)"))
struct HiddenResetTests {
    private let server: TestServer
    private let frames: FrameServer
    private let thread = NetworkThread()

    init() throws {
        server = try TestServer()
        frames = try FrameServer(asking: server.port)
    }

    private func connect(_ path: String, _ collector: Collector) throws -> RequestChain {
        let connection = RequestChain(
            request: URLRequest(url: try #require(URL(string: "https://localhost:\(frames.ports[0])\(path)"))),
            configuration: ConnectionConfiguration(certificateAuthorities: frames.certificateAuthority),
            delegate: collector, thread: thread)
        connection.start()
        return connection
    }

    private func answer(
        _ path: String, _ end: FrameServer.Plan.End, fields: [[String]] = [], count: Int = 500,
        body: Data? = nil, stop: Int = 500, gate: TestServer.Gate? = nil
    ) throws {
        var plan = FrameServer.Plan(status: 200, fields: fields, stop: stop)
        (plan.end, plan.code) = (end, 2)
        let text = String(decoding: try JSONEncoder().encode(plan), as: UTF8.self)
        var response = TestServer.Response(status: 200, body: .data(body ?? PatternBytes.data(count: count)))
            .header("X-Plan", text)
        if let gate { response = response.held(by: gate) }
        server.route("GET", path, response)
    }

    private func awaitHeld(_ count: Int) throws {
        try eventually("\(count) streams are held") { frames.output.split(separator: "\n").count { $0 == "HELD" } == count }
    }

    /// Waits for a response. Everything sent before it has arrived as well.
    private func awaitResponse() throws {
        try answer("/between", .whole, fields: [["content-length", "500"]])
        let between = Collector()
        _ = try connect("/between", between)
        #expect(try #require(between.wait()).isFinished)
    }

    /// Blocks the network thread until a closure has run.
    private func whileBlocked(_ block: () throws -> Void) throws {
        let (isBlocked, isReady) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        _ = thread.perform {
            isBlocked.signal()
            isReady.wait()
        }
        defer { isReady.signal() }
        try isBlocked.waitOrThrow()
        try block()
    }

    private func awaitRequests(_ count: Int, to path: String) throws {
        try eventually("\(count) requests for \(path)") { server.requests.count { $0.path == path } == count }
    }

    /// libcurl keeps the bytes that a paused transfer has not accepted if another transfer uses its connection.
    @Test func `bytes of a transfer that was reset while paused do not reach the next one`() throws {
        let (gate, late) = (TestServer.Gate(), TestServer.Gate())
        try answer("/cut", .held, count: 100_000, stop: 100_000)
        try answer("/kept", .held, count: 2_000, stop: 1_000)
        try answer("/flood", .floodOfHeld, gate: gate)
        let new = Data(repeating: 0x41, count: 200_000)
        try answer("/next", .whole, fields: [["content-length", "200000"]], body: new, stop: new.count)
        server.route("GET", "/late", .text("late").held(by: late))
        server.route("GET", "/ping", .text("pong"))
        let keeper = try connect("/kept", Collector())
        defer { keeper.cancel() }
        let cut = Collector(onHead: { $0.suspendReceiving() })
        let connection = try connect("/cut", cut)
        try awaitHeld(2)
        try awaitResponse()
        _ = try connect("/flood", Collector())
        let other = Collector()
        RequestChain(request: URLRequest(url: server.url("/late")), delegate: other, thread: thread).start()
        try awaitRequests(1, to: "/flood")
        try awaitRequests(1, to: "/late")

        // In one turn, the network thread handles the end of the stream, then another connection, and then the
        // resumption.
        try whileBlocked {
            gate.open()
            try eventually("the stream is reset") { frames.output.contains("FLOODED") }
            late.open()
            _ = try RawClient(port: server.port, timeout: 10).exchange("GET", "/ping")
            connection.resumeReceiving()
        }
        #expect(try #require(cut.wait()).error?.code == .networkConnectionLost)

        // One of these requests reuses the handle.
        let next = (0..<4).map { _ in
            Collector(onData: { connection in
                connection.suspendReceiving()
                connection.resumeReceiving()
            })
        }
        for collector in next { _ = try connect("/next", collector) }
        for collector in next {
            let heard = try #require(collector.wait())
            #expect(heard.isFinished && heard.body == new, "\(heard.ends) \(heard.body.count)")
        }
    }

    /// The rest of another stream, which is also held back, fills libcurl's buffer. Only then does the transfer check
    /// its own stream.
    @Test func `a response without a length is incomplete if it was reset while paused`() throws {
        let gate = TestServer.Gate()
        try answer("/cut", .held, count: 1_000, stop: 1_000)
        try answer("/large", .held, count: 400_000, stop: 1_000)
        try answer("/flood", .floodOfHeld, gate: gate)
        server.route("GET", "/ping", .text("pong"))
        let suspending = { @Sendable (connection: any Connection) in connection.suspendReceiving() }
        let (cut, large, flood) = (Collector(onHead: suspending), Collector(onHead: suspending), Collector())
        let connections = [try connect("/cut", cut), try connect("/large", large), try connect("/flood", flood)]
        defer { for connection in connections { connection.cancel() } }
        try awaitHeld(2)
        try awaitRequests(1, to: "/flood")
        gate.open()
        try eventually("the stream is reset") { frames.output.contains("FLOODED") }
        // Everything that arrived before this response has been read.
        let ping = Collector()
        RequestChain(request: URLRequest(url: server.url("/ping")), delegate: ping, thread: thread).start()
        #expect(try #require(ping.wait()).isFinished)
        connections[0].resumeReceiving()
        #expect(try #require(cut.wait()).error?.code == .networkConnectionLost)
    }

    @Test func `a response without a length completes while other transfers are paused`() throws {
        try answer("/large", .held, fields: [["content-length", "400000"]], count: 400_000, stop: 1_000)
        try answer("/small", .held, fields: [["content-length", "1000"]], count: 1_000, stop: 500)
        let (large, small) = (Collector(onHead: { $0.suspendReceiving() }), Collector(onHead: { $0.suspendReceiving() }))
        try answer("/whole", .whole)
        let second = try connect("/small", small)
        defer { second.cancel() }
        try awaitHeld(1)
        // A short response fits into the buffer.
        let beside = Collector()
        _ = try connect("/whole", beside)
        #expect(try #require(beside.wait()).isFinished)

        let first = try connect("/large", large)
        defer { first.cancel() }
        try awaitHeld(2)
        let unproven = Collector()
        _ = try connect("/whole", unproven)
        let heard = try #require(unproven.wait())
        #expect(heard.isFinished != CurlQuirks.hidesResets)
        #expect((heard.error?.userInfo[URLError.isUnprovenKey] != nil) == CurlQuirks.hidesResets)
    }
}
