import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that nothing is sent, by any route, to an address that the guard rejects.
@Suite struct GuardedTransferTests {
    private func get(
        _ address: String, guardedBy addressGuard: AddressGuard?, on thread: NetworkThread = NetworkThread(),
        _ change: (inout ConnectionConfiguration) throws -> Void = { _ in }
    ) throws -> Collector.Heard {
        var configuration = ConnectionConfiguration()
        configuration.proxy = .none
        configuration.addressGuard = addressGuard
        try change(&configuration)
        var request = URLRequest(url: try #require(URL(string: address), "\(address)"))
        request.timeoutInterval = 10
        return try #require(load(request, configuration: configuration, thread: thread))
    }

    private func expectRefusal(
        _ heard: Collector.Heard, of address: String, _ comment: String = "",
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(heard.error?.code == .dataNotAllowed, "\(comment) \(heard.ends)", sourceLocation: sourceLocation)
        #expect(
            heard.error?.addressRefusal?.address.description == address, "\(comment) \(heard.ends)",
            sourceLocation: sourceLocation)
        #expect(heard.heads.isEmpty && heard.body.isEmpty, sourceLocation: sourceLocation)
    }

    /// The arguments are spellings and the addresses that they represent.
    @Test(arguments: [
        ("127.0.0.1", "127.0.0.1"), ("0x7f.1", "127.0.0.1"), ("0x7f000001", "127.0.0.1"), ("017700000001", "127.0.0.1"),
        ("2130706433", "127.0.0.1"), ("127.1", "127.0.0.1"), ("0", "0.0.0.0"), ("0.0.0.0", "0.0.0.0"),
        ("127.0.0.1.", "127.0.0.1"), ("[::1]", "::1"), ("[::]", "::"), ("[0:0::1]", "::1"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"), ("[::ffff:7f00:1]", "127.0.0.1"), ("[::ffff:0:0]", "0.0.0.0"),
        ("[::127.0.0.1]", "::127.0.0.1"), ("[64:ff9b::7f00:1]", "64:ff9b::7f00:1"),
        ("[2002:7f00:1::1]", "2002:7f00:1::1"), ("[fe80::1%25lo]", "fe80::1"), ("[fe80::1%251]", "fe80::1"),
        ("169.254.169.254", "169.254.169.254"), ("10.0.0.1", "10.0.0.1"),
    ])
    func `no spelling of an address bypasses the guard`(_ host: String, _ address: String) throws {
        let counter = try AcceptCounter()
        let heard = try get("http://\(host):\(counter.port)/", guardedBy: .publicAddresses)
        if heard.error?.code == .badURL || heard.error?.code == .cannotFindHost {
            // Foundation and libcurl do not accept every spelling.
            #expect(["127.0.0.1.", "[fe80::1%25lo]", "[fe80::1%251]"].contains(host), "\(heard.ends)")
        } else {
            expectRefusal(heard, of: address, host)
        }
        #expect(counter.takeCount() == 0)
    }

    /// No socket is opened, because the server would detect a connection that is rejected after it was established.
    @Test(arguments: [
        ["127.0.0.0/8", "::1"], ["::ffff:127.0.0.0/104", "::1/128"], ["127.0.0.1", "::1"], ["::ffff:7f00:1", "::/0"],
    ])
    func `a custom list of loopback addresses also covers the unspecified address`(_ denied: [String]) throws {
        let own = AddressGuard(deny: try denied.map { try IPNetwork($0) })
        for host in ["0.0.0.0", "0", "0x0", "127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:0.0.0.0]", "[::ffff:0:0]"] {
            let counter = try AcceptCounter()
            let heard = try get("http://\(host):\(counter.port)/", guardedBy: own)
            #expect(heard.error?.code == .dataNotAllowed, "\(host): \(heard.ends)")
            #expect(heard.error?.addressRefusal != nil, "\(host): \(heard.ends)")
            #expect(counter.takeCount() == 0, "\(host)")
        }
        let server = try TestServer()
        server.route("/", .text("secret"))
        for host in ["0.0.0.0", "[::ffff:0.0.0.0]", "[::ffff:127.0.0.1]"] {
            #expect(try get("http://\(host):\(server.port)/", guardedBy: own).error?.code == .dataNotAllowed)
        }
        #expect(server.totalConnectionCount == 0)
        // As a control, an address that is not denied is reached.
        let other = AddressGuard(deny: [try IPNetwork("10.0.0.0/8")])
        #expect(try get("http://0.0.0.0:\(server.port)/", guardedBy: other).text == "secret")
    }

    @Test(arguments: ["localhost", "LOCALHOST", "localhost.", "a.localhost"])
    func `names of the local machine are rejected`(_ host: String) throws {
        let counter = try AcceptCounter()
        let heard = try get("http://\(host):\(counter.port)/", guardedBy: .publicAddresses)
        if heard.error?.code != .cannotFindHost {
            #expect(heard.error?.code == .dataNotAllowed, "\(heard.ends)")
            #expect(["127.0.0.1", "::1"].contains(heard.error?.addressRefusal?.address.description))
        }
        #expect(counter.takeCount() == 0)
        // As a control, the address is reached without a guard.
        var request = URLRequest(url: try #require(URL(string: "http://localhost:\(counter.port)/")))
        request.timeoutInterval = 0.2
        #expect(load(request)?.error?.code == .timedOut)
        #expect(counter.takeCount() > 0)
    }

    @Test(arguments: [false, true])
    func `a redirect does not bypass the guard`(overTLS: Bool) throws {
        let counter = try AcceptCounter()
        let server = try TestServer()
        for (path, target) in [
            ("/metadata", "http://169.254.169.254/latest/"), ("/other", "http://127.0.0.2:\(counter.port)/"),
            ("/hex", "http://0x7f.2:\(counter.port)/"), ("/mapped", "http://[::ffff:7f00:2]:\(counter.port)/"),
            ("/chain", "/other"),
        ] {
            server.redirect(path, to: overTLS ? target.replacingOccurrences(of: "http:", with: "https:") : target)
        }
        let addressGuard = AddressGuard.publicAddresses.allowing(try IPNetwork("127.0.0.1"))
        let thread = NetworkThread()
        for (path, address) in [
            ("/metadata", "169.254.169.254"), ("/other", "127.0.0.2"), ("/hex", "127.0.0.2"), ("/mapped", "127.0.0.2"),
            ("/chain", "127.0.0.2"),
        ] {
            let heard = try get(server.url(path).absoluteString, guardedBy: addressGuard, on: thread)
            expectRefusal(heard, of: address, path)
            #expect(heard.error?.failingURL?.host != "127.0.0.1")
        }
        #expect(counter.takeCount() == 0)
    }

    @Test func `existing connections are checked as well`() throws {
        let server = try TestServer()
        server.route("/", .text("secret"))
        let thread = NetworkThread()
        let address = server.url("/").absoluteString
        #expect(try get(address, guardedBy: nil, on: thread).text == "secret")
        expectRefusal(try get(address, guardedBy: .publicAddresses, on: thread), of: "127.0.0.1")
        #expect(server.requests.count == 1)
        #expect(server.totalConnectionCount == 1)
        // Requests without this guard are still served, over an existing connection.
        for _ in 0..<2 { #expect(try get(address, guardedBy: .loopbackOnly, on: thread).text == "secret") }
        expectRefusal(try get(address, guardedBy: .publicAddresses, on: thread), of: "127.0.0.1")
        #expect(server.requests.count == 3)
    }

    @Test(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"))
    func `a connection in use is checked without disturbing other transfers`() throws {
        let nginx = try Nginx()
        _ = try nginx.add(PatternBytes.data(count: 4 << 20), as: "large.bin")
        let thread = NetworkThread()
        var configuration = ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority)
        configuration.proxy = .none
        // One transfer over HTTP/2 is in progress, and held back halfway.
        let other = Collector(onData: { $0.suspendReceiving() })
        let connection = RequestChain(
            request: URLRequest(url: nginx.secureURL("large.bin")), configuration: configuration, delegate: other,
            thread: thread)
        connection.start()
        try eventually("its first bytes") { !other.body.isEmpty }
        let heard = try get(nginx.secureURL("small").absoluteString, guardedBy: .publicAddresses, on: thread) {
            $0.certificateAuthorities = nginx.certificateAuthority
        }
        #expect(["127.0.0.1"].contains(heard.error?.addressRefusal?.address.description), "\(heard.ends)")
        #expect(heard.heads.isEmpty)
        // The other transfer continues on the same connection.
        while other.wait(within: 0.01) == nil { connection.resumeReceiving() }
        #expect(other.heardSoFar.body.count == 4 << 20)
        #expect(other.heardSoFar.isFinished)
    }

    @Test func `the guard checks the address of the proxy`() throws {
        let proxy = try TestServer()
        proxy.route(nil, "/*", .text("by proxy"))
        let through = ProxySelection.proxy(try Proxy("127.0.0.1:\(proxy.port)"))
        let refused = try get("http://example.com/", guardedBy: .publicAddresses) { $0.proxy = through }
        expectRefusal(refused, of: "127.0.0.1")
        #expect(refused.error?.addressRefusal?.isProxy == true)
        #expect(refused.error?.localizedDescription.contains("proxy") == true)
        #expect(proxy.totalConnectionCount == 0)
        // The guard does not apply to the proxy's own connections.
        let passed = try get("http://169.254.169.254/", guardedBy: .loopbackOnly) { $0.proxy = through }
        #expect(passed.text == "by proxy")
    }

    @Test func `a Unix socket is not subject to the guard`() throws {
        let directory = try TemporaryDirectory(prefix: "convoy-unix")
        defer { directory.remove() }
        let server = try UnixServer(directory.file("socket").path)
        defer { server.stop() }
        let thread = NetworkThread()
        for _ in 0..<2 {
            let heard = try get("http://localhost/", guardedBy: .publicAddresses, on: thread) {
                $0.unixSocket = directory.file("socket").path
            }
            #expect(heard.isFinished, "\(heard.ends)")
        }
        #expect(server.connectionCount == 1)
    }
}
