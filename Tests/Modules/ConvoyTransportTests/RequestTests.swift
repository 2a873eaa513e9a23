import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that requests arrive at the server exactly as given, or are rejected before a byte of them is sent.
@Suite struct RequestTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route(nil, "/echo", .text("taken"))
    }

    private func echo(_ request: URLRequest) throws -> RecordedRequest {
        let heard = try #require(load(request))
        #expect(heard.isFinished, "\(heard.ends)")
        return try #require(server.requests.last)
    }

    @Test(arguments: ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"], [false, true])
    func `every method is sent with and without a body`(method: String, hasBody: Bool) throws {
        var request = URLRequest(url: server.url("/echo?a=b%20c"))
        request.httpMethod = method
        if hasBody { request.httpBody = Data("some bytes".utf8) }
        let received = try echo(request)
        #expect(received.method == method)
        #expect(received.target == "/echo?a=b%20c")
        #expect(received.text == (hasBody ? "some bytes" : ""))
        #expect(received.headers["Transfer-Encoding"] == nil)
        #expect(received.headers["Expect"] == nil)
        if hasBody { #expect(received.headers["Content-Length"] == "10") }
        if !hasBody, ["POST", "PUT", "PATCH"].contains(method) { #expect(received.headers["Content-Length"] == "0") }
        if !hasBody, ["GET", "DELETE"].contains(method) { #expect(received.headers["Content-Length"] == nil) }
    }

    @Test func `a handle can be reused for another kind of request`() throws {
        // All of these requests use the same handle.
        for method in ["POST", "GET", "HEAD", "PUT", "GET", "DELETE", "POST", "HEAD", "GET"] {
            var request = URLRequest(url: server.url("/echo"))
            request.httpMethod = method
            if method == "POST" || method == "PUT" { request.httpBody = Data(method.utf8) }
            let received = try echo(request)
            #expect(received.method == method)
            #expect(received.text == (request.httpBody == nil ? "" : method))
        }
        #expect(server.totalConnectionCount == 1)
    }

    @Test func `headers arrive unchanged`() throws {
        var request = URLRequest(url: server.url("/echo"))
        request.allHTTPHeaderFields = ["X-Empty": "", "X-Tab": "a\tb", "X-Name": "é", "User-Agent": "me/1"]
        let received = try echo(request)
        #expect(received.headers["X-Empty"] == "")
        #expect(received.headers["X-Tab"] == "a\tb")
        #expect(received.headers["X-Name"] == "é")
        #expect(received.headers["User-Agent"] == "me/1")
    }

    @Test(arguments: [
        ["X-A": "a\r\nX-B: b"], ["X-A": "a\nb"], ["X-A": "a\u{0}b"], ["X-A": "a\u{7F}"], ["X-A": "\u{1B}[2J"],
        ["X-A\r\nX-B": "b"], ["X A": "b"], ["": "b"], ["X:A": "b"], ["Ä": "b"],
    ])
    func `control characters in headers are refused before anything is sent`(fields: [String: String]) throws {
        var request = URLRequest(url: server.url("/echo"))
        request.allHTTPHeaderFields = fields
        #expect(load(request)?.error?.code == .badURL)
        request.allHTTPHeaderFields = nil
        request.httpMethod = "GET / HTTP/1.1\r\nX: y"
        #expect(load(request)?.error?.code == .badURL)
        #expect(server.requests.isEmpty && server.totalConnectionCount == 0)
    }

    @Test func `a cache policy that forbids reuse sends Cache-Control`() throws {
        var request = URLRequest(url: server.url("/echo"))
        request.cachePolicy = .reloadIgnoringLocalAndRemoteCacheData
        #expect(try echo(request).headers["Cache-Control"] == "no-cache")
        request.cachePolicy = .useProtocolCachePolicy
        #expect(try echo(request).headers["Cache-Control"] == nil)
        request.cachePolicy = .returnCacheDataDontLoad
        #expect(load(request)?.error?.code == .resourceUnavailable)
    }

    @Test(arguments: [0, 1, 127, 131_072, 5_000_000])
    func `a streamed body of unknown length is sent in chunks`(size: Int) throws {
        let bytes = PatternBytes.data(count: size)
        var request = URLRequest(url: server.url("/echo"))
        request.httpMethod = "PUT"
        request.httpBodyStream = InputStream(data: bytes)
        let received = try echo(request)
        #expect(received.headers["Transfer-Encoding"] == "chunked")
        #expect(received.headers["Content-Length"] == nil)
        #expect(received.body == bytes)
    }

    @Test func `a streamed body with an announced length is sent completely`() throws {
        let bytes = PatternBytes.data(count: 700_000)
        var request = URLRequest(url: server.url("/echo"))
        request.httpMethod = "POST"
        request.httpBodyStream = InputStream(data: bytes)
        request.setValue("700000", forHTTPHeaderField: "Content-Length")
        let received = try echo(request)
        #expect(received.headers["Content-Length"] == "700000")
        #expect(received.headers["Transfer-Encoding"] == nil)
        #expect(received.body == bytes)
    }

    @Test(arguments: [99, 101])
    func `a stream with a different length than announced is an error`(announced: Int) throws {
        var request = URLRequest(url: server.url("/echo"))
        request.httpMethod = "POST"
        request.httpBodyStream = InputStream(data: PatternBytes.data(count: 100))
        request.setValue("\(announced)", forHTTPHeaderField: "Content-Length")
        #expect(load(request)?.error?.code == .requestBodyStreamExhausted)
        #expect(server.requests.isEmpty)
    }

    @Test func `a failing stream is an error with an underlying error`() throws {
        var request = URLRequest(url: server.url("/echo"))
        request.httpMethod = "POST"
        request.httpBodyStream = InputStream(fileAtPath: "/no/such/file")
        let error = try #require(load(request)?.error)
        #expect(error.code == .requestBodyStreamExhausted)
        #expect(error.userInfo[NSUnderlyingErrorKey] != nil)
    }

    @Test func `upload progress counts every byte`() throws {
        var request = URLRequest(url: server.url("/echo"))
        request.httpMethod = "POST"
        request.httpBody = PatternBytes.data(count: 1_000_000)
        #expect(load(request)?.sent == 1_000_000)
    }

    @Test func `a blocking stream does not delay other transfers`() throws {
        let stream = BlockingStream()
        var request = URLRequest(url: server.url("/echo"))
        request.httpMethod = "POST"
        request.httpBodyStream = stream
        request.timeoutInterval = 0.2  // does not count while waiting for the request's own stream
        let slow = Collector()
        RequestChain(request: request, delegate: slow).start()
        #expect(stream.isReading.wait(timeout: .now() + 100) == .success)
        for _ in 0..<20 { #expect(load(server.url("/echo"))?.isFinished == true) }
        #expect(slow.wait(within: 0.5) == nil)
        stream.mayGoOn.signal()
        #expect(slow.wait()?.isFinished == true)
        #expect(server.requests.last?.text == "late")
    }

    @Test func `connections are kept alive`() throws {
        for _ in 0..<50 { #expect(load(server.url("/echo"))?.isFinished == true) }
        #expect(server.totalConnectionCount == 1)
    }

    @Test func `a dead keep-alive connection is replaced, and the body is sent again`() throws {
        #expect(load(server.url("/echo"))?.isFinished == true)
        server.dropConnections()
        try server.wait(timeout: 100) { $0.openConnectionCount == 0 }
        var request = URLRequest(url: server.url("/echo"))
        request.httpMethod = "POST"
        request.httpBodyStream = InputStream(data: Data("once more".utf8))
        let heard = try #require(load(request))
        #expect(heard.isFinished, "\(heard.ends)")
        #expect(server.requests.last?.text == "once more")
    }

    @Test(arguments: ["ada:love%40@", "ada@", ":love%40@", "@", ":@", "a@b:love%40@"])
    func `a URL with credentials is rejected without revealing them`(login: String) throws {
        for scheme in ["http", "HTTP", "https"] {
            let url = try #require(URL(string: "\(scheme)://\(login)127.0.0.1:\(server.port)/echo"))
            let error = try #require(load(url)?.error)
            #expect(error.code == .badURL)
            #expect(error.failingURL?.absoluteString == "\(scheme)://127.0.0.1:\(server.port)/echo")
            #expect(!"\(error) \(error.userInfo)".contains("love") && "\(error)".contains("credential"))
        }
        #expect(server.totalConnectionCount == 0)
        // An `@` elsewhere does not indicate a user name.
        #expect(load(server.url("/echo?mail=ada@example.com"))?.isFinished == true)
    }

    @Test func `a connection configuration's description contains its settings and rates`() {
        var configuration = ConnectionConfiguration()
        let plain = "\(configuration)"
        for word in ["sendsBodiesAcrossOrigins", "sendRateLimits", "receiveRateLimits"] { #expect(!plain.contains(word)) }
        configuration.sendsBodiesAcrossOrigins = true
        configuration.sendRateLimits = [RateLimit(bytesPerSecond: 1000)]
        #expect("\(configuration)".contains("sendsBodiesAcrossOrigins, "))
        #expect("\(configuration)".contains("sendRateLimits: [1000]"))
    }
}

/// A stream that blocks in its first read until it may continue.
private final class BlockingStream: InputStream {
    let isReading = DispatchSemaphore(value: 0)
    let mayGoOn = DispatchSemaphore(value: 0)
    private var rest = Data("late".utf8)

    init() { super.init(data: Data()) }

    override var streamStatus: Stream.Status { .open }
    override var hasBytesAvailable: Bool { true }
    override func open() {}
    override func close() {}
    override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength len: Int) -> Int {
        guard !rest.isEmpty else { return 0 }
        isReading.signal()
        mayGoOn.wait()
        rest.copyBytes(to: buffer, count: rest.count)
        defer { rest = Data() }
        return rest.count
    }
}
