import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that refused redirects fail with the reason, and that nothing is sent to their target.
@Suite struct RedirectRefusalTests {
    let server: TestServer
    let other: TestServer

    init() throws {
        server = try TestServer()
        other = try TestServer()
        for server in [server, other] { server.echo(at: "/echo") }
    }

    /// Loads a response with these `Location` fields, where PORT stands for that of the other server.
    private func follow(locations: [String], status: Int = 302) throws -> Collector.Heard {
        var head = "HTTP/1.1 \(status) Found\r\nContent-Length: 0\r\n"
        for location in locations {
            head += "Location: \(location.replacing("PORT", with: String(other.port)))\r\n"
        }
        server.route("/start", .raw(Data((head + "\r\n").utf8)))
        return try #require(load(server.url("/start")))
    }

    @Test(
        arguments: [
            (["ftp://127.0.0.1:PORT/"], .unsupportedScheme("ftp"), .unsupportedURL),
            (["file:///etc/passwd"], .unsupportedScheme("file"), .unsupportedURL),
            (["FILE:/etc/passwd"], .unsupportedScheme("file"), .unsupportedURL),
            (["gopher://127.0.0.1:PORT/_x"], .unsupportedScheme("gopher"), .unsupportedURL),
            (["data:text/plain,x"], .unsupportedScheme("data"), .unsupportedURL),
            (["javascript:alert(1)"], .unsupportedScheme("javascript"), .unsupportedURL),
            (["ws://127.0.0.1:PORT/"], .unsupportedScheme("ws"), .unsupportedURL),
            (["http://ada:love@127.0.0.1:PORT/echo"], .credentialsInLocation, .badServerResponse),
            (["http://ada@127.0.0.1:PORT/echo"], .credentialsInLocation, .badServerResponse),
            (["//ada:love@127.0.0.1:PORT/echo"], .credentialsInLocation, .badServerResponse),
            (["http://@127.0.0.1:PORT/echo"], .credentialsInLocation, .badServerResponse),
            (["http://127.0.0.1:PORT/ec\tho"], .controlCharacterInLocation, .badServerResponse),
            (["/echo\u{1}"], .controlCharacterInLocation, .badServerResponse),
            (["/ec\u{7F}ho"], .controlCharacterInLocation, .badServerResponse),
            (["\u{1B}[2J"], .controlCharacterInLocation, .badServerResponse),
            (["/echo", "http://127.0.0.1:PORT/echo"], .conflictingLocations, .badServerResponse),
            (["http://127.0.0.1:PORT/echo", "HTTP://127.0.0.1:PORT/echo"], .conflictingLocations, .badServerResponse),
            (["", "/echo"], .conflictingLocations, .badServerResponse),
            ([""], .unreadableLocation, .badServerResponse),
            (["http://"], .unreadableLocation, .badServerResponse),
            (["http:///echo"], .unreadableLocation, .badServerResponse),
            (["http://127.0.0.1:99999/"], .unreadableLocation, .badServerResponse),
            (["http://127.0.0.1\\@127.0.0.1:PORT/"], .unreadableLocation, .badServerResponse),
        ] as [([String], RedirectEvent.Refusal, URLError.Code)])
    func `a bad Location is rejected with its reason`(
        locations: [String], refusal: RedirectEvent.Refusal, code: URLError.Code
    ) throws {
        let heard = try follow(locations: locations)
        let error = try #require(heard.error)
        #expect(error.code == code)
        // Newer libcurl versions reject two fields themselves.
        if refusal == .conflictingLocations, "\(error)".contains("Multiple Location") { return }
        #expect(error.redirectRefusal == refusal)
        #expect(error.userInfo[URLError.redirectRefusalKey] as? RedirectEvent.Refusal == refusal)
        #expect(heard.events.map(\.outcome) == [.refused(refusal)] && heard.redirects.isEmpty)
        #expect(!"\(error) \(error.userInfo) \(heard.events)".contains("love"))
        #expect(other.totalConnectionCount == 0 && server.requests.count == 1)
    }

    @Test func `a repeated Location with the same value is accepted`() throws {
        #expect(try follow(locations: ["/echo", "/echo"]).isFinished)
        #expect(server.requests.map(\.path) == ["/start", "/echo"])
    }

    @Test(arguments: [300, 304, 305, 306, 309, 399])
    func `another status with a Location is not a redirect`(status: Int) throws {
        let heard = try follow(locations: ["ftp://evil.invalid/"], status: status)
        #expect(heard.isFinished && heard.heads.map(\.statusCode) == [status] && heard.events.isEmpty)
    }

    // MARK: The limit

    @Test(arguments: [(-1, 0), (0, 0), (1, 1), (3, 3), (30, 30)])
    func `the limit is the maximum number of redirects followed`(limit: Int, followed: Int) throws {
        for number in 0...40 { server.redirect("/\(number)", to: "/\(number + 1)") }
        var configuration = ConnectionConfiguration()
        configuration.maximumRedirects = limit
        let request = URLRequest(url: server.url("/0"))
        let heard = try #require(load(request, configuration: configuration))
        #expect(heard.error?.code == .httpTooManyRedirects)
        #expect(heard.error?.redirectRefusal == .tooManyRedirects(limit: followed))
        #expect(server.requests.count == followed + 1)
        #expect(heard.events.dropLast().allSatisfy { $0.outcome == .followed } && heard.events.count == followed + 1)
        #expect(heard.events.last?.to == server.url("/\(followed + 1)"))
    }

    // MARK: Loops

    @Test(arguments: ["GET", "HEAD"])
    func `a loop is detected when it closes`(method: String) throws {
        server.redirect("/a", to: "/b")
        server.redirect("/b", to: "/c#x")
        server.redirect("/c", to: "/b#y")
        var request = URLRequest(url: server.url("/a"))
        request.httpMethod = method
        let heard = try #require(load(request))
        #expect(heard.error?.code == .httpTooManyRedirects && heard.error?.redirectRefusal == .loop)
        #expect(server.requests.map(\.path) == ["/a", "/b", "/c"])
        #expect(heard.events.map(\.outcome) == [.followed, .followed, .refused(.loop)])
    }

    @Test(arguments: [
        ("GET", "Set-Cookie", "a=b"), ("GET", "Retry-After", "0"), ("POST", "X-Nothing", ""), ("PUT", "X", ""),
    ])
    func `a loop that may end on its own is followed up to the limit`(method: String, name: String, value: String) throws {
        server.route(nil, "/a", .status(307).header("Location", "/a").header(name, value))
        var request = URLRequest(url: server.url("/a"))
        request.httpMethod = method
        let heard = try #require(load(request))
        #expect(heard.error?.redirectRefusal == .tooManyRedirects(limit: 20) && server.requests.count == 21)
    }

    @Test func `a handler that changes the request can end a loop`() throws {
        server.route("/a") { request in
            request.headers["X-Token"] == nil ? .redirect(to: "/a") : .text("there")
        }
        let changing = Collector(decision: { redirect, decide in
            var request = redirect.request
            request.setValue("t", forHTTPHeaderField: "X-Token")
            decide(request)
        })
        let heard = try #require(load(URLRequest(url: server.url("/a")), delegate: changing))
        #expect(heard.text == "there" && heard.events.map(\.outcome) == [.changedByHandler])
    }

    // MARK: The redirect handler

    @Test func `fields set by the handler are sent only to their origin`() throws {
        server.redirect("/a", to: other.url("/b").absoluteString)
        other.redirect("/b", to: server.url("/echo").absoluteString)
        let isFirst = Locked(true)
        let setting = Collector(decision: { redirect, decide in
            var request = redirect.request
            if isFirst.withLock({ first in
                defer { first = false }
                return first
            }) {
                request.setValue("for b", forHTTPHeaderField: "Authorization")
            }
            decide(request)
        })
        var request = URLRequest(url: server.url("/a"))
        request.setValue("for a", forHTTPHeaderField: "Authorization")
        let heard = try #require(load(request, delegate: setting))
        #expect(heard.isFinished)
        #expect(other.requests.map { $0.headers["Authorization"] } == ["for b"])
        #expect(server.requests.map { $0.headers["Authorization"] } == ["for a", nil])
        #expect(heard.events.map(\.outcome) == [.changedByHandler, .followed])
        #expect(heard.events.map(\.removedFields.count) == [0, 1])
    }

    @Test(
        arguments: [
            ("ftp://127.0.0.1/", nil, .unsupportedURL), ("http://a:b@127.0.0.1/", nil, .badURL), ("http:///", nil, .badURL),
            ("http://127.0.0.1/", "a\r\nX-Injected: b", .badURL), ("http://127.0.0.1/", "a\0b", .badURL),
        ] as [(String, String?, URLError.Code)])
    func `a request from the handler is validated like any other`(url: String, value: String?, code: URLError.Code) throws {
        server.redirect("/a", to: "/echo")
        let target = try #require(URL(string: url.replacing("127.0.0.1", with: "127.0.0.1:\(other.port)")))
        let wrong = Collector(decision: { redirect, decide in
            var request = redirect.request
            request.url = target
            if let value { request.allHTTPHeaderFields = ["X": value] }
            decide(request)
        })
        let heard = try #require(load(URLRequest(url: server.url("/a")), delegate: wrong))
        #expect(heard.error?.code == code)
        #expect(other.totalConnectionCount == 0)
    }

    @Test(arguments: [false, true])
    func `a stream that cannot be sent again fails the transfer immediately`(decidesLater: Bool) throws {
        // The rest of the response never arrives.
        let gate = TestServer.Gate()
        server.route(
            nil, "/a", .pattern(count: 100).status(307).header("Location", "/echo").heldBody(by: gate, afterBytes: 10))
        var request = URLRequest(url: server.url("/a"))
        request.httpMethod = "POST"
        request.httpBodyStream = InputStream(data: Data("body".utf8))
        let delegate = Collector(decision: { redirect, decide in
            if decidesLater { DispatchQueue.global().async { decide(redirect.request) } } else { decide(redirect.request) }
        })
        let heard = try #require(load(request, delegate: delegate))
        gate.open()
        #expect(heard.error?.code == .requestBodyStreamExhausted)
        #expect(heard.error?.redirectRefusal == .bodyCannotBeSentAgain)
        #expect(heard.events.map(\.outcome) == [.refused(.bodyCannotBeSentAgain)])
        #expect(server.requests("/echo").isEmpty)
    }
}
