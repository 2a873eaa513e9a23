import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests with nginx as an independent server.
@Suite(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"))
struct NginxTests {
    let nginx: Nginx
    let text = Data(String(repeating: "All work and no play makes Jack a dull boy.\n", count: 5_000).utf8)

    init() throws {
        nginx = try Nginx()
        _ = try nginx.add(text, as: "text.txt")
    }

    private func secure(_ path: String, usesHTTP2: Bool = true) -> Collector.Heard? {
        load(
            URLRequest(url: nginx.secureURL(path)),
            configuration: ConnectionConfiguration(
                certificateAuthorities: nginx.certificateAuthority, usesHTTP2: usesHTTP2))
    }

    @Test func `a file arrives unchanged`() throws {
        let heard = try #require(load(nginx.url("text.txt")))
        #expect(heard.isFinished && heard.body == text)
        #expect(heard.heads.first?.contentLength == Int64(text.count))
        #expect(heard.heads.first?.httpVersion == "HTTP/1.1")
    }

    @Test func `a compressed file is decoded`() throws {
        let heard = try #require(load(nginx.url("gzip/text.txt")))
        #expect(heard.isFinished && heard.body == text)
        #expect(heard.heads.first?.isEncoded == true)
    }

    @Test func `a range is never compressed`() throws {
        var request = URLRequest(url: nginx.url("gzip/text.txt"))
        request.setValue("bytes=100-199", forHTTPHeaderField: "Range")
        let heard = try #require(load(request))
        #expect(heard.heads.first?.statusCode == 206)
        #expect(heard.body == text[100..<200])
    }

    @Test func `HTTP/2 is used over TLS if the certificate is trusted`() throws {
        let heard = try #require(secure("text.txt"))
        #expect(heard.isFinished && heard.body == text, "\(heard.ends)")
        #expect(heard.heads.first?.httpVersion == "HTTP/2")
        #expect(heard.heads.first?["content-LENGTH"] == "\(text.count)")
    }

    @Test func `HTTP/1.1 is used over TLS if HTTP/2 is disabled`() throws {
        let heard = try #require(secure("text.txt", usesHTTP2: false))
        #expect(heard.isFinished && heard.body == text)
        #expect(heard.heads.first?.httpVersion == "HTTP/1.1")
    }

    @Test func `many streams share one connection`() throws {
        let configuration = ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority)
        let thread = NetworkThread()
        let collectors = (0..<64).map { _ in Collector() }
        for collector in collectors {
            RequestChain(
                request: URLRequest(url: nginx.secureURL("text.txt")), configuration: configuration,
                delegate: collector, thread: thread
            ).start()
        }
        for collector in collectors {
            let heard = try #require(collector.wait())
            #expect(heard.isFinished && heard.body == text)
            #expect(heard.heads.first?.httpVersion == "HTTP/2")
        }
    }

    /// libcurl 7.88 keeps the bytes that a paused transfer has not accepted if another transfer uses its connection.
    @Test func `unread bytes of a cancelled transfer do not reach the next one`() throws {
        let (old, new) = (Data(repeating: 0x41, count: 300_000), Data(repeating: 0x42, count: 300_000))
        _ = try nginx.add(old, as: "old.bin")
        _ = try nginx.add(new, as: "new.bin")
        let configuration = ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority)
        let thread = NetworkThread()
        func connect(_ name: String, _ delegate: Collector) -> RequestChain {
            let connection = RequestChain(
                request: URLRequest(url: nginx.secureURL(name)), configuration: configuration, delegate: delegate,
                thread: thread)
            connection.start()
            return connection
        }
        let begun = DispatchSemaphore(value: 0)
        let holding: @Sendable (any Connection) -> Void = { connection in
            connection.suspendReceiving()
            begun.signal()
        }
        let keeper = connect("old.bin", Collector(onData: holding))
        try begun.waitOrThrow()
        for _ in 0..<10 {
            let cancelled = Collector(onData: holding)
            let first = connect("old.bin", cancelled)
            try begun.waitOrThrow()
            // This request uses the same connection. When its response has arrived, more of the other response has
            // arrived, too.
            let between = Collector()
            _ = connect("text.txt", between)
            #expect(try #require(between.wait()).body == text)
            first.cancel()
            _ = try #require(cancelled.wait())
            let second = Collector(onData: { connection in
                connection.suspendReceiving()
                connection.resumeReceiving()
            })
            _ = connect("new.bin", second)
            let heard = try #require(second.wait())
            #expect(heard.isFinished && heard.body == new, "\(heard.ends) \(heard.body.count)")
        }
        keeper.cancel()
    }

    @Test func `an untrusted certificate is rejected`() throws {
        let heard = try #require(load(nginx.secureURL("text.txt")))
        #expect(heard.error?.code == .serverCertificateHasUnknownRoot, "\(heard.ends)")
        #expect(heard.heads.isEmpty)
    }

    @Test func `a server without TLS is an error`() throws {
        let url = try #require(URL(string: "https://127.0.0.1:\(nginx.port)/"))
        #expect(load(url)?.error?.code == .secureConnectionFailed)
    }

    @Test func `a large upload arrives completely`() throws {
        var request = URLRequest(url: nginx.url("upload"))
        request.httpMethod = "PUT"
        let file = nginx.files.appendingPathComponent("large.bin")
        try PatternBytes.data(count: 20_000_000).write(to: file)
        request.httpBodyStream = InputStream(url: file)
        request.setValue("20000000", forHTTPHeaderField: "Content-Length")
        let heard = try #require(load(request))
        #expect(heard.isFinished && heard.heads.first?.statusCode == 204, "\(heard.ends)")
        #expect(heard.sent == 20_000_000)
    }
}
