import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that each named identity has separate connections.
@Suite struct IdentityConnectionTests {
    private let thread = NetworkThread()
    private let names: [String?] = ["ada", "eve", nil, "\u{E9}", "e\u{301}", "ada", nil, "eve"]

    private func get(
        _ url: URL, as name: String?, _ change: (inout ConnectionConfiguration) throws -> Void = { _ in }
    ) throws -> Collector.Heard {
        var configuration = ConnectionConfiguration()
        configuration.proxy = .none
        configuration.identity = name
        configuration.collectsMetrics = true
        try change(&configuration)
        return try #require(load(URLRequest(url: url), configuration: configuration, thread: thread))
    }

    /// Checks that each name has its own connection, and reuses only that one.
    private func expectOwn(_ get: (String?) throws -> Collector.Heard) throws {
        var seen: Set<[UInt8]> = []
        for name in names + names {
            let heard = try get(name)
            #expect(heard.heads.last?.statusCode == 200, "\(heard.ends)")
            let isNew = seen.insert(Array((name ?? "nobody").utf8)).inserted
            #expect(heard.metrics.last?.isReusedConnection == !isNew, "\(name ?? "none")")
        }
    }

    @Test func `identities do not share HTTP/1.1 connections`() throws {
        let server = try TestServer()
        server.route("/", .text("hello"))
        try expectOwn { try get(server.url("/"), as: $0) }
        #expect(server.totalConnectionCount == 5)
        // The ports show that no two names shared a connection.
        let requests = server.requests
        let keys = (names + names).map { Array(($0 ?? "nobody").utf8) }
        for (request, key) in zip(requests, keys) {
            #expect(request.connection == keys.firstIndex(of: key).map { requests[$0].connection })
        }
    }

    @Test(.enabled(if: Nginx.isInstalled, "\(Nginx.installHint)"))
    func `identities share neither HTTP/2 connections nor proxy tunnels`() throws {
        let nginx = try Nginx()
        _ = try nginx.add(Data("hello".utf8), as: "text.txt")
        let url = try #require(URL(string: "https://localhost:\(nginx.securePort)/text.txt"))
        try expectOwn { name in
            let heard = try get(url, as: name) { $0.certificateAuthorities = nginx.certificateAuthority }
            #expect(heard.metrics.last?.networkProtocolName == "h2")
            return heard
        }
        let proxy = try ConnectProxy(.tunnels(to: UInt16(nginx.securePort)))
        defer { proxy.stop() }
        try expectOwn { name in
            try get(url, as: name) {
                $0.certificateAuthorities = nginx.certificateAuthority
                $0.proxy = .proxy(try Proxy(proxy.address))
            }
        }
        #expect(proxy.heads.count == 5)
    }

    @Test func `identities do not share connections over a Unix socket`() throws {
        let directory = try TemporaryDirectory(prefix: "convoy-socket")
        defer { directory.remove() }
        let path = directory.file("socket").path
        let server = try UnixServer(path)
        defer { server.stop() }
        let url = try #require(URL(string: "http://localhost/"))
        try expectOwn { name in try get(url, as: name) { $0.unixSocket = path } }
    }

    @Test func `concurrent requests do not mix identities`() throws {
        let server = try TestServer()
        server.route("/*", .text("hello"))
        let names = (0..<12).map { "user \($0 % 4)" }
        DispatchQueue.concurrentPerform(iterations: 4) { worker in
            for (index, name) in names.enumerated() {
                let target = server.url("/\(name.suffix(1))?\(worker)-\(index)")
                _ = try? get(target, as: name)
            }
        }
        var owners: [Int: Set<Substring>] = [:]
        for request in server.requests { owners[request.connection, default: []].insert(request.target.prefix(2)) }
        #expect(server.requests.count == 48 && owners.values.allSatisfy { $0.count == 1 })
    }

    @Test func `canonically equivalent header values remain distinct`() throws {
        let server = try TestServer()
        server.route("/", .text("hello"))
        for key in ["\u{E9}", "e\u{301}", "K", "\u{212A}"] {
            var request = URLRequest(url: server.url("/"))
            request.allHTTPHeaderFields = ["X-Api-Key": key]
            var configuration = ConnectionConfiguration()
            configuration.proxy = .none
            _ = load(request, configuration: configuration, thread: thread)
        }
        #expect(Set(server.requests.map { Array(($0.headers["X-Api-Key"] ?? "").utf8) }).count == 4)
    }
}
