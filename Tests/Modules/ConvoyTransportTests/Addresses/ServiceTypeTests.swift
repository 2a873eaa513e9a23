import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// The marks of a connection's packets, as specified by the configuration or the request.
@Suite struct ServiceTypeTests {
    private func get(
        _ text: String, _ type: NetworkServiceType, requested: URLRequest.NetworkServiceType = .default,
        on thread: NetworkThread, _ change: (inout ConnectionConfiguration) -> Void = { _ in }
    ) throws -> Collector.Heard {
        var configuration = ConnectionConfiguration()
        configuration.proxy = .none
        configuration.networkServiceType = type
        change(&configuration)
        var request = URLRequest(url: try #require(URL(string: text)))
        request.timeoutInterval = 10
        request.networkServiceType = requested
        return try #require(load(request, configuration: configuration, thread: thread))
    }

    @Test(arguments: [
        (NetworkServiceType.default, 0, 0), (.background, 0x20, 1), (.responsiveData, 0x48, 6), (.avStreaming, 0x68, 4),
        (.video, 0x88, 4), (.voice, 0xB8, 6), (.callSignaling, 0xA0, 6),
    ])
    func `each service type sets its DSCP and priority on the socket and the wire`(
        _ type: NetworkServiceType, _ byte: Int32, _ priority: Int32
    ) throws {
        let server = try PeerServer()
        defer { server.stop() }
        let thread = NetworkThread()
        #expect(try get("http://127.0.0.1:\(server.port)/", type, on: thread).text == "127.0.0.1 1")
        let own = try #require(SocketMarks.ofClients(of: server.port).first)
        #expect(own == SocketMarks(byte: byte, priority: priority))
        #expect(SocketMarks.received(at: server.port) == [byte])
    }

    @Test func `IPv6 packets are marked as well`() throws {
        let counter = try AcceptCounter()
        let thread = NetworkThread()
        var request = URLRequest(url: try #require(URL(string: "http://[::1]:\(counter.port)/")))
        request.timeoutInterval = 0.5
        var configuration = ConnectionConfiguration()
        configuration.proxy = .none
        configuration.networkServiceType = .voice
        let collector = Collector()
        let connection = RequestChain(request: request, configuration: configuration, delegate: collector, thread: thread)
        connection.start()
        var marks: [SocketMarks] = []
        // Check the marks while the request waits for the response.
        try? eventually(timeout: 0.4) {
            marks = SocketMarks.ofClients(of: counter.port)
            return !marks.isEmpty
        }
        connection.cancel()
        guard let own = marks.first else { return print("skipped: this machine has no IPv6") }
        #expect(own == SocketMarks(byte: 0xB8, priority: 6))
    }

    @Test func `a connection serves only requests of its service type`() throws {
        let server = try PeerServer()
        defer { server.stop() }
        let thread = NetworkThread()
        let url = "http://127.0.0.1:\(server.port)/"
        for _ in 0..<3 {
            #expect(try get(url, .default, on: thread).text == "127.0.0.1 1")
            #expect(try get(url, .background, on: thread).text == "127.0.0.1 2")
            #expect(try get(url, .voice, on: thread).text == "127.0.0.1 3")
            // This request has the same address as the second one, but does not set it as the source.
            let source = try ConnectionSource.address(#require(IPAddress("127.0.0.1")))
            #expect(try get(url, .background, on: thread) { $0.connectionSource = source }.text == "127.0.0.1 4")
        }
    }

    @Test func `the request's service type is used if the configuration has none`() throws {
        let server = try PeerServer()
        defer { server.stop() }
        let thread = NetworkThread()
        let url = "http://127.0.0.1:\(server.port)/"
        #expect(try get(url, .default, on: thread).text == "127.0.0.1 1")
        #expect(try get(url, .default, requested: .background, on: thread).text == "127.0.0.1 2")
        #expect(try get(url, .background, requested: .voice, on: thread).text == "127.0.0.1 2")
        #expect(try get(url, .default, requested: .voip, on: thread).text == "127.0.0.1 3")
        #expect(Set(SocketMarks.received(at: server.port)) == [0, 0x20, 0xA0])
    }

    @Test func `the service type is kept across redirects, even to another host`() throws {
        let (first, second) = (try TestServer(), try PeerServer())
        defer { second.stop() }
        first.route("/", .redirect(to: "http://127.0.0.2:\(second.port)/"))
        let thread = NetworkThread()
        let heard = try get(first.url("/").absoluteString, .default, requested: .video, on: thread)
        #expect(heard.text == "127.0.0.1 1", "\(heard.ends)")
        #expect(SocketMarks.received(at: second.port) == [0x88])
    }

    @Test func `connections to an overridden address are marked as well`() throws {
        let server = try PeerServer()
        defer { server.stop() }
        let address = "127.0.0.1:\(server.port)"
        let thread = NetworkThread()
        let heard = try get("http://host.example/", .video, on: thread) {
            $0.addressOverrides = ["host.example": address]
        }
        #expect(heard.text == "127.0.0.1 1", "\(heard.ends)")
        // Keep the connection alive.
        withExtendedLifetime(thread) { #expect(SocketMarks.received(at: server.port) == [0x88]) }
    }

    @Test func `Foundation's service types are mapped, and descriptions contain the type`() {
        let types: [(URLRequest.NetworkServiceType, NetworkServiceType)] = [
            (.default, .default), (.background, .background), (.video, .video), (.voice, .voice), (.voip, .callSignaling),
            (.networkServiceTypeCallSignaling, .callSignaling),
        ]
        for (theirs, ours) in types { #expect(NetworkServiceType(theirs) == ours) }
        var configuration = ConnectionConfiguration()
        #expect(!configuration.description.contains("networkServiceType"))
        configuration.networkServiceType = .background
        #expect(configuration.description.contains("networkServiceType: background"))
        #expect(configuration != ConnectionConfiguration())
    }
}
