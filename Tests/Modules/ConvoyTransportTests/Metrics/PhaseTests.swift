import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// The attribution of a request's time to phases.
@Suite struct PhaseTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route(nil, "/", .text("hello"))
    }

    private static var configuration: ConnectionConfiguration {
        var configuration = ConnectionConfiguration()
        configuration.collectsMetrics = true
        configuration.securityPolicy = TrustedServer.lax
        return configuration
    }

    private func heard(
        _ url: URL?, _ configuration: ConnectionConfiguration = configuration, thread: NetworkThread = NetworkThread(),
        timeout: TimeInterval = 60
    ) throws -> Collector.Heard {
        var request = URLRequest(url: try #require(url))
        request.timeoutInterval = timeout
        return try #require(load(request, configuration: configuration, thread: thread))
    }

    private func metrics(
        _ url: URL?, _ configuration: ConnectionConfiguration = configuration, thread: NetworkThread = NetworkThread()
    ) throws -> TransactionMetrics {
        let heard = try heard(url, configuration, thread: thread)
        #expect(heard.isFinished, "\(heard.ends)")
        #expect(heard.metrics.count == 1)
        return try #require(heard.metrics.first)
    }

    @Test func `a server with a full backlog extends the connect phase`() throws {
        let relay = try SlowRelay(to: server.port, .connecting, for: 0.5)
        defer { relay.stop() }
        let metrics = try metrics(URL(string: "http://127.0.0.1:\(relay.port)/"))
        expect(.connect, of: metrics, toHaveTaken: 0.5)
        #expect(metrics.remotePort == Int(relay.port) && metrics.remoteAddress == "127.0.0.1")
    }

    @Test(arguments: [true, false]) func `a late handshake response extends the TLS phase`(hasTLS13: Bool) throws {
        let trusted = try TrustedServer { if !hasTLS13 { $0.maximumVersion = .tls12 } }
        let relay = try SlowRelay(to: trusted.server.port, .passing, for: 0.6)
        defer { relay.stop() }
        let metrics = try metrics(URL(string: "https://localhost:\(relay.port)/"))
        expect(.tls, of: metrics, toHaveTaken: 0.6)
        #expect(metrics.negotiatedTLSProtocolVersion == (hasTLS13 ? "TLSv1.3" : "TLSv1.2"))
        #expect(metrics.negotiatedTLSCipherSuite?.hasPrefix("TLS_") == true)
        #expect(metrics.secured != nil && metrics.tunnelEstablished == nil)
    }

    @Test(arguments: [true, false]) func `a slow proxy extends the tunnel phase`(isSecure: Bool) throws {
        let trusted = try TrustedServer()
        let port = isSecure ? trusted.server.port : server.port
        let proxy = try ConnectProxy(.tunnels(to: port))
        defer { proxy.stop() }
        let relay = try SlowRelay(to: proxy.port, .passing, for: 0.6)
        defer { relay.stop() }
        var configuration = Self.configuration
        configuration.proxy = .proxy(try Proxy("http://127.0.0.1:\(relay.port)"))
        // The override makes libcurl request a tunnel for plain text, too.
        if !isSecure { configuration.addressOverrides = ["localhost": "127.0.0.1"] }
        let url = URL(string: "http\(isSecure ? "s" : "")://localhost:\(port)/")
        let metrics = try metrics(url, configuration)
        expect(.tunnel, of: metrics, toHaveTaken: 0.6)
        #expect(metrics.isProxyConnection && metrics.tunnelEstablished != nil)
        #expect((metrics.secured != nil) == isSecure)
        #expect(metrics.remotePort == Int(relay.port))
        // The messages to the proxy are not part of the request.
        let recorded = try #require((isSecure ? trusted.server : server).requests.last)
        #expect(metrics.countOfRequestHeaderBytesSent < 250, "\(metrics.countOfRequestHeaderBytesSent) \(recorded)")
    }

    @Test func `a forwarding proxy has no tunnel phase`() throws {
        server.route(nil, "/*", .text("by proxy"))
        var configuration = Self.configuration
        configuration.proxy = .proxy(try Proxy("http://127.0.0.1:\(server.port)"))
        let metrics = try metrics(URL(string: "http://known-to-the-proxy.invalid/x"), configuration)
        expectConsistency(metrics)
        #expect(metrics.isProxyConnection && metrics.connected != nil && metrics.tunnelEstablished == nil)
    }

    @Test func `a slow server extends the wait phase`() throws {
        server.route("/late", .text("x").delayed(0.5))
        expect(.wait, of: try metrics(server.url("/late")), toHaveTaken: 0.5)
    }

    @Test func `a late body extends the receive phase`() throws {
        server.route("/late", .text("x").delayedBody(0.5))
        let metrics = try metrics(server.url("/late"))
        expect(.receive, of: metrics, toHaveTaken: 0.5)
        #expect(metrics.statusCode == 200 && metrics.networkProtocolName == "http/1.1" && !metrics.isReusedConnection)
    }

    @Test func `a slow request body extends the send phase, but not the wait phase`() throws {
        server.route("POST", "/take", .text("x").delayed(0.2))
        var request = URLRequest(url: server.url("/take"))
        request.httpMethod = "POST"
        request.httpBodyStream = SlowStream(blocks: 5, pause: 0.2)
        let heard = try #require(load(request, configuration: Self.configuration, thread: NetworkThread()))
        let metrics = try #require(heard.metrics.first)
        #expect(heard.isFinished)
        expect(.send, of: metrics, toHaveTaken: 0.8)
        #expect(metrics.duration(of: .wait) >= 0.15)
        #expect(metrics.countOfRequestBodyBytesSent == 5 * 100)
    }

    @Test func `a reused connection takes no time for lookup and connect`() throws {
        let thread = NetworkThread()
        let first = try metrics(server.url("/"), thread: thread)
        let second = try metrics(server.url("/"), thread: thread)
        #expect(!first.isReusedConnection && second.isReusedConnection)
        #expect(second.localPort == first.localPort && second.remotePort == Int(server.port))
        #expect(second.duration(of: .nameLookup) == 0 && second.duration(of: .connect) == 0)
        for metrics in [first, second] { expectConsistency(metrics) }
    }

    @Test func `a request that was sent again has the times of the last connection`() throws {
        server.route("/drop", inTurn: [.text("x").failing(.closeBeforeHead), .text("there").delayed(0.2)])
        let thread = NetworkThread()
        let first = try metrics(server.url("/"), thread: thread)
        let again = try metrics(server.url("/drop"), thread: thread)
        expectConsistency(again)
        #expect(server.requests.map(\.path) == ["/", "/drop", "/drop"])
        #expect(!again.isReusedConnection && again.statusCode == 200 && again.localPort != first.localPort)
        expect(.wait, of: again, toHaveTaken: 0.2)
    }

    // MARK: The end

    @Test func `a request without a connection has only an end time`() throws {
        let port = try LoopbackPort.free()
        let heard = try heard(URL(string: "http://127.0.0.1:\(port)/"))
        #expect(heard.error?.code == .cannotConnectToHost)
        let metrics = try #require(heard.metrics.first)
        expectConsistency(metrics)
        #expect(metrics.connected == nil && metrics.secured == nil && metrics.requestSent == nil)
        #expect(metrics.firstByte == nil && metrics.statusCode == nil && metrics.networkProtocolName == nil)
        #expect(metrics.remoteAddress == nil && metrics.countOfRequestHeaderBytesSent == 0)
    }

    @Test func `a request that never reached libcurl has no metrics`() throws {
        let heard = try heard(URL(string: "ftp://127.0.0.1/"))
        #expect(heard.ends.count == 1 && !heard.isFinished)
        #expect(heard.metrics.isEmpty)
    }

    @Test func `the time until a failure counts towards the failed phase`() throws {
        let full = try FullQueue()
        let connecting = try heard(URL(string: "http://127.0.0.1:\(full.port)/"), timeout: 0.5)
        expect(.connect, of: try #require(connecting.metrics.first), toHaveTaken: 0.5)
        let silent = try RawServer(answer: nil)
        let handshake = try heard(URL(string: "https://127.0.0.1:\(silent.port)/"), timeout: 0.5)
        let metrics = try #require(handshake.metrics.first)
        expect(.tls, of: metrics, toHaveTaken: 0.5)
        #expect(metrics.connected != nil && metrics.secured == nil && metrics.negotiatedTLSProtocolVersion == nil)
        let waiting = try heard(URL(string: "http://127.0.0.1:\(silent.port)/"), timeout: 0.5)
        expect(.wait, of: try #require(waiting.metrics.first), toHaveTaken: 0.5)
        silent.stop()
        server.route("/stalls", .pattern(count: 100_000).stalls(afterBytes: 10_000))
        let receiving = try heard(server.url("/stalls"), timeout: 0.5)
        expect(.receive, of: try #require(receiving.metrics.first), toHaveTaken: 0.5)
        #expect(receiving.metrics.first?.countOfResponseBodyBytesReceived == 10_000)
        let proxy = try ConnectProxy(.fallsSilent(after: ""))
        var configuration = Self.configuration
        configuration.proxy = .proxy(try Proxy(proxy.address))
        let tunnel = try heard(URL(string: "https://localhost:1/"), configuration, timeout: 0.5)
        expect(.tunnel, of: try #require(tunnel.metrics.first), toHaveTaken: 0.5)
        proxy.stop()
    }

    @Test func `an incomplete line counts as the first byte of the response`() throws {
        server.route("/half", .raw("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").stalls(afterBytes: 6))
        let heard = try heard(server.url("/half"), timeout: 0.5)
        let metrics = try #require(heard.metrics.first)
        expect(Libcurl.tellsOfByte ? .receive : .wait, of: metrics, toHaveTaken: 0.4)
        #expect(metrics.statusCode == nil && (metrics.firstByte != nil) == Libcurl.tellsOfByte)
    }

    @Test(arguments: ["connecting", "in the handshake", "waiting", "receiving"])
    func `a cancelled request has metrics up to the cancellation`(place: String) throws {
        let full = try FullQueue(), silent = try RawServer(answer: nil)
        defer { silent.stop() }
        server.route("/stalls", .pattern(count: 100_000).stalls(afterBytes: 10_000))
        let (url, phase): (URL?, TransactionPhase) =
            switch place {
            case "connecting": (URL(string: "http://127.0.0.1:\(full.port)/"), .connect)
            case "in the handshake": (URL(string: "https://127.0.0.1:\(silent.port)/"), .tls)
            case "waiting": (URL(string: "http://127.0.0.1:\(silent.port)/"), .wait)
            default: (server.url("/stalls"), .receive)
            }
        let collector = Collector()
        let connection = RequestChain(
            request: URLRequest(url: try #require(url)), configuration: Self.configuration, delegate: collector,
            thread: NetworkThread())
        connection.start()
        DispatchQueue.global().asyncAfter(deadline: .now() + 0.5) { connection.cancel() }
        let heard = try #require(collector.wait())
        guard case .cancelled = heard.ends.first else {
            Issue.record("the transfer ended with \(heard.ends)")
            return
        }
        #expect(heard.metrics.count == 1)
        expect(phase, of: try #require(heard.metrics.first), toHaveTaken: 0.45)
    }

    @Test func `a request cancelled before its start has no metrics`() throws {
        let collector = Collector()
        let connection = RequestChain(
            request: URLRequest(url: server.url("/")), configuration: Self.configuration, delegate: collector,
            thread: NetworkThread())
        connection.cancel()
        connection.start()
        #expect(try #require(collector.wait()).metrics.isEmpty)
    }

    @Test func `metrics are reported only if the setting is enabled`() throws {
        let heard = try heard(server.url("/"), ConnectionConfiguration())
        #expect(heard.isFinished && heard.metrics.isEmpty)
    }
}
