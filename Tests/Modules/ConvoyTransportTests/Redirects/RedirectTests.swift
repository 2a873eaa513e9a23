import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Redirects that Convoy follows, and the secrets that it sends only to their origin.
@Suite struct RedirectTests {
    let server: TestServer
    let other: TestServer

    init() throws {
        server = try TestServer()
        other = try TestServer()
        server.echo(at: "/echo")
        other.echo(at: "/echo")
    }

    private func secretRequest(_ path: String) -> URLRequest {
        var request = URLRequest(url: server.url(path))
        for name in ["Authorization", "Cookie", "Proxy-Authorization", "X-Token", "X-Unknown", "Accept"] {
            request.setValue("secret", forHTTPHeaderField: name)
        }
        return request
    }

    @Test func `a redirect within the origin keeps all headers`() throws {
        server.redirect("/a", to: "/echo")
        let heard = try #require(load(secretRequest("/a")))
        #expect(heard.isFinished)
        let last = try #require(server.requests.last)
        #expect(last.headers["Authorization"] == "secret" && last.headers["Cookie"] == "secret")
        #expect(heard.heads.first?.url == server.url("/echo"))
    }

    @Test func `another port is another origin and receives no secrets`() throws {
        server.redirect("/a", to: other.url("/echo").absoluteString)
        let configuration = ConnectionConfiguration(sensitiveHeaders: ["x-token"])
        let heard = try #require(load(secretRequest("/a"), configuration: configuration))
        #expect(heard.isFinished)
        let last = try #require(other.requests.last)
        for name in ["Authorization", "Cookie", "Proxy-Authorization", "X-Token", "X-Unknown"] {
            #expect(last.headers[name] == nil, "\(name) was sent to another origin")
        }
        #expect(last.headers["Accept"] == "secret")
    }

    @Test func `secrets are not sent again when a redirect returns to the first origin`() throws {
        server.redirect("/a", to: other.url("/b").absoluteString)
        other.redirect("/b", to: server.url("/echo").absoluteString)
        #expect(try #require(load(secretRequest("/a"))).isFinished)
        #expect(server.requests.last?.headers["Authorization"] == nil)
    }

    @Test(arguments: [
        (301, "POST", "GET"), (302, "POST", "GET"), (303, "POST", "GET"), (303, "PUT", "GET"), (301, "PUT", "PUT"),
        (307, "POST", "POST"), (308, "POST", "POST"), (303, "HEAD", "HEAD"), (302, "GET", "GET"),
    ])
    func `the status determines whether the method and body are kept`(status: Int, method: String, expected: String) throws {
        server.redirect("/a", to: "/echo", status: status)
        var request = URLRequest(url: server.url("/a"))
        request.httpMethod = method
        if method != "GET", method != "HEAD" { request.httpBody = Data("body".utf8) }
        request.setValue("text/x", forHTTPHeaderField: "Content-Type")
        #expect(try #require(load(request)).isFinished)
        let last = try #require(server.requests.last)
        #expect(last.method == expected)
        #expect(last.text == (expected == method && request.httpBody != nil ? "body" : ""))
        #expect((last.headers["Content-Type"] == nil) == (expected != method))
    }

    @Test func `twenty redirects are followed, and the twenty-first is an error`() throws {
        for number in 0..<21 { server.redirect("/\(number)", to: "/\(number + 1)") }
        server.route("GET", "/20", .text("there"))
        #expect(load(server.url("/0"))?.text == "there")
        server.removeRoute("/20")
        server.redirect("/20", to: "/21")
        #expect(load(server.url("/0"))?.error?.code == .httpTooManyRedirects)
        server.redirect("/loop", to: "/loop")
        #expect(load(server.url("/loop"))?.error?.code == .httpTooManyRedirects)
    }

    @Test(arguments: ["ftp://127.0.0.1/", "file:///etc/passwd", "javascript:alert(1)", "gopher://127.0.0.1/"])
    func `only redirects to HTTP URLs are followed`(target: String) throws {
        server.redirect("/a", to: target)
        #expect(load(server.url("/a"))?.error?.code == .unsupportedURL)
    }

    @Test func `the delegate may take the redirect as the response`() throws {
        server.route("GET", "/a", .text("moved").status(302).header("Location", "/echo"))
        let taken = Collector(decision: { _, decide in decide(nil) })
        let heard = try #require(load(URLRequest(url: server.url("/a")), delegate: taken))
        #expect(heard.isFinished && heard.text == "moved")
        #expect(heard.heads.map(\.statusCode) == [302])
    }

    @Test(arguments: [true, false])
    func `the delegate may decide later while the body is held back`(follows: Bool) throws {
        server.route("GET", "/a", .pattern(count: 1 << 20).status(302).header("Location", "/echo"))
        let slow = Collector(decision: { redirect, decide in
            DispatchQueue.global().async { decide(follows ? redirect.request : nil) }
        })
        let heard = try #require(load(URLRequest(url: server.url("/a")), delegate: slow))
        #expect(heard.isFinished)
        #expect(heard.heads.map(\.statusCode) == [follows ? 200 : 302])
        #expect(follows || heard.body.count == 1 << 20)
    }

    @Test func `cancelling while the delegate decides ends the transfer once`() throws {
        server.redirect("/a", to: "/echo")
        let asked = DispatchSemaphore(value: 0)
        let pending = Pending()
        let slow = Collector(decision: { redirect, decide in
            pending.keep { decide(redirect.request) }
            asked.signal()
        })
        let connection = RequestChain(request: URLRequest(url: server.url("/a")), delegate: slow)
        connection.start()
        #expect(asked.wait(timeout: .now() + 100) == .success)
        connection.cancel()
        let heard = try #require(slow.wait())
        pending.run()
        guard case .cancelled = heard.ends.first else {
            Issue.record("\(heard.ends)")
            return
        }
        #expect(server.requests(nil, "/echo").isEmpty)
    }

    @Test func `a streamed body that cannot be read twice is an error`() throws {
        server.redirect("/a", to: "/echo", status: 307)
        var request = URLRequest(url: server.url("/a"))
        request.httpMethod = "POST"
        request.httpBodyStream = InputStream(data: Data("body".utf8))
        #expect(load(request)?.error?.code == .requestBodyStreamExhausted)
    }
}

private final class Pending: Sendable {
    private let block = Locked<(@Sendable () -> Void)?>(nil)
    func keep(_ new: @escaping @Sendable () -> Void) { block.withLock { $0 = new } }
    func run() { block.withLock { $0 }?() }
}
