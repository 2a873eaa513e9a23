import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// The times of requests in a trace, and the connection timeout.
@Suite struct TracedTimingTests {
    private final class Listener: Sendable {
        private let queue = DispatchQueue(label: "Convoy.Timing")
        private let heard = Locked<[TransactionMetrics]>([])

        var configuration: ConnectionConfiguration {
            var configuration = ConnectionConfiguration()
            configuration.securityPolicy = TrustedServer.lax
            configuration.trace = ConnectionTrace(on: queue) { [self] line in
                if let metrics = line.metrics { heard.withLock { $0.append(metrics) } }
            }
            return configuration
        }

        var timings: [TransactionMetrics] {
            queue.sync {}
            return heard.withLock { $0 }
        }
    }

    private func expectOrder(_ timing: TransactionMetrics) {
        let times = [timing.nameFound, timing.connected, timing.secured, timing.firstByte, timing.duration].compactMap(
            \.self)
        #expect(times == times.sorted() && times.allSatisfy { $0 >= 0 }, "\(timing)")
    }

    @Test func `each request has ordered times`() throws {
        let server = try TestServer()
        server.redirect("/start", to: "/end")
        server.route("/end", .text("x").delayed(0.2))
        let listener = Listener()
        let heard = try #require(
            load(URLRequest(url: server.url("/start")), configuration: listener.configuration, thread: NetworkThread()))
        #expect(heard.isFinished)
        let timings = listener.timings
        try #require(timings.count == 2)
        for timing in timings {
            expectOrder(timing)
            #expect(timing.secured == nil)
        }
        #expect(timings[1].firstByte ?? 0 >= 0.15)
        #expect(
            timings[1].timeline.wholeMatch(of: /name [\d.]+ s, connect [\d.]+ s, first byte [\d.]+ s, total [\d.]+ s/)
                != nil)
    }

    @Test func `the TLS time is reported once per connection`() throws {
        let trusted = try TrustedServer()
        let listener = Listener()
        for _ in 0..<2 {
            let heard = try #require(
                load(URLRequest(url: trusted.url), configuration: listener.configuration, thread: trusted.thread))
            #expect(heard.isFinished)
        }
        let timings = listener.timings
        try #require(timings.count == 2)
        for timing in timings { expectOrder(timing) }
        #expect(timings[0].secured ?? 0 > timings[0].connected ?? .infinity)
        #expect(timings[0].timeline.contains(", TLS "))
    }

    @Test func `a request without a response has no first-byte time`() throws {
        let port = try LoopbackPort.free()
        let url = try #require(URL(string: "http://127.0.0.1:\(port)/"))
        let listener = Listener()
        _ = load(URLRequest(url: url), configuration: listener.configuration, thread: NetworkThread())
        let timing = try #require(listener.timings.first)
        #expect(timing.firstByte == nil && timing.secured == nil && timing.connected == nil)
        expectOrder(timing)
    }

    // MARK: The connection timeout

    @Test func `connecting to an unresponsive server times out`() throws {
        let full = try FullQueue()
        let url = try #require(URL(string: "http://127.0.0.1:\(full.port)/"))
        var configuration = ConnectionConfiguration()
        configuration.timeoutIntervalForConnecting = 0.2
        let heard = try #require(load(URLRequest(url: url), configuration: configuration, thread: NetworkThread()))
        guard case .failed(let error) = heard.ends.first else {
            Issue.record("the transfer ended with \(heard.ends)")
            return
        }
        #expect(error.code == .timedOut)
    }

    @Test(arguments: [0.2, 0, -1, .infinity, .nan, 1e300])
    func `the limit applies only to connecting, and an invalid limit is ignored`(_ limit: Double) throws {
        let server = try TestServer()
        server.route("/slow", .text("x").delayed(0.5))
        var configuration = ConnectionConfiguration()
        configuration.timeoutIntervalForConnecting = limit
        let heard = try #require(
            load(URLRequest(url: server.url("/slow")), configuration: configuration, thread: NetworkThread()))
        #expect(heard.isFinished)
    }

    @Test func `the limit does not carry over to the next request`() throws {
        let server = try TestServer(), full = try FullQueue(), thread = NetworkThread()
        server.route("/x", .text("x"))
        var short = ConnectionConfiguration()
        short.timeoutIntervalForConnecting = 0.1
        #expect(load(URLRequest(url: server.url("/x")), configuration: short, thread: thread)?.isFinished == true)
        let url = try #require(URL(string: "http://127.0.0.1:\(full.port)/"))
        var request = URLRequest(url: url)
        request.timeoutInterval = 0.6
        let begun = ContinuousClock.now
        let heard = try #require(load(request, configuration: ConnectionConfiguration(), thread: thread))
        #expect(!heard.isFinished)
        #expect(ContinuousClock.now - begun >= .milliseconds(450))
    }
}
