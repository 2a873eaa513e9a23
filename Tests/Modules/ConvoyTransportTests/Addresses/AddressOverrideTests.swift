import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that overrides affect nothing except the address to which a host's connections are made.
@Suite struct AddressOverrideTests {
    private func get(
        _ text: String, _ overrides: [String: String], on thread: NetworkThread = NetworkThread(),
        _ change: (inout ConnectionConfiguration) throws -> Void = { _ in }
    ) throws -> Collector.Heard {
        var configuration = ConnectionConfiguration()
        configuration.proxy = .none
        configuration.addressOverrides = overrides
        try change(&configuration)
        let request = URLRequest(url: try #require(URL(string: text)))
        return try #require(load(request, configuration: configuration, thread: thread))
    }

    private func server(_ text: String) throws -> TestServer {
        let server = try TestServer()
        server.route("/", .text(text))
        return server
    }

    @Test func `the Host field still contains the host of the URL`() throws {
        let server = try server("here")
        for (url, key, value) in [
            ("http://api.invalid/", "api.invalid", "127.0.0.1:\(server.port)"),
            ("http://API.invalid./", "Api.Invalid", "127.0.0.1:\(server.port)"),
            ("http://api.invalid:8080/", "api.invalid:8080", "127.0.0.1:\(server.port)"),
            ("http://api.invalid:\(server.port)/", "api.invalid", "127.0.0.1"),
            ("http://[2001:db8::1]/", "[2001:db8::1]", "127.0.0.1:\(server.port)"),
            ("http://[2001:db8::1]/", "2001:db8:0::1", "127.0.0.1:\(server.port)"),
            ("http://[2001:db8::1]:8080/", "[2001:DB8::0:1]:8080", "127.0.0.1:\(server.port)"),
            ("http://xn--bcher-kva.invalid/", "Bücher.invalid", "127.0.0.1:\(server.port)"),
        ] {
            #expect(try get(url, [key: value]).text == "here", "\(url)")
            let host = try #require(URLComponents(string: url)?.encodedHost)
            #expect(server.requests.last?.headers["Host"]?.lowercased().hasPrefix(host.lowercased()) == true, "\(url)")
        }
    }

    @Test func `an override with a port takes precedence`() throws {
        let (one, two) = (try server("one"), try server("two"))
        let overrides = ["api.invalid": "127.0.0.1:\(one.port)", "api.invalid:81": "127.0.0.1:\(two.port)"]
        #expect(try get("http://api.invalid/", overrides).text == "one")
        #expect(try get("http://api.invalid:81/", overrides).text == "two")
        #expect(try get("http://other.invalid/", overrides).error?.code == .cannotFindHost)
        #expect(try get("http://sub.api.invalid/", overrides).error?.code == .cannotFindHost)
    }

    @Test func `a connection serves only requests with the same override`() throws {
        let (one, two, thread) = (try server("one"), try server("two"), NetworkThread())
        for _ in 0..<3 {
            #expect(try get("http://api.invalid/", ["api.invalid": "127.0.0.1:\(one.port)"], on: thread).text == "one")
            #expect(try get("http://api.invalid/", ["api.invalid": "127.0.0.1:\(two.port)"], on: thread).text == "two")
            // No other request uses the override.
            #expect(try get("http://api.invalid/", [:], on: thread).error?.code == .cannotFindHost)
        }
        #expect(one.totalConnectionCount == 1 && two.totalConnectionCount == 1)
    }

    @Test func `the certificate must match the host of the URL`() throws {
        let trusted = try TrustedServer(hosts: "api.invalid")
        let overrides = ["api.invalid": "127.0.0.1:\(trusted.server.port)", "b.invalid": "127.0.0.1:\(trusted.server.port)"]
        let policy = try trusted.policy()
        let url = try #require(URL(string: "https://api.invalid/"))
        let right = try #require(
            trusted.load(policy, from: url) {
                $0.proxy = .none
                $0.addressOverrides = overrides
            })
        #expect(right.text == "hello", "\(right.ends)")
        let other = try #require(URL(string: "https://b.invalid/"))
        let wrong = try #require(
            trusted.load(policy, from: other) {
                $0.proxy = .none
                $0.addressOverrides = overrides
            })
        #expect(wrong.refusal == .wrongHost, "\(wrong.ends)")
    }

    @Test func `the address guard checks the overriding address`() throws {
        for (value, address) in [("127.0.0.1:9", "127.0.0.1"), ("::1", "::1"), ("[::1]:9", "::1"), ("0x7f.1", "127.0.0.1")] {
            let heard = try get("http://public.invalid/", ["public.invalid": value]) { $0.addressGuard = .publicAddresses }
            #expect(heard.error?.addressRefusal?.address.description == address, "\(value): \(heard.ends)")
        }
    }

    @Test func `a proxy opens a tunnel to the overriding address`() throws {
        let server = try server("here")
        let proxy = try ConnectProxy(.tunnels(to: server.port))
        defer { proxy.stop() }
        let heard = try get("http://api.invalid/", ["api.invalid": "192.0.2.7:81"]) {
            $0.proxy = .proxy(try Proxy(proxy.address))
        }
        #expect(heard.text == "here", "\(heard.ends)")
        #expect(proxy.heads.first?.hasPrefix("CONNECT 192.0.2.7:81 HTTP/1.1\r\n") == true)
        #expect(server.requests.last?.headers["Host"] == "api.invalid")
    }

    @Test(arguments: ["", ":80", "a b", "127.0.0.1:x", "127.0.0.1:99999", "127.0.0.1:", "[::1", "host/path", "u@host"])
    func `an invalid override is an error`(_ value: String) throws {
        #expect(try get("http://api.invalid/", ["api.invalid": value]).error?.code == .badURL)
    }
}
