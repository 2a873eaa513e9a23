import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import XCTest

@testable import ConvoyTransport

/// Tests that the response of an https origin is delivered through a tunnel, whatever the proxy's own response. The
/// tests use XCTest, which runs them serially, because they share the environment.
final class TunnelTests: XCTestCase {
    /// Fields that would be significant in a response, in a proxy's response to CONNECT (RFC 9110, section 9.3.6).
    private static let misleading = """
        HTTP/1.1 200 OK\r
        ETag: "proxy"\r
        Last-Modified: Mon, 01 Jan 2001 00:00:00 GMT\r
        Content-Encoding: gzip\r
        Content-Type: text/proxy\r
        Content-Length: 5\r
        Content-Range: bytes 0-4/5\r
        Location: http://127.0.0.1:1/\r
        Set-Cookie: proxy=1\r
        Retry-After: 3600\r
        \r

        """

    private static let partial = """
        HTTP/1.1 206 Partial Content\r
        ETag: "proxy"\r
        Content-Range: bytes 100-104/105\r
        Content-Length: 5\r
        \r

        """

    private let text = Data(String(repeating: "All work and no play makes Jack a dull boy.\n", count: 5_000).utf8)

    /// Calls a closure for each honest route to the server: a real proxy, if installed, and a few unusual ones.
    private func forEachTunnel(
        _ body: (_ name: String, _ nginx: Nginx, _ load: (URLRequest) throws -> Collector.Heard) throws -> Void
    ) throws {
        guard Nginx.isInstalled else { throw XCTSkip("needs \(Nginx.installHint)") }
        let nginx = try Nginx()
        _ = try nginx.add(text, as: "text.txt")
        func run(_ name: String, _ address: String) throws {
            for usesHTTP2 in [true, false] {
                let configuration = ConnectionConfiguration(
                    certificateAuthorities: nginx.certificateAuthority, usesHTTP2: usesHTTP2)
                let thread = NetworkThread()
                try withEnvironment(["https_proxy": address]) {
                    try body("\(name)\(usesHTTP2 ? ", HTTP/2" : "")", nginx) { request in
                        try XCTUnwrap(load(request, configuration: configuration, thread: thread))
                    }
                }
            }
        }
        for (name, answer) in [
            ("a plain answer", ConnectProxy.established), ("misleading fields", Self.misleading), ("206", Self.partial),
            ("a folded field", "HTTP/1.1 200 OK\r\nX-Note: a\r\n b\r\n\r\n"),
        ] {
            let proxy = try ConnectProxy(.tunnels(to: nginx.securePort, saying: answer))
            defer { proxy.stop() }
            try run(name, proxy.address)
        }
        guard Tinyproxy.isInstalled else { throw XCTSkip("needs \(Tinyproxy.installHint)") }
        let proxy = try Tinyproxy(connectPorts: [nginx.securePort])
        try run("tinyproxy", proxy.address)
    }

    private func expectOrigin(_ heard: Collector.Heard, _ status: Int, _ name: String) {
        XCTAssertTrue(heard.isFinished, "\(name): \(heard.ends)")
        XCTAssertEqual(heard.heads.map(\.statusCode), [status], name)
        let head = heard.heads.last
        XCTAssertEqual(head?["Server"]?.hasPrefix("nginx"), true, name)
        XCTAssertNotEqual(head?["ETag"], "\"proxy\"", name)
        for field in ["Set-Cookie", "Retry-After"] { XCTAssertNil(head?[field], name) }
        XCTAssertEqual(head?.isEncoded, false, name)
    }

    func testAFileIsItself() throws {
        try forEachTunnel { name, nginx, load in
            // Send it twice: the second time, the tunnel already exists.
            for _ in 0..<2 {
                let heard = try load(URLRequest(url: nginx.secureURL("text.txt")))
                expectOrigin(heard, 200, name)
                XCTAssertEqual(heard.body, text, name)
                XCTAssertEqual(heard.heads.last?.contentLength, Int64(text.count), name)
                XCTAssertEqual(heard.heads.last?["Content-Type"], "text/plain", name)
            }
        }
    }

    func testARangeIsTheOrigins() throws {
        try forEachTunnel { name, nginx, load in
            var request = URLRequest(url: nginx.secureURL("text.txt"))
            request.setValue("bytes=1000-", forHTTPHeaderField: "Range")
            let heard = try load(request)
            expectOrigin(heard, 206, name)
            XCTAssertEqual(heard.body, text[1000...], name)
            XCTAssertEqual(heard.heads.last?["Content-Range"], "bytes 1000-\(text.count - 1)/\(text.count)", name)
        }
    }

    func testARedirectAnUploadAndAFailureAreTheOrigins() throws {
        try forEachTunnel { name, nginx, load in
            let moved = try load(URLRequest(url: nginx.secureURL("moved")))
            XCTAssertEqual(moved.text, "hello world", name)
            XCTAssertEqual(moved.redirects.map(\.response.statusCode), [302], name)
            XCTAssertEqual(moved.heads.map(\.statusCode), [200], name)

            var request = URLRequest(url: nginx.secureURL("upload"))
            request.httpMethod = "POST"
            request.httpBody = PatternBytes.data(count: 300_000)
            let posted = try load(request)
            XCTAssertTrue(posted.isFinished, "\(name): \(posted.ends)")
            XCTAssertEqual(posted.heads.map(\.statusCode), [204], name)
            XCTAssertEqual(posted.heads.last?["X-Content-Length"], "300000", name)
            XCTAssertEqual(posted.sent, 300_000, name)

            let missing = try load(URLRequest(url: nginx.secureURL("missing")))
            XCTAssertEqual(missing.heads.map(\.statusCode), [404], name)
            XCTAssertTrue(missing.isFinished, name)
        }
    }

    func testTheProxysCredentialsStayWithTheProxy() throws {
        guard Nginx.isInstalled else { throw XCTSkip("needs \(Nginx.installHint)") }
        let nginx = try Nginx()
        let proxy = try ConnectProxy(.tunnels(to: nginx.securePort))
        defer { proxy.stop() }
        let configuration = ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority)
        var request = URLRequest(url: nginx.secureURL("credentials"))
        request.setValue("Bearer origin", forHTTPHeaderField: "Authorization")
        // The credential is set by the request's own field, and as part of the proxy's URL.
        request.setValue("Basic field", forHTTPHeaderField: "Proxy-Authorization")
        let byField = try withEnvironment(["https_proxy": proxy.address]) {
            try XCTUnwrap(load(request, configuration: configuration, thread: NetworkThread()))
        }
        XCTAssertEqual(byField.text, "[Bearer origin][]")
        XCTAssertEqual(proxy.heads.last?.contains("Proxy-Authorization: Basic field\r\n"), true)
        XCTAssertEqual(proxy.heads.last?.contains("origin"), false)

        request.setValue(nil, forHTTPHeaderField: "Proxy-Authorization")
        let byURL = try withEnvironment(["https_proxy": "http://user:word@127.0.0.1:\(proxy.port)"]) {
            try XCTUnwrap(load(request, configuration: configuration, thread: NetworkThread()))
        }
        XCTAssertEqual(byURL.text, "[Bearer origin][]")
        let basic = Data("user:word".utf8).base64EncodedString()
        XCTAssertEqual(proxy.heads.last?.contains("Proxy-Authorization: Basic \(basic)\r\n"), true)
        XCTAssertEqual(proxy.heads.last?.contains("origin"), false)
    }

    func testATraceOfATunnelAndOfHTTP2HasNoSecrets() throws {
        guard Nginx.isInstalled else { throw XCTSkip("needs \(Nginx.installHint)") }
        let nginx = try Nginx()
        let proxy = try ConnectProxy(.tunnels(to: nginx.securePort))
        defer { proxy.stop() }
        let queue = DispatchQueue(label: "Convoy.Trace")
        for usesHTTP2 in [true, false] {
            let heard = Locked<[String]>([])
            var configuration = ConnectionConfiguration(
                certificateAuthorities: nginx.certificateAuthority, usesHTTP2: usesHTTP2)
            configuration.trace = ConnectionTrace(on: queue) { line in heard.withLock { $0.append(line.description) } }
            let address = nginx.secureURL("credentials").absoluteString + "?token=s3cret"
            var request = URLRequest(url: try XCTUnwrap(URL(string: address)))
            request.setValue("Bearer s3cret", forHTTPHeaderField: "Authorization")
            request.setValue("a=s3cret", forHTTPHeaderField: "Cookie")
            request.setValue("Basic s3cret", forHTTPHeaderField: "Proxy-Authorization")
            let answer = try withEnvironment(["https_proxy": "http://user:s3cret@127.0.0.1:\(proxy.port)"]) {
                try XCTUnwrap(load(request, configuration: configuration, thread: NetworkThread()))
            }
            XCTAssertTrue(answer.isFinished)
            queue.sync {}
            let texts = heard.withLock { $0 }
            XCTAssertFalse(texts.contains { $0.contains("s3cret") }, "\(texts)")
            XCTAssertTrue(texts.contains { $0.hasPrefix("> CONNECT ") }, "\(texts)")
            XCTAssertTrue(texts.contains("> Proxy-Authorization: ***"), "\(texts)")
            XCTAssertTrue(texts.contains { $0.lowercased() == "> authorization: ***" }, "\(texts)")
            XCTAssertTrue(texts.contains { $0.hasPrefix(usesHTTP2 ? "< HTTP/2 200" : "< HTTP/1.1 200 OK") }, "\(texts)")
        }
    }

    func testATunnelThatIsCutIsAFailure() throws {
        guard Nginx.isInstalled else { throw XCTSkip("needs \(Nginx.installHint)") }
        let nginx = try Nginx()
        _ = try nginx.add(PatternBytes.data(count: 1 << 20), as: "file.bin")
        let proxy = try ConnectProxy(.tunnels(to: nginx.securePort, saying: Self.misleading))
        defer { proxy.stop() }
        // The tunnel is cut during the handshake, and in the body.
        for count in [100, 300_000] {
            proxy.cut(afterBytes: count)
            let configuration = ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority)
            let heard = try withEnvironment(["https_proxy": proxy.address]) {
                try XCTUnwrap(
                    load(URLRequest(url: nginx.secureURL("file.bin")), configuration: configuration, thread: NetworkThread())
                )
            }
            XCTAssertNotNil(heard.error, "\(count): \(heard.ends)")
            XCTAssertEqual(heard.heads.map(\.statusCode), count == 100 ? [] : [200])
        }
    }

    /// An interim response to CONNECT is unusual; a client may fail, but must not be misled.
    func testAnInterimAnswerBeforeATunnelIsNotTheResponse() throws {
        guard Nginx.isInstalled else { throw XCTSkip("needs \(Nginx.installHint)") }
        let nginx = try Nginx()
        let proxy = try ConnectProxy(
            .tunnels(
                to: nginx.securePort,
                saying: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\(ConnectProxy.established)"))
        defer { proxy.stop() }
        let configuration = ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority)
        let heard = try withEnvironment(["https_proxy": proxy.address]) {
            try XCTUnwrap(
                load(URLRequest(url: nginx.secureURL("small")), configuration: configuration, thread: NetworkThread()))
        }
        if heard.error == nil { expectOrigin(heard, 200, "103") } else { XCTAssertEqual(heard.heads.count, 0) }
    }

    func testARealProxysRefusalIsAFailure() throws {
        guard Tinyproxy.isInstalled else { throw XCTSkip("needs \(Tinyproxy.installHint)") }
        // One port is not allowed by the proxy, and the other has no server.
        let port = try LoopbackPort.free()
        for allowed in [port == 65535 ? 1 : port + 1, port] {
            let proxy = try Tinyproxy(connectPorts: [allowed])
            let url = try XCTUnwrap(URL(string: "https://127.0.0.1:\(port)/secret"))
            let heard = try withEnvironment(["https_proxy": proxy.address]) {
                try XCTUnwrap(load(URLRequest(url: url), thread: NetworkThread()))
            }
            XCTAssertNotNil(heard.error, "\(heard.ends)")
            XCTAssertEqual(heard.heads.map(\.statusCode), [])
        }
    }
}
