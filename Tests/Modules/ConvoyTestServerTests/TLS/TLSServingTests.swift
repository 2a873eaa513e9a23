import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@Suite(.enabled(if: TLSClient.isInstalled, "curl or openssl is not installed"))
struct TLSServingTests {
    private let root: TestCertificate
    private let identity: TestCertificate
    private let client: TLSClient

    init() throws {
        root = try TestCertificate.root()
        identity = try root.issue(.authority("Between")).issue(.server("localhost", "127.0.0.1"))
        client = try TLSClient(trusting: root)
    }

    @Test func `requests share a keep-alive connection, and the TLS parameters are recorded`() throws {
        let server = try TestServer(tls: TestServer.TLS(identity))
        server.route("/a", .text("a"))
        server.echo(at: "/e")
        #expect(server.url.absoluteString == "https://127.0.0.1:\(server.port)")
        let url = server.url("/a?b c", host: "localhost")
        #expect(url.absoluteString == "https://localhost:\(server.port)/a?b%20c")
        let result = try client.curl("-d", "body", server.url("/e").absoluteString)
        #expect(try JSONDecoder().decode(EchoedRequest.self, from: result.output).text == "body")
        #expect(try client.curl(url.absoluteString, url.absoluteString).text == "aa")
        server.stop()
        #expect(server.requests.map(\.connection) == [1, 2, 2])
        let tls = try #require(server.requests.last?.tls)
        #expect(tls.version == "TLSv1.3" && tls.cipher == "TLS_AES_256_GCM_SHA384" && tls.serverName == "localhost")
        #expect(tls.alpnProtocol == "http/1.1" && !tls.isResumed && tls.clientCertificate == nil)
        let statistics = server.statistics
        #expect(statistics.handshakeCount == statistics.totalConnectionCount && statistics.failedHandshakeCount == 0)
        #expect(statistics.plaintextByteCount > 200)
        #expect(server.handshakeFailures == [])
    }

    @Test func `a server without TLS uses plain text`() throws {
        let server = try TestServer()
        server.route("/", .text("x"))
        #expect(server.url("/", host: "localhost").absoluteString == "http://localhost:\(server.port)/")
        #expect(try RawClient(port: server.port).exchange("GET", "/").text == "x")
        #expect(server.requests.map(\.tls) == [nil])
        #expect(server.statistics.handshakeCount == 0 && server.statistics.plaintextByteCount == 0)
    }

    @Test(arguments: ["1.2", "1.3"])
    func `64 MiB are downloaded and 16 MiB uploaded, with a length and in chunks`(version: String) throws {
        let server = try TestServer(tls: TestServer.TLS(identity))
        let plain = try TestServer()
        let size = 64 << 20
        server.route("/big", .pattern(count: size))
        plain.route("/big", .pattern(count: size))
        server.route("/chunked", .pattern(count: size).framed(.chunked))
        server.route("/up", options: .discardsBody) { _ in .text("got it") }
        let expected = client.directory.file("expected"), got = client.directory.file("got")
        #expect(try client.curl("-o", expected.path, plain.url("/big").absoluteString).status == 0)
        for path in ["/big", "/chunked"] {
            let result = try client.curl(
                "--tls-max", version, "-o", got.path, "-w", "%{size_download}", server.url(path).absoluteString)
            #expect(result.status == 0 && result.text == "\(size)")
            #expect(try ProcessRunner.run("cmp", [expected.path, got.path]).status == 0)
        }
        #expect(truncate(expected.path, 16 << 20) == 0)
        let checksum = BodyChecksum.of(try Data(contentsOf: expected))
        for header in ["Expect: 100-continue", "Transfer-Encoding: chunked"] {
            let result = try client.curl(
                "--tls-max", version, "-H", header, "-T", expected.path, server.url("/up").absoluteString)
            #expect(result.text == "got it")
        }
        #expect(server.requests("/up").map(\.bodyLength) == [16 << 20, 16 << 20])
        #expect(server.requests("/up").map(\.bodyChecksum) == [checksum, checksum])
        #expect(server.requests.allSatisfy { $0.tls?.version == "TLSv\(version)" })
    }

    @Test func `a slow client delays only its own response`() throws {
        let server = try TestServer(tls: TestServer.TLS(identity))
        server.route("/endless", .pattern(count: 1 << 40))
        server.route("/quick", .text("quick"))
        let slow = try ChildProcess(
            "/usr/bin/curl",
            ["-sS", "-k", "--limit-rate", "100k", "-o", "/dev/null", server.url("/endless").absoluteString],
            directory: client.directory.url, log: client.directory.file("log"))
        try server.wait { $0.activeRequestCount == 1 }
        for _ in 0..<5 { #expect(try client.curl(server.url("/quick").absoluteString).text == "quick") }
        // The last fast request counts as active until its connection has been served.
        try server.wait { $0.activeRequestCount == 1 }
        #expect(slow.isRunning)
        server.stop()
        #expect(server.activeRequestCount == 0)
        slow.stop()
    }

    @Test func `responses are interrupted at the configured byte`() throws {
        let server = try TestServer(tls: TestServer.TLS(identity))
        server.route("/truncated", .pattern(count: 300_000).truncated(afterBytes: 200_001))
        server.route("/empty", .text("hello").failing(.closeBeforeHead))
        server.route("/reset", .text("hello").resetBeforeHead())
        server.route("/late-reset", .pattern(count: 300_000).resets(afterBytes: 200_001))
        server.route("/nothttp", .raw("hello\r\n"))
        server.route("/chunked", .chunked(["hello"]).truncated(afterBytes: 2))
        server.route("/stall", .pattern(count: 300_000).stalls(afterBytes: 100_001))
        func status(_ path: String) throws -> (Int32, String) {
            let result = try client.curl(
                "--max-time", path == "/stall" ? "0.7" : "20", "-o", "/dev/null", "-w", "%{size_download}",
                server.url(path).absoluteString)
            return (result.status, result.text)
        }
        #expect(try status("/truncated") == (18, "200001"))
        #expect(try status("/empty") == (52, "0"))
        #expect(try status("/reset") == (56, "0"))
        #expect(try status("/late-reset") == (56, "200001"))
        #expect(try status("/nothttp").0 == 1)
        #expect(try status("/chunked") == (18, "2"))
        #expect(try status("/stall") == (28, "100001"))
    }

    @Test func `responses can be delayed, dripped and held at gates`() throws {
        let server = try TestServer(tls: TestServer.TLS(identity))
        let gate = TestServer.Gate()
        server.route("/drip", .drip(PatternBytes.data(count: 10), chunk: 2, interval: 0.02))
        server.route("/chunks", .chunked(["a", "b", "c"], every: 0.02))
        server.route("/gate", .text("through").heldBody(by: gate, afterBytes: 3).delayed(0.02))
        server.route("/open") { _ in
            gate.open()
            return .text("open")
        }
        #expect(try client.curl(server.url("/drip").absoluteString).output == PatternBytes.data(count: 10))
        #expect(try client.curl(server.url("/chunks").absoluteString).text == "abc")
        let both = try client.curl(
            "-Z", "--parallel-immediate", server.url("/gate").absoluteString, server.url("/open").absoluteString)
        #expect(both.status == 0 && both.text.contains("ough") && gate.isOpen)
    }

    @Test func `a close alert is sent unless it is disabled or the connection is reset`() throws {
        var tls = TestServer.TLS(identity)
        let server = try TestServer(tls: tls)
        server.route("/", .text("until the end").framed(.closeDelimited))
        server.route("/reset", .text("hello").resets(afterBytes: 2))
        let goodbye = "<<< TLS 1.3, Alert [length 0002], warning close_notify"
        #expect(try client.session(server, "/", "-msg").contains(goodbye))
        #expect(try !client.session(server, "/reset", "-msg").contains("<<< TLS 1.3, Alert"))
        tls.omitsCloseNotify = true
        try server.setTLS(tls)
        let text = try client.session(server, "/", "-msg")
        #expect(text.contains("until the end") && !text.contains("<<< TLS 1.3, Alert"))
        #expect(text.contains("unexpected eof"))
    }

    @Test func `200 parallel connections are served`() throws {
        let server = try TestServer(tls: TestServer.TLS(identity))
        let gate = TestServer.Gate()
        server.route("/*", .pattern(count: 5000).held(by: gate))
        let opener = Thread {
            // If this times out, so do the requests, and the test fails.
            _ = try? server.wait(timeout: 25) { $0.activeRequestCount == 200 }
            gate.open()
        }
        opener.start()
        let result = try client.curl(
            "-Z", "--parallel-max", "200", "--parallel-immediate", "-o", "/dev/null", "-w", "%{size_download}\n",
            server.url("/").absoluteString + "[1-200]")
        #expect(result.text.split(separator: "\n").filter { $0 == "5000" }.count == 200)
        #expect(server.peakActiveRequestCount == 200)
        #expect(server.statistics.handshakeCount == 200 && server.statistics.failedHandshakeCount == 0)
    }
}
