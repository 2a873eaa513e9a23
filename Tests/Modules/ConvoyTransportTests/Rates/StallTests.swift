import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Real transfers that are too slow.
@Suite struct StallTests {
    let server: TestServer

    init() throws { server = try TestServer() }

    @Test func `a trickling transfer times out, and the message contains the limit`() throws {
        // An occasional byte prevents the idle timeout.
        server.route("/drip", .drip(PatternBytes.data(count: 100_000), chunk: 1, interval: 0.02))
        let recorder = PaceRecorder()
        start(
            URLRequest(url: server.url("/drip")), stall: StallLimit(bytesPerSecond: 1_000, duration: 0.4), to: recorder)
        let error = try #require(recorder.wait()?.error)
        #expect(error.code == .timedOut)
        #expect(error.localizedDescription.contains("below 1000 bytes per second"))
        #expect(error.localizedDescription.contains("over 0.4 seconds"))
    }

    @Test func `a body that stops arriving times out`() throws {
        server.route("/stall", .pattern(count: 1_000_000).stalls(afterBytes: 300_000))
        let recorder = PaceRecorder()
        start(
            URLRequest(url: server.url("/stall")), stall: StallLimit(bytesPerSecond: 1, duration: 0.3), to: recorder)
        let pace = try #require(recorder.wait())
        #expect(pace.error?.code == .timedOut && pace.receivedTotal == 300_000)
    }

    @Test func `an upload that the server does not read times out`() throws {
        // The system accepts a connection, but no program reads from it.
        let (listener, port) = try LoopbackPort.listener()
        defer { close(listener) }
        var request = URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(port)/")))
        request.httpMethod = "POST"
        request.httpBody = Data(count: 64 << 20)
        let recorder = PaceRecorder()
        start(request, stall: StallLimit(bytesPerSecond: 1_000, duration: 0.5), to: recorder)
        let pace = try #require(recorder.wait())
        #expect(pace.error?.code == .timedOut && pace.sent.last?.total ?? 0 < 64 << 20)
    }

    @Test func `waiting for the head of a response is not a stall`() throws {
        let gate = TestServer.Gate()
        for method in ["GET", "POST"] { server.route(method, "/think", .text("").held(by: gate)) }
        let recorders = ["GET", "POST"].map { method in
            var request = URLRequest(url: server.url("/think"))
            request.httpMethod = method
            if method == "POST" { request.httpBody = Data(count: 1_000) }
            let recorder = PaceRecorder()
            start(request, stall: StallLimit(bytesPerSecond: 1_000_000, duration: 0.1), to: recorder)
            return recorder
        }
        #expect(recorders[1].wait(within: 1) == nil && recorders[0].wait(within: 0) == nil)
        gate.open()
        for recorder in recorders { #expect(recorder.wait()?.isFinished == true) }
    }

    @Test func `time during which the delegate holds the body back is not a stall`() throws {
        server.route("/body", .pattern(count: 300_000))
        let held = DispatchSemaphore(value: 0)
        let collector = Collector(onData: { connection in
            connection.suspendReceiving()
            held.signal()
        })
        var configuration = ConnectionConfiguration()
        configuration.stallLimit = StallLimit(bytesPerSecond: 1_000_000, duration: 0.1)
        let connection = RequestChain(
            request: URLRequest(url: server.url("/body")), configuration: configuration, delegate: collector)
        connection.start()
        try held.waitOrThrow(timeout: 60, "the first block")
        #expect(collector.wait(within: 1) == nil)
        while collector.heardSoFar.ends.isEmpty, collector.body.count < 300_000 {
            connection.resumeReceiving()
            try held.waitOrThrow(timeout: 60, "a block")
        }
        connection.resumeReceiving()
        #expect(collector.wait()?.isFinished == true)
    }

    @Test func `time spent deciding on a redirect is not a stall`() throws {
        server.route("/from", .redirect(to: "/to"))
        server.route("/to", .text("there"))
        struct Answer: Sendable { let decide: @Sendable (URLRequest?) -> Void, request: URLRequest }
        let answer = Locked<Answer?>(nil)
        let collector = Collector(decision: { redirect, decide in
            answer.withLock { $0 = Answer(decide: decide, request: redirect.request) }
        })
        var configuration = ConnectionConfiguration()
        configuration.stallLimit = StallLimit(bytesPerSecond: 1_000_000, duration: 0.1)
        RequestChain(request: URLRequest(url: server.url("/from")), configuration: configuration, delegate: collector)
            .start()
        #expect(collector.wait(within: 1) == nil)
        let given = try #require(answer.withLock { $0 })
        given.decide(given.request)
        #expect(collector.wait()?.text == "there")
    }
}
