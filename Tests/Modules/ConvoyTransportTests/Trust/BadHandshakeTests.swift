import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that each server whose TLS is broken, truncated or modified in transit causes one typed error, and receives
/// nothing of the request.
@Suite struct BadHandshakeTests {
    private static let codes: Set<URLError.Code> = [.secureConnectionFailed, .networkConnectionLost]

    @Test(arguments: [
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "220 mail.example.com ESMTP\r\n", "\0\0\0\0", "",
        // The responses are a handshake record that is too long, one of version 0.0, one of an unknown type, an alert,
        // and half of one.
        "\u{16}\u{3}\u{3}\u{7f}\u{7f}aaaa", "\u{16}\0\0\0\u{4}\u{2}\0\0\0", "\u{63}\u{3}\u{3}\0\u{1}a",
        "\u{15}\u{3}\u{3}\0\u{2}\u{2}\u{28}", "\u{15}\u{3}\u{3}\0\u{2}\u{2}", "\u{14}\u{3}\u{3}\0\u{1}\u{1}",
    ])
    func `a response that is not TLS is an error`(answer: String) throws {
        let server = try RawServer(answer: Array(answer.utf8))
        defer { server.stop() }
        let url = try #require(URL(string: "https://localhost:\(server.port)/"))
        let heard = try #require(load(url))
        #expect(heard.error?.code == .secureConnectionFailed, "\(heard.ends)")
        #expect(heard.ends.count == 1 && heard.heads.isEmpty)
    }

    @Test func `a silent server times out`() throws {
        let server = try RawServer(answer: nil)
        defer { server.stop() }
        let url = try #require(URL(string: "https://localhost:\(server.port)/"))
        #expect(load(url, timeout: 0.2)?.error?.code == .timedOut)
    }

    @Test(arguments: [TestServer.TLS.Version.tls12, .tls13])
    func `a handshake truncated at any byte is an error`(version: TestServer.TLS.Version) throws {
        try forEachByte(version) { relay, offset in
            relay.cut(afterBytes: offset)
        } check: { heard, offset, whole in
            // The end of TLS comes last; the response is complete without it.
            let isRight = heard.error.map { Self.codes.contains($0.code) } ?? (heard.text == "hello" && offset > whole - 64)
            #expect(isRight, "\(offset) of \(whole): \(heard.ends)")
        }
    }

    @Test(arguments: [TestServer.TLS.Version.tls12, .tls13])
    func `a handshake with any byte changed never produces a wrong response`(version: TestServer.TLS.Version) throws {
        try forEachByte(version) { relay, offset in
            relay.flip(byte: offset)
        } check: { heard, offset, _ in
            if heard.error == nil {
                // The modified byte is insignificant, such as the version of a record.
                #expect(heard.text == "hello", "\(offset): \(heard.ends)")
            }
        }
    }

    /// Modifies each byte of a server's responses in turn.
    private func forEachByte(
        _ version: TestServer.TLS.Version, tamper: (ConnectProxy, Int) -> Void,
        check: (Collector.Heard, Int, Int) throws -> Void
    ) throws {
        let trusted = try TrustedServer {
            $0.maximumVersion = version
            $0.resumesSessions = false
        }
        trusted.server.route("/", .text("hello").closing())
        let relay = try ConnectProxy(.passes(to: trusted.server.port))
        defer { relay.stop() }
        let url = try #require(URL(string: "https://localhost:\(relay.port)/"))
        let policy = try trusted.policy()
        #expect(trusted.load(policy, from: url)?.text == "hello")
        let whole = relay.passedBytes
        var configuration = ConnectionConfiguration()
        configuration.securityPolicy = policy
        for offset in stride(from: 0, to: whole, by: 1 + whole / 400) {
            tamper(relay, offset)
            var request = URLRequest(url: url)
            // After a modified length, both sides may wait.
            request.timeoutInterval = 0.3
            let heard = try #require(
                load(request, configuration: configuration, thread: trusted.thread), "no end at byte \(offset)")
            #expect(heard.ends.count == 1)
            // The head of the response is short and arrives last.
            if heard.error?.code != .timedOut { try check(heard, offset, whole) }
        }
    }

    @Test func `a close-delimited body without the TLS close alert is incomplete`() throws {
        for omits in [false, true] {
            let trusted = try TrustedServer { $0.omitsCloseNotify = omits }
            trusted.server.route("/", .raw("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"))
            let heard = try #require(trusted.load(try trusted.policy()))
            #expect((heard.error?.code == .networkConnectionLost) == omits, "\(omits): \(heard.ends)")
            #expect(heard.isFinished != omits)
            // A response to HEAD is complete with its head.
            trusted.server.route("HEAD", "/", .raw("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"))
            var request = URLRequest(url: trusted.server.url("/", host: "localhost"))
            request.httpMethod = "HEAD"
            var configuration = ConnectionConfiguration()
            configuration.securityPolicy = try trusted.policy()
            let head = try #require(load(request, configuration: configuration, thread: trusted.thread))
            #expect(head.isFinished, "\(omits): \(head.ends)")
        }
    }

    @Test(.enabled(if: OpenSSLServer.isInstalled, "\(OpenSSLServer.installHint)"))
    func `a server cannot force a renegotiation`() throws {
        let pipe = Pipe()
        let trusted = try TrustedServer()
        let directory = try TemporaryDirectory(prefix: "convoy-renegotiation")
        defer { directory.remove() }
        let (certificate, key) = try trusted.identity.write(to: directory.url, name: "server")
        let port = try LoopbackPort.free()
        let server = try ChildProcess(
            "/bin/sh",
            [
                "-c",
                "exec openssl s_server -accept 127.0.0.1:\(port) -cert \(certificate.path) -key \(key.path) -cert_chain \(certificate.path) -tls1_2 -msg <&3",
            ],
            directory: directory.url, log: directory.file("output.log"),
            descriptors: [pipe.fileHandleForReading.fileDescriptor])
        defer { server.stop(grace: 0.2) }
        try eventually("a server that accepts") { server.output.contains("ACCEPT") }
        var configuration = ConnectionConfiguration()
        configuration.securityPolicy = try trusted.policy()
        let url = try #require(URL(string: "https://localhost:\(port)/"))
        let collector = Collector()
        RequestChain(
            request: URLRequest(url: url), configuration: configuration, delegate: collector, thread: trusted.thread
        ).start()
        try eventually("the request") { server.output.contains("GET / HTTP/1.1") }
        // Send the program's command on a separate line.
        try pipe.fileHandleForWriting.write(contentsOf: Data("R\n".utf8))
        let heard = try #require(collector.wait())
        #expect(heard.error?.code == .secureConnectionFailed, "\(heard.ends)")
        #expect(server.output.contains("no_renegotiation"))
    }
}
