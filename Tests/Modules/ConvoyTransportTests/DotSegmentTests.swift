import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Paths with dot segments, which are sent as written or resolved.
@Suite struct DotSegmentTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route(nil, "*", .text("taken"))
    }

    private func get(
        _ path: String, keepsDotSegments: Bool = true, _ change: (inout ConnectionConfiguration) -> Void = { _ in }
    ) throws -> Collector.Heard {
        var configuration = ConnectionConfiguration()
        configuration.keepsDotSegments = keepsDotSegments
        change(&configuration)
        let text = server.url.absoluteString.trimmingSuffix("/") + path
        let url = try #require(URLReference.url(text, keepingDotSegments: true))
        return try #require(load(URLRequest(url: url), configuration: configuration))
    }

    @Test(arguments: [
        ("/a/../b", "/a/../b", "/b"), ("/..", "/..", "/"), ("/a/.", "/a/.", "/a/"),
        ("/./a/./../b?c=/../d", "/./a/./../b?c=/../d", "/b?c=/../d"),
        ("/../../etc/passwd", "/../../etc/passwd", "/etc/passwd"), ("/a//../b", "/a//../b", "/a/b"),
        ("/a/..b/.c/...", "/a/..b/.c/...", "/a/..b/.c/..."), ("", "/", "/"), ("?a", "/?a", "/?a"),
    ])
    func `dot segments are sent as written, or resolved`(path: String, written: String, resolved: String) throws {
        // All of these requests use the same handle.
        for (keeps, target) in [(true, written), (false, resolved), (true, written)] {
            let heard = try get(path, keepsDotSegments: keeps)
            #expect(heard.isFinished, "\(heard.ends)")
            #expect(server.requests.last?.target == target)
        }
    }

    @Test(arguments: [
        ("/a/../é", "/a/../%C3%A9"), ("/a/../b c", "/a/../b%20c"),
        ("/a/../b\r\nX-Injected: c", "/a/../b%0D%0AX-Injected:%20c"),
        ("/a/../b\u{0}\u{7F}\t", "/a/../b%00%7F%09"), ("/..\\..\\b", "/..%5C..%5Cb"),
        ("/a/../%0d%0aX: y", "/a/../%0d%0aX:%20y"),
        ("/a/%2e%2e/b", "/a/%2e%2e/b"),
        ("/a/../\u{2025}/\u{FF0E}\u{FF0E}/e\u{301}", "/a/../%E2%80%A5/%EF%BC%8E%EF%BC%8E/e%CC%81"),
        ("/a/../%", "/a/../%25"),
    ])
    func `characters that a path must not contain are encoded`(path: String, target: String) throws {
        #expect(try get(path).isFinished)
        let received = try #require(server.requests.last)
        #expect(received.target == target)
        #expect(received.headers["X-Injected"] == nil && received.headers["X"] == nil)
    }

    /// Foundation encodes such characters before the request is made.
    @Test(arguments: ["/a/../b\r\nX-Injected: c", "/a/../é b"]) func `a URL of Foundation is sent without raw characters`(
        _ path: String
    ) throws {
        let text = server.url.absoluteString.trimmingSuffix("/") + path
        var configuration = ConnectionConfiguration()
        configuration.keepsDotSegments = true
        let url = try #require(URL(string: text))
        #expect(load(URLRequest(url: url), configuration: configuration)?.isFinished == true)
        let received = try #require(server.requests.last)
        #expect(received.target.hasPrefix("/a/../") && received.target.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F })
        #expect(received.headers["X-Injected"] == nil)
    }

    @Test func `a proxy receives the URL as written`() throws {
        let proxy = try Proxy(server.url.absoluteString)
        for (keeps, target) in [(true, "http://elsewhere.invalid/a/../b?c"), (false, "http://elsewhere.invalid/b?c")] {
            var configuration = ConnectionConfiguration()
            configuration.keepsDotSegments = keeps
            configuration.proxy = .proxy(proxy)
            let url = try #require(URL(string: "http://elsewhere.invalid/a/../b?c"))
            #expect(load(URLRequest(url: url), configuration: configuration)?.isFinished == true)
            #expect(server.requests.last?.target == target)
        }
    }

    /// The reported URL of each redirect is the one that is requested.
    @Test(arguments: ["../c", "/d/../c", "http://HOST/d/./../c", "./c?e=../f"])
    func `a redirect is resolved against the written path`(_ location: String) throws {
        let location = location.replacing("HOST", with: server.url.host ?? "").replacing(
            "127.0.0.1", with: "127.0.0.1:\(server.port)")
        server.route(nil, "/a/../b/old", .redirect(to: location))
        let heard = try get("/a/../b/old")
        #expect(heard.isFinished, "\(heard.ends)")
        let target = try #require(server.requests.last).target
        #expect(server.requests.map(\.target) == ["/a/../b/old", target] && !target.contains("/."))
        let reported = try #require(heard.events.first?.to)
        #expect(reported.absoluteString == server.url.absoluteString.trimmingSuffix("/") + target)
    }

    @Test func `a loop of redirects between written and resolved paths ends`() throws {
        server.route(nil, "/a/../b", .redirect(to: "/b"))
        server.route(nil, "/b", .redirect(to: "/a/../b"))
        let heard = try get("/a/../b")
        #expect(heard.error != nil)
        #expect(server.requests.map(\.target) == ["/a/../b", "/b"])
    }

    @Test(arguments: [("/a/../b", "/a/../b", "/b"), ("/a/%2e%2e/b", "/a/%2e%2e/b", nil), ("/.", "/.", "/")])
    func `the target of a request is known before it is sent`(path: String, written: String, resolved: String?) throws {
        let address = try #require(HTTPAddress("http://h\(path)?c"))
        #expect(RequestTarget.originForm(of: address, keepingDotSegments: true) == "\(written)?c")
        #expect(RequestTarget.absoluteForm(of: address, keepingDotSegments: true) == "http://h\(written)?c")
        #expect(CookieTarget(address, keepingDotSegments: true)?.path == written)
        guard let resolved else { return }
        #expect(RequestTarget.originForm(of: address, keepingDotSegments: false) == "\(resolved)?c")
        #expect(CookieTarget(address, keepingDotSegments: false)?.path == resolved)
    }
}

extension String {
    fileprivate func trimmingSuffix(_ suffix: String) -> String { hasSuffix(suffix) ? String(dropLast(suffix.count)) : self }
}
