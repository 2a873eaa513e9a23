import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that the byte counts in a request's metrics match the transmitted bytes.
@Suite struct ByteCountTests {
    let server: TestServer
    let text = Array(String(repeating: "All work and no play makes Jack a dull boy.\n", count: 400).utf8)

    init() throws { server = try TestServer() }

    private static var configuration: ConnectionConfiguration {
        var configuration = ConnectionConfiguration()
        configuration.collectsMetrics = true
        return configuration
    }

    private func heard(
        _ request: URLRequest, _ configuration: ConnectionConfiguration = configuration,
        thread: NetworkThread = NetworkThread()
    ) throws -> Collector.Heard {
        let heard = try #require(load(request, configuration: configuration, thread: thread))
        for metrics in heard.metrics { expectConsistency(metrics) }
        return heard
    }

    /// Returns the length of the head received by the server.
    private func headLength(of request: RecordedRequest) -> Int64 {
        let lines =
            ["\(request.method) \(request.target) \(request.version)"]
            + request.headers.fields.map { "\($0.name): \($0.value)" } + [""]
        return lines.reduce(0) { $0 + Int64($1.utf8.count) + 2 }
    }

    @Test func `the metrics report the exact lengths of the heads`() throws {
        let head = "HTTP/1.1 200 Fine\r\nContent-Length: 5\r\nX-Field:   a  value \r\n\r\n"
        server.route("/x", .raw(head + "hello"))
        var request = URLRequest(url: server.url("/x?query=1"))
        request.setValue("a value", forHTTPHeaderField: "X-Own")
        let metrics = try #require(try heard(request).metrics.first)
        let recorded = try #require(server.requests.last)
        #expect(metrics.countOfRequestHeaderBytesSent == headLength(of: recorded))
        #expect(metrics.countOfResponseHeaderBytesReceived == Int64(head.utf8.count))
        #expect(metrics.countOfResponseBodyBytesReceived == 5 && metrics.countOfResponseBodyBytesAfterDecoding == 5)
        #expect(metrics.countOfRequestBodyBytesSent == 0)
    }

    @Test func `interim heads and trailers do not count as body bytes`() throws {
        server.route(
            "/x", .chunked(["hello", " world"]).trailers(["X-Sum": "1"]).preceded(by: 103, headers: ["Link": "</a>"]))
        let metrics = try #require(try heard(URLRequest(url: server.url("/x"))).metrics.first)
        #expect(metrics.countOfResponseBodyBytesReceived == 11)
        #expect(metrics.countOfResponseHeaderBytesReceived > 60)
    }

    @Test(arguments: ["gzip", "br", "zstd"]) func `an encoded body is counted before and after decoding`(
        coding: String
    ) throws {
        let body =
            switch coding {
            case "br": try Encoders.brotli(text)
            case "zstd": try Encoders.zstd(text)
            default: try Encoders.gzip(text)
            }
        server.route("/x", .bytes(Data(body)).header("Content-Encoding", coding))
        let metrics = try #require(try heard(URLRequest(url: server.url("/x"))).metrics.first)
        #expect(metrics.countOfResponseBodyBytesReceived == Int64(body.count))
        #expect(metrics.countOfResponseBodyBytesAfterDecoding == Int64(text.count))
    }

    @Test(arguments: [0, 1, 1000, 300_000, 3_000_000], [true, false])
    func `a request body is counted without its framing`(size: Int, isStream: Bool) throws {
        server.route("POST", "/take", .text("thanks"))
        var request = URLRequest(url: server.url("/take"))
        request.httpMethod = "POST"
        let data = Data(repeating: 0x61, count: size)
        if isStream { request.httpBodyStream = InputStream(data: data) } else { request.httpBody = data }
        let metrics = try #require(try heard(request).metrics.first)
        let recorded = try #require(server.requests.last)
        #expect(recorded.bodyLength == size)
        #expect(metrics.countOfRequestBodyBytesSent == Int64(size))
        #expect(metrics.countOfRequestHeaderBytesSent == headLength(of: recorded))
        #expect(metrics.requestSent != nil)
        #expect(metrics.requestMethod == "POST")
    }

    @Test func `the response to HEAD has no body bytes`() throws {
        server.route(nil, "/x", .text("hello"))
        var request = URLRequest(url: server.url("/x"))
        request.httpMethod = "HEAD"
        let metrics = try #require(try heard(request).metrics.first)
        #expect(metrics.countOfResponseBodyBytesReceived == 0 && metrics.statusCode == 200)
    }

    @Test func `each redirect has its own metrics`() throws {
        server.route("/a", .redirect(to: "/b", status: 302))
        server.route("/b", .text("moved, too", status: 301).header("Location", "/c"))
        server.route("/c", .text("there"))
        let heard = try heard(URLRequest(url: server.url("/a")))
        #expect(heard.metrics.map(\.statusCode) == [302, 301, 200])
        #expect(heard.metrics.map { $0.url?.path } == ["/a", "/b", "/c"])
        #expect(heard.metrics.map(\.isReusedConnection) == [false, true, true])
        #expect(heard.metrics.last?.countOfResponseBodyBytesAfterDecoding == 5)
        let middle = try #require(heard.metrics.dropFirst().first)
        #expect(middle.countOfResponseBodyBytesReceived == 10 && middle.countOfResponseBodyBytesAfterDecoding == 0)
        #expect(server.requests.map(headLength) == heard.metrics.map(\.countOfRequestHeaderBytesSent))
        #expect(heard.metrics.map(\.startDate) == heard.metrics.map(\.startDate).sorted())
    }

    @Test func `a reused connection does not keep the counts of its last request`() throws {
        server.route("POST", "/take", .text("thanks"))
        server.route("GET", "/x", .text("x"))
        let thread = NetworkThread()
        var request = URLRequest(url: server.url("/take"))
        request.httpMethod = "POST"
        request.httpBody = Data(repeating: 1, count: 5000)
        _ = try heard(request, thread: thread)
        let metrics = try #require(try heard(URLRequest(url: server.url("/x")), thread: thread).metrics.first)
        #expect(metrics.isReusedConnection && metrics.countOfRequestBodyBytesSent == 0)
        #expect(metrics.countOfRequestHeaderBytesSent == headLength(of: try #require(server.requests.last)))
        #expect(metrics.countOfResponseBodyBytesReceived == 1)
    }

    @Test func `neither the URL nor the description contains secrets`() throws {
        server.route("/x", .text("x"))
        let metrics = try #require(
            try heard(URLRequest(url: server.url("/x?access_token=s3cret&page=2"))).metrics.first)
        #expect(metrics.url?.query?.contains("page=2") == true, "\(metrics)")
        let shown = "\(metrics) \(metrics.url?.absoluteString ?? "")"
        #expect(!shown.contains("s3cret"))
        #expect(metrics.description.hasPrefix("GET http://127.0.0.1:"))
    }

    // MARK: HTTP/2

    @Test(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"))
    func `requests that share a connection have separate metrics`() throws {
        let nginx = try Nginx()
        _ = try nginx.add(Data(text), as: "text.txt")
        var configuration = Self.configuration
        configuration.certificateAuthorities = nginx.certificateAuthority
        let thread = NetworkThread()
        let collectors = (0..<20).map { _ in Collector() }
        for collector in collectors {
            RequestChain(
                request: URLRequest(url: nginx.secureURL("text.txt")), configuration: configuration,
                delegate: collector, thread: thread
            ).start()
        }
        var opened = 0
        for collector in collectors {
            let heard = try #require(collector.wait())
            let metrics = try #require(heard.metrics.first)
            expectConsistency(metrics)
            #expect(heard.isFinished && heard.metrics.count == 1)
            #expect(metrics.networkProtocolName == "h2" && metrics.statusCode == 200)
            #expect(metrics.negotiatedTLSProtocolVersion == "TLSv1.3")
            #expect(metrics.countOfResponseBodyBytesReceived == Int64(text.count))
            let sent = metrics.countOfRequestHeaderBytesSent
            #expect(sent > 40 && sent < 400, "\(sent)")
            let fields = heard.heads.first?.fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 } ?? 0
            let received = Int(metrics.countOfResponseHeaderBytesReceived)
            #expect(received > fields && received < fields + 40, "\(received)")
            if !metrics.isReusedConnection { opened += 1 }
            // A request that waits for another one's connection does not wait for DNS or TLS.
            if metrics.isReusedConnection { #expect(metrics.duration(of: .tls) == 0 && metrics.secured != nil) }
        }
        #expect(opened == 1)
    }
}
