import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Requests over a Unix socket instead of the network.
@Suite struct UnixSocketTests {
    private func get(_ text: String, over socket: String?, on thread: NetworkThread) throws -> Collector.Heard {
        var configuration = ConnectionConfiguration()
        configuration.unixSocket = socket
        // The proxy is not used, because it would have nothing to connect to.
        configuration.proxy = .proxy(try Proxy("http://127.0.0.1:1"))
        if socket == nil { configuration.proxy = .none }
        let url = try #require(URL(string: text))
        return try #require(load(URLRequest(url: url), configuration: configuration, thread: thread))
    }

    @Test(arguments: [false, true])
    func `a request is sent with the host of its URL`(isAbstract: Bool) throws {
        let directory = try TemporaryDirectory(prefix: "convoy-unix")
        defer { directory.remove() }
        let path = isAbstract ? "@convoy-\(UUID())" : directory.file("socket").path
        let server = try UnixServer(path)
        defer { server.stop() }
        let thread = NetworkThread()
        for _ in 0..<2 {
            let heard = try get("http://no-such-host.invalid/path?x=1", over: path, on: thread)
            #expect(heard.text.hasPrefix("GET /path?x=1 HTTP/1.1\r\nHost: no-such-host.invalid\r\n"), "\(heard.ends)")
        }
        // The second request reuses the connection of the first, if libcurl supports that.
        #expect(server.connectionCount == (isAbstract ? 2 : 1))
    }

    @Test func `a connection serves only requests for the same socket`() throws {
        let server = try TestServer()
        server.route("/", .text("by the network"))
        let directory = try TemporaryDirectory(prefix: "convoy-unix")
        defer { directory.remove() }
        let names = (0..<2).map { directory.file("\($0)").path }
        let unix = try names.map { try UnixServer($0) }
        defer { for server in unix { server.stop() } }
        let thread = NetworkThread()
        let address = server.url("/").absoluteString
        for round in 1...2 {
            #expect(try get(address, over: nil, on: thread).text == "by the network")
            for (name, server) in zip(names, unix) {
                _ = try get(address, over: name, on: thread)
                #expect(server.requests.count == round)
            }
        }
        #expect(unix.map(\.connectionCount) == [1, 1])
        #expect(server.requests.count == 2)
    }

    @Test func `a socket without a listener is an error`() throws {
        let heard = try get("http://localhost/", over: "/nonexistent/socket", on: NetworkThread())
        #expect(heard.error?.code == .cannotConnectToHost)
        let text = try #require(heard.error?.localizedDescription)
        #expect(text == "Cannot connect to the Unix socket /nonexistent/socket: No such file or directory.")
    }

    @Test(arguments: ["", "@", "a\u{0}b", String(repeating: "x", count: 108)])
    func `an invalid socket path is an error`(_ path: String) throws {
        let heard = try get("http://localhost/", over: path, on: NetworkThread())
        #expect(heard.error?.code == .badURL)
    }
}
