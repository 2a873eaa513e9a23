import ConvoySecurity
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that a connection with a source serves only requests with the same source.
@Suite struct ConnectionSourceTests {
    private func get(
        _ text: String, from source: ConnectionSource?, on thread: NetworkThread = NetworkThread()
    ) throws -> Collector.Heard {
        var configuration = ConnectionConfiguration()
        configuration.proxy = .none
        configuration.connectionSource = source
        var request = URLRequest(url: try #require(URL(string: text)))
        request.timeoutInterval = 10
        return try #require(load(request, configuration: configuration, thread: thread))
    }

    private func address(_ text: String) throws -> ConnectionSource { .address(try #require(IPAddress(text))) }

    @Test func `a connection serves only requests with the same source`() throws {
        let server = try PeerServer()
        defer { server.stop() }
        let thread = NetworkThread()
        let url = "http://127.0.0.1:\(server.port)/"
        for _ in 0..<3 {
            #expect(try get(url, from: nil, on: thread).text == "127.0.0.1 1")
            #expect(try get(url, from: address("127.0.0.2"), on: thread).text == "127.0.0.2 2")
            #expect(try get(url, from: address("127.0.0.3"), on: thread).text == "127.0.0.3 3")
            #expect(try get(url, from: .interface("lo"), on: thread).text == "127.0.0.1 4")
        }
    }

    @Test func `a connection from an unavailable source fails`() throws {
        let server = try PeerServer()
        defer { server.stop() }
        let url = "http://127.0.0.1:\(server.port)/"
        for (source, code) in [
            (ConnectionSource.interface("no-such-if"), ENODEV), (.interface(""), ENODEV), (.interface("lo\u{0}"), ENODEV),
            (.interface(String(repeating: "x", count: 40)), ENODEV), (try address("192.0.2.1"), EADDRNOTAVAIL),
            (try address("::1"), EAFNOSUPPORT),
        ] {
            let error = try get(url, from: source).error
            #expect(error?.code == .cannotConnectToHost)
            let underlying = error?.userInfo[NSUnderlyingErrorKey] as? NSError
            #expect(underlying?.domain == NSPOSIXErrorDomain && underlying?.code == Int(code), "\(source)")
        }
    }

    /// The number that separates connections must not be mistaken for an interface number.
    @Test func `IPv6 addresses are reachable from each source`() throws {
        let counter = try AcceptCounter()
        var request = URLRequest(url: try #require(URL(string: "http://[::1]:\(counter.port)/")))
        request.timeoutInterval = 0.3
        for source in [nil, try address("::1"), .interface("lo")] {
            var configuration = ConnectionConfiguration()
            configuration.proxy = .none
            configuration.connectionSource = source
            let heard = try #require(load(request, configuration: configuration, thread: NetworkThread()))
            if source == nil, heard.error?.code != .timedOut { return print("skipped: this machine has no IPv6") }
            #expect(heard.error?.code == .timedOut, "\(heard.ends)")
            #expect(counter.takeCount() == 1)
        }
    }

    @Test func `addresses of the other family are skipped`() throws {
        let server = try PeerServer()
        defer { server.stop() }
        // On most machines, the name has an IPv6 address as well.
        let heard = try get("http://localhost:\(server.port)/", from: address("127.0.0.2"))
        #expect(heard.text == "127.0.0.2 1", "\(heard.ends)")
    }
}
