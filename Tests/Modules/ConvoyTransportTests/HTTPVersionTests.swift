import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Requests with HTTP/1.0.
@Suite struct HTTPVersionTests {
    let server: TestServer
    private let thread: NetworkThread

    init() throws {
        server = try TestServer()
        server.route(nil, "*", .text("taken"))
        thread = NetworkThread()
    }

    private static func configuration(_ version: HTTPVersion = .http1_0) -> ConnectionConfiguration {
        var configuration = ConnectionConfiguration()
        configuration.maximumHTTPVersion = version
        return configuration
    }

    private func send(_ request: URLRequest, _ version: HTTPVersion = .http1_0) throws -> Collector.Heard {
        try #require(load(request, configuration: Self.configuration(version), thread: thread))
    }

    private func request(_ path: String, _ method: String = "GET", body: String? = nil) -> URLRequest {
        var request = URLRequest(url: server.url(path))
        request.httpMethod = method
        request.httpBody = body.map { Data($0.utf8) }
        return request
    }

    @Test(arguments: ["GET", "HEAD", "POST", "PUT", "DELETE"])
    func `a request is sent with HTTP/1.0, the length of its body, and without Expect`(_ method: String) throws {
        var request = request("/x?a=b", method, body: method == "POST" || method == "PUT" ? "some bytes" : nil)
        request.setValue("100-continue", forHTTPHeaderField: "Expect")
        let heard = try send(request)
        #expect(heard.isFinished && heard.text == (method == "HEAD" ? "" : "taken"), "\(heard.ends)")
        let received = try #require(server.requests.last)
        #expect(received.version == "HTTP/1.0" && received.method == method && received.target == "/x?a=b")
        #expect(received.headers["Expect"] == nil && received.headers["Transfer-Encoding"] == nil)
        #expect(received.headers["Host"] != nil)
        #expect(received.headers["Content-Length"] == (request.httpBody == nil ? nil : "10"))
        #expect(received.text == (request.httpBody == nil ? "" : "some bytes"))
        // The same handle sends the expectation again with HTTP/1.1.
        #expect(try send(request, .http1_1).isFinished)
        #expect(server.requests.last?.version == "HTTP/1.1" && server.requests.last?.headers["Expect"] == "100-continue")
    }

    /// The server keeps every connection open, and responds with HTTP/1.1.
    @Test func `no request shares a connection with a request of HTTP/1.0`() throws {
        let versions: [HTTPVersion] = [.http1_1, .http1_0, .http1_0, .http1_1, .http1_0, .http1_1]
        for version in versions {
            var request = request("/x")
            request.setValue("keep-alive", forHTTPHeaderField: "Connection")
            #expect(try send(request, version).isFinished)
        }
        let connections = server.requests.map(\.connection)
        #expect(server.requests.map(\.version) == versions.map(\.description))
        #expect(connections[0] == connections[3] && connections[3] == connections[5], "\(connections)")
        #expect(Set(connections).count == 4, "\(connections)")
    }

    @Test(arguments: [
        "HTTP/1.0 200 OK\r\n\r\ntaken", "HTTP/1.1 200 OK\r\n\r\ntaken",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\ntaken",
        "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\ntaken",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ntaken\r\n0\r\n\r\n",
    ])
    func `a response is complete at its end, regardless of its version`(_ answer: String) throws {
        let said = Locked<[String]>([])
        let raw = try RawServer { bytes in
            said.withLock { $0.append(String(decoding: bytes, as: UTF8.self)) }
            return Array(answer.utf8)
        }
        defer { raw.stop() }
        let url = try #require(URL(string: "http://127.0.0.1:\(raw.port)/a"))
        for _ in 0..<2 {
            let heard = try send(URLRequest(url: url))
            #expect(heard.isFinished && heard.text == "taken", "\(heard.ends)")
        }
        #expect(said.withLock { $0.count } == 2)
        #expect(said.withLock { $0.allSatisfy { $0.hasPrefix("GET /a HTTP/1.0\r\n") } })
    }

    @Test func `a truncated response of known length fails`() throws {
        let raw = try RawServer(answer: Array("HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\ntaken".utf8))
        defer { raw.stop() }
        let heard = try send(URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(raw.port)/"))))
        #expect(heard.error?.code == .networkConnectionLost, "\(heard.ends)")
    }

    @Test func `a stream is sent if its length is known, and is refused otherwise`() throws {
        var request = request("/x", "POST")
        request.httpBodyStream = InputStream(data: Data("some bytes".utf8))
        let heard = try send(request)
        #expect(heard.error?.code == .badURL, "\(heard.ends)")
        #expect(heard.error?.localizedDescription.contains("Content-Length") == true)
        #expect(server.totalConnectionCount == 0)
        request.httpBodyStream = InputStream(data: Data("some bytes".utf8))
        request.setValue("10", forHTTPHeaderField: "Content-Length")
        #expect(try send(request).isFinished)
        #expect(server.requests.last?.text == "some bytes" && server.requests.last?.headers["Content-Length"] == "10")
    }

    @Test func `a redirect is followed with the same version`() throws {
        server.redirect("/old", to: "/new")
        #expect(try send(request("/old")).isFinished)
        #expect(server.requests.map(\.version) == ["HTTP/1.0", "HTTP/1.0"])
        #expect(server.requests.map(\.target) == ["/old", "/new"])
    }

    @Test func `a proxy receives requests of HTTP/1.0`() throws {
        var configuration = Self.configuration()
        configuration.proxy = .proxy(try Proxy(server.url.absoluteString))
        for _ in 0..<2 {
            let url = try #require(URL(string: "http://elsewhere.invalid/x"))
            let heard = load(URLRequest(url: url), configuration: configuration, thread: thread)
            #expect(heard?.isFinished == true && heard?.text == "taken", "\(heard?.ends ?? [])")
        }
        #expect(server.requests.map(\.version) == ["HTTP/1.0", "HTTP/1.0"])
        #expect(server.requests.map(\.target) == ["http://elsewhere.invalid/x", "http://elsewhere.invalid/x"])
        #expect(server.totalConnectionCount == 2)
    }

    @Test(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"))
    func `a server that offers HTTP/2 over TLS receives HTTP/1.0`() throws {
        let nginx = try Nginx()
        _ = try nginx.add(Data("taken".utf8), as: "a.txt")
        var configuration = Self.configuration()
        configuration.securityPolicy.certificateAuthorities = .file(nginx.certificateAuthority)
        var versions: [String] = []
        for version in [HTTPVersion.http2, .http1_0, .http1_1, .http1_0, .http2] {
            configuration.maximumHTTPVersion = version
            configuration.collectsMetrics = true
            let request = URLRequest(url: nginx.secureURL("a.txt"))
            let heard = try #require(load(request, configuration: configuration, thread: thread))
            #expect(heard.isFinished && heard.text == "taken", "\(heard.ends)")
            versions.append(heard.heads.first?.httpVersion ?? "")
            let isReused = try #require(heard.metrics.first).isReusedConnection
            if version == .http1_0 { #expect(!isReused) }
        }
        // nginx answers HTTP/1.0 with its own version.
        #expect(versions == ["HTTP/2", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/2"])
    }

    @Test func `usesHTTP2 changes the maximum version`() {
        var configuration = ConnectionConfiguration()
        #expect(configuration.maximumHTTPVersion == .http2 && configuration.usesHTTP2)
        configuration.usesHTTP2 = false
        #expect(configuration.maximumHTTPVersion == .http1_1)
        configuration.maximumHTTPVersion = .http1_0
        configuration.usesHTTP2 = false
        #expect(configuration.maximumHTTPVersion == .http1_0 && !configuration.usesHTTP2)
        configuration.usesHTTP2 = true
        #expect(configuration == ConnectionConfiguration())
        #expect(HTTPVersion.allCases.sorted() == [.http1_0, .http1_1, .http2])
    }
}
