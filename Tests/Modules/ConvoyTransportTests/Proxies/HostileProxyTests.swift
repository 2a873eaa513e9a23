import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import XCTest

@testable import ConvoyTransport

/// Tests that the response of a proxy that should open a tunnel (RFC 9110, section 9.3.6), but sends something else, is
/// never mistaken for the response of the https origin. The tests use XCTest, which runs them serially, because they
/// share the environment.
final class HostileProxyTests: XCTestCase {
    /// Returns the responses to CONNECT. A client that checks the status of CONNECT detects all but the last.
    private static func lies(_ evil: URL) -> [(name: String, answer: ConnectProxy.Behaviour)] {
        func full(_ status: String, _ fields: String = "") -> ConnectProxy.Behaviour {
            .says("HTTP/1.1 \(status)\r\n\(fields)Content-Length: 6\r\n\r\nforged")
        }
        let elsewhere = "Location: \(evil.absoluteString)/stolen\r\n"
        let redirects = [301, 302, 303, 307, 308].map { ("\($0) to another server", full("\($0) Moved", elsewhere)) }
        let kept = (
            "302, kept open",
            ConnectProxy.Behaviour.fallsSilent(after: "HTTP/1.1 302 Found\r\n\(elsewhere)Content-Length: 0\r\n\r\n")
        )
        return redirects + [kept] + [
            ("304", full("304 Not Modified", "ETag: \"1\"\r\n")),
            ("401", full("401 Unauthorized", "WWW-Authenticate: Basic realm=\"bank\"\r\n")),
            ("403", full("403 Forbidden")),
            ("404", full("404 Not Found")),
            ("407", full("407 Proxy Authentication Required", "Proxy-Authenticate: Basic realm=\"proxy\"\r\n")),
            ("407 without a challenge or a length", .says("HTTP/1.1 407 No\r\n\r\n")),
            ("416", full("416 Range Not Satisfiable", "Content-Range: bytes */100\r\n")),
            ("500", full("500 Internal Server Error")),
            ("502", full("502 Bad Gateway")),
            ("503", full("503 Service Unavailable", "Retry-After: 3600\r\n")),
            ("an interim answer alone", .says("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")),
            ("101", full("101 Switching Protocols", "Upgrade: tls\r\n")),
            ("the status line alone", .says("HTTP/1.1 302 Found\r\n")),
            ("half a head", .says("HTTP/1.1 302 Found\r\n\(elsewhere)")),
            ("half a status line", .says("HTTP/1.1 20")),
            ("nothing", .says("")),
            ("no HTTP", .says("220 smtp.example.com ESMTP\r\n")),
            ("another protocol's version", .says("HTTP/3.7 302 Found\r\n\(elsewhere)\r\n")),
            ("200 and a body in plain text", full("200 OK")),
            (
                "200 and a response in plain text",
                .says("\(ConnectProxy.established)HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
            ),
            ("200 and a redirect in plain text", .says("\(ConnectProxy.established)HTTP/1.1 302 Found\r\n\(elsewhere)\r\n")),
            ("206", full("206 Partial Content", "Content-Range: bytes 5-10/11\r\n")),
            ("204", .says("HTTP/1.1 204 No Content\r\n\r\n")),
        ]
    }

    private let bank = URL(string: "https://bank.invalid/secret")

    /// Sends a request through the proxy on separate connections.
    private func ask(_ request: URLRequest, through proxy: ConnectProxy) throws -> Collector.Heard {
        try withEnvironment(["https_proxy": proxy.address]) { try XCTUnwrap(load(request, thread: NetworkThread())) }
    }

    private func expectNothing(_ heard: Collector.Heard, _ name: String) {
        XCTAssertNotNil(heard.error, "\(name): \(heard.ends)")
        XCTAssertEqual(heard.ends.count, 1, name)
        XCTAssertEqual(heard.heads.map(\.statusCode), [], "\(name) became the response")
        XCTAssertEqual(heard.redirects.map(\.response.statusCode), [], "\(name) was taken for a redirect")
        XCTAssertEqual(heard.text, "", name)
    }

    func testNothingThatAProxySaysInPlainTextIsTheOriginsResponse() throws {
        let evil = try TestServer()
        evil.route(nil, "/*", .text("forged"))
        let url = try XCTUnwrap(bank)
        for (name, answer) in Self.lies(evil.url) {
            let before = evil.requests.count
            let proxy = try ConnectProxy(answer)
            defer { proxy.stop() }
            var request = URLRequest(url: url)
            request.timeoutInterval = 20
            expectNothing(try ask(request, through: proxy), name)
            XCTAssertEqual(evil.requests.count, before, "\(name) was followed")
            XCTAssertEqual(proxy.heads.first?.hasPrefix("CONNECT bank.invalid:443 HTTP/1.1\r\n"), true, name)
        }
    }

    func testALineThatIsNotAFieldMakesTheProxysAnswerAnError() throws {
        let url = try XCTUnwrap(bank)
        for (name, fields) in [
            ("a blank before the colon", "Via : x\r\n"), ("a blank in a name", "X A: 1\r\n"),
            ("no name", "X: 1\r\n 2\r\n: 3\r\n"),
            ("no colon", "X-A\r\n"), ("a fold at the beginning", " X: 1\r\n"),
        ] {
            for status in ["200 OK", "407 No"] {
                let proxy = try ConnectProxy(.says("HTTP/1.1 \(status)\r\n\(fields)Content-Length: 0\r\n\r\n"))
                defer { proxy.stop() }
                let heard = try ask(URLRequest(url: url), through: proxy)
                expectNothing(heard, name)
                // libcurl rejects some of these lines itself, and has already read the 407.
                guard status == "200 OK" else { continue }
                XCTAssertEqual(heard.error?.code, .badServerResponse, name)
            }
        }
    }

    func testAProxysAnswerIsNeverTheOneToARange() throws {
        let evil = try TestServer()
        let url = try XCTUnwrap(bank)
        for (name, answer) in Self.lies(evil.url) {
            let proxy = try ConnectProxy(answer)
            defer { proxy.stop() }
            var request = URLRequest(url: url)
            request.setValue("bytes=5-", forHTTPHeaderField: "Range")
            request.setValue("\"1\"", forHTTPHeaderField: "If-Range")
            expectNothing(try ask(request, through: proxy), name)
        }
    }

    func testABodyIsNeverSentWhereNoTunnelIs() throws {
        let evil = try TestServer()
        evil.route(nil, "/*", .text("forged"))
        let url = try XCTUnwrap(bank)
        for (name, answer) in Self.lies(evil.url) {
            let before = evil.requests.count
            let proxy = try ConnectProxy(answer)
            defer { proxy.stop() }
            var request = URLRequest(url: url)
            request.httpMethod = "POST"
            request.httpBody = Data("password".utf8)
            request.setValue("Bearer secret", forHTTPHeaderField: "Authorization")
            let heard = try ask(request, through: proxy)
            expectNothing(heard, name)
            XCTAssertEqual(heard.sent, 0, name)
            XCTAssertEqual(evil.requests.count, before, "\(name) was followed")
            for head in proxy.heads { XCTAssertFalse(head.contains("secret"), "\(name): \(head)") }
        }
    }

    func testAProxyThatSaysNothingMoreIsATimeout() throws {
        let url = try XCTUnwrap(bank)
        for said in ["", "HTTP/1.1 302 Fou", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n"] {
            let proxy = try ConnectProxy(.fallsSilent(after: said))
            defer { proxy.stop() }
            var request = URLRequest(url: url)
            request.timeoutInterval = 0.5
            let heard = try ask(request, through: proxy)
            expectNothing(heard, said.debugDescription)
            XCTAssertEqual(heard.error?.code, .timedOut, said.debugDescription)
        }
    }

    func testAnAnswerToCONNECTWithoutAnEndIsAnErrorAndHoldsUpNobody() throws {
        try expectErrorThatHoldsUpNobody([
            ("fields", .saysForever("HTTP/1.1 200 OK\r\n", "X-Field: value\r\n")),
            ("one line", .saysForever("HTTP/1.1 200 OK\r\nX-Field: ", "value")),
            ("interim answers", .saysForever("", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")),
        ])
    }

    /// libcurl reads the entire body of a 407 byte by byte, and returns only then.
    func testARefusalWhoseBodyHasNoEndIsAnErrorAndHoldsUpNobody() throws {
        let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\n"
        try expectErrorThatHoldsUpNobody([
            ("a body", .saysForever("\(refusal)Content-Length: 900000000000000000\r\n\r\n", "value")),
            ("chunks", .saysForever("\(refusal)Transfer-Encoding: chunked\r\n\r\n", "5\r\nvalue\r\n")),
        ])
    }

    private func expectErrorThatHoldsUpNobody(_ endless: [(String, ConnectProxy.Behaviour)]) throws {
        let server = try TestServer()
        server.route(nil, "/quick", .text("quick"))
        let url = try XCTUnwrap(bank)
        for (name, behaviour) in endless {
            let proxy = try ConnectProxy(behaviour)
            // Stopping the proxy closes connections that may be stuck.
            defer { proxy.stop() }
            let thread = NetworkThread()
            let collector = Collector()
            let other = Collector()
            try withEnvironment(["https_proxy": proxy.address]) {
                RequestChain(request: URLRequest(url: url), delegate: collector, thread: thread).start()
                try eventually("\(name): CONNECT") { !proxy.heads.isEmpty }
                RequestChain(request: URLRequest(url: server.url("/quick")), delegate: other, thread: thread).start()
                XCTAssertEqual(other.wait(within: 20)?.text, "quick", "\(name) held up another transfer")
            }
            guard let heard = collector.wait(within: 20) else {
                XCTFail("\(name): no end")
                continue
            }
            expectNothing(heard, name)
        }
    }

    func testATunnelToAServerThatIsNotTheOriginIsRefused() throws {
        // The server has a certificate from a different authority, for a different name.
        let other = try OpenSSLServer(.status)
        let proxy = try ConnectProxy(.tunnels(to: other.port))
        defer { proxy.stop() }
        let heard = try ask(URLRequest(url: try XCTUnwrap(bank)), through: proxy)
        expectNothing(heard, "another server")
        XCTAssertEqual(heard.error?.code, .serverCertificateHasUnknownRoot)
    }

    func testATrustedCertificateForAnotherNameIsRefused() throws {
        let other = try OpenSSLServer(.status)
        let proxy = try ConnectProxy(.tunnels(to: other.port))
        defer { proxy.stop() }
        let configuration = ConnectionConfiguration(certificateAuthorities: other.certificates.certificateAuthority)
        let request = URLRequest(url: try XCTUnwrap(bank))
        let heard = try withEnvironment(["https_proxy": proxy.address]) {
            try XCTUnwrap(load(request, configuration: configuration, thread: NetworkThread()))
        }
        expectNothing(heard, "localhost in place of bank.invalid")
        XCTAssertEqual(heard.error?.code, .serverCertificateUntrusted)
    }
}
