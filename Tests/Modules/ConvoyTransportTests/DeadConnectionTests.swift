import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Silent HTTP/2 connections, which may be dead without any sign.
@Suite(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"))
struct DeadConnectionTests {
    private let server = Result { try TestServer() }
    private let thread = NetworkThread()

    private func load(_ nginx: Nginx, _ path: String, timeout: TimeInterval = 30) throws -> Collector {
        var request = URLRequest(url: nginx.secureURL(path))
        request.timeoutInterval = timeout
        var configuration = ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority)
        configuration.collectsMetrics = true
        let collector = Collector()
        RequestChain(request: request, configuration: configuration, delegate: collector, thread: thread).start()
        return collector
    }

    @Test func `a request does not reuse a connection on which another one has timed out`() throws {
        let server = try server.get()
        let gate = TestServer.Gate()
        defer { gate.open() }
        server.route("GET", "/held", .text("late").held(by: gate))
        let nginx = try Nginx(forwardingTo: server.port)
        let first = try #require(load(nginx, "small").wait())
        #expect(first.isFinished && first.heads.first?.httpVersion == "HTTP/2")
        let second = try #require(load(nginx, "forward/held", timeout: 0.3).wait())
        #expect(second.error?.code == .timedOut)
        let third = try #require(load(nginx, "small").wait())
        #expect(third.isFinished)
        #expect(third.metrics.map(\.isReusedConnection) == [false])
    }

    @Test func `a timeout does not affect other requests on the same connection`() throws {
        let server = try server.get()
        let (gate, late) = (TestServer.Gate(), TestServer.Gate())
        defer { gate.open() }
        server.route("GET", "/held", .text("late").held(by: gate))
        server.route("GET", "/other", .text("other").held(by: late))
        let nginx = try Nginx(forwardingTo: server.port)
        let other = try load(nginx, "forward/other")
        try eventually { server.requests.contains { $0.path == "/other" } }
        let held = try #require(load(nginx, "forward/held", timeout: 0.3).wait())
        #expect(held.error?.code == .timedOut)
        late.open()
        let heard = try #require(other.wait())
        #expect(heard.isFinished && heard.text == "other")
    }
}
