import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import XCTest

@testable import ConvoyOperations

/// Pausing and resuming, retries, and files, through a proxy. Uses XCTest, which runs tests serially, because they
/// share the environment that specifies the proxy.
final class TunnelResumeTests: XCTestCase {
    private static let size = 2_000_000

    private static let misleading = """
        HTTP/1.1 200 OK\r
        ETag: "proxy"\r
        Content-Encoding: gzip\r
        Content-Length: 5\r
        Content-Range: bytes 0-4/5\r
        \r

        """

    private func nginx() throws -> Nginx {
        guard Nginx.isInstalled else { throw XCTSkip("needs \(Nginx.installHint)") }
        let nginx = try Nginx()
        _ = try nginx.add(PatternBytes.data(count: Self.size), as: "file.bin")
        return nginx
    }

    private func probe(_ url: URL, _ nginx: Nginx, http2: Bool, file: URL?) -> (Probe, NetworkThread) {
        let probe = Probe(url, output: file.map { FileOutputStream(fileURL: $0) })
        probe.operation.connectionConfiguration = ConnectionConfiguration(
            certificateAuthorities: nginx.certificateAuthority, usesHTTP2: http2)
        // This thread has its own connections.
        let thread = NetworkThread()
        probe.operation.change { $0.holder.transport = thread }
        return (probe, thread)
    }

    /// Runs the operation, pauses it when more than half of the body has arrived and the proxy forwards no more, and
    /// resumes it.
    private func run(_ probe: Probe, on thread: NetworkThread, pausingBehind proxy: ConnectProxy) throws -> [String] {
        proxy.hold(afterBytes: Self.size * 3 / 4)
        let isFirst = Locked(true)
        probe.operation.downloadProgressHandler = { [operation = probe.operation] _, total, _ in
            guard total > Self.size / 2, isFirst.withLock({ $0.take() }) else { return }
            operation.pause()
            // Release the proxy only after the transfer was stopped.
            let _: Bool = thread.perform {
                proxy.release()
                operation.resume()
            }
        }
        return try withEnvironment(["https_proxy": proxy.address]) {
            probe.operation.start()
            return try XCTUnwrap(probe.outcome(), "never arrived: \(probe.operation)")
        }
    }

    private func expectResumed(_ proxy: ConnectProxy, _ nginx: Nginx, _ name: String) throws {
        let directory = try TemporaryDirectory()
        for (http2, file) in [(false, nil), (true, nil), (false, directory.file("a")), (true, directory.file("b"))] {
            let before = proxy.passedBytes
            let (probe, thread) = probe(nginx.secureURL("file.bin"), nginx, http2: http2, file: file)
            let outcome = try run(probe, on: thread, pausingBehind: proxy)
            XCTAssertEqual(outcome, Probe.succeeded, "\(name): \(String(describing: probe.operation.error))")
            let body = try file.map { try Data(contentsOf: $0) } ?? probe.operation.responseData
            XCTAssertEqual(body?.count, Self.size, name)
            XCTAssertTrue(body == PatternBytes.data(count: Self.size), name)
            XCTAssertEqual(probe.operation.response?.statusCode, 200, name)
            // The first part was not sent a second time.
            XCTAssertLessThan(proxy.passedBytes - before, Self.size * 3 / 2, name)
        }
    }

    func testADownloadThatIsPausedInATunnelIsResumedInOne() throws {
        let nginx = try nginx()
        let partial = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-9/10\r\nETag: \"proxy\"\r\n\r\n"
        for (name, answer) in [
            ("a plain answer", ConnectProxy.established), ("misleading fields", Self.misleading), ("206", partial),
        ] {
            let proxy = try ConnectProxy(.tunnels(to: nginx.securePort, saying: answer))
            defer { proxy.stop() }
            try expectResumed(proxy, nginx, name)
        }
    }

    func testADownloadThatIsPausedBehindTinyproxyIsResumedThere() throws {
        guard Tinyproxy.isInstalled else { throw XCTSkip("needs \(Tinyproxy.installHint)") }
        let nginx = try nginx()
        let tinyproxy = try Tinyproxy(connectPorts: [nginx.securePort])
        let proxy = try ConnectProxy(.passes(to: tinyproxy.port))
        defer { proxy.stop() }
        try expectResumed(proxy, nginx, "tinyproxy")
    }

    func testAProxysAnswerIsNeverPutBehindAPart() throws {
        let nginx = try nginx()
        let directory = try TemporaryDirectory()
        let etag = try XCTUnwrap(
            RawClient(port: nginx.port).exchange("HEAD", "/file.bin")["ETag"])
        let lies = [
            "HTTP/1.1 206 Partial Content\r\nETag: \(etag)\r\nContent-Range: bytes \(Self.size - 6)-\(Self.size - 1)/\(Self.size)\r\nContent-Length: 6\r\n\r\nforged",
            "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */\(Self.size)\r\nContent-Length: 6\r\n\r\nforged",
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",
            "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\nforged",
            "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 6\r\n\r\nforged",
            "HTTP/1.1 302 Found\r\nLocation: \(nginx.url("small").absoluteString)\r\n\r\n",
            "",
        ]
        for lie in lies {
            for file in [nil, directory.file("file")] {
                let proxy = try ConnectProxy(.tunnels(to: nginx.securePort), .says(lie))
                defer { proxy.stop() }
                // Use HTTP/1.1, because HTTP/2 would resume over the same tunnel.
                let (probe, thread) = probe(nginx.secureURL("file.bin"), nginx, http2: false, file: file)
                let outcome = try run(probe, on: thread, pausingBehind: proxy)
                XCTAssertNotEqual(outcome, Probe.succeeded, lie)
                XCTAssertTrue(probe.operation.error is URLError, "\(lie) \(String(describing: probe.operation.error))")
                let status = probe.operation.response?.statusCode
                XCTAssertTrue(status == nil || status == 200, "\(lie) became the response")
                XCTAssertGreaterThan(proxy.heads.count, 1)
                guard let file else { continue }
                let part = try Data(contentsOf: file)
                XCTAssertTrue(part == PatternBytes.data(count: part.count), lie)
            }
        }
    }

    func testNothingThatAProxySaysIsWrittenToAFile() throws {
        let nginx = try nginx()
        let directory = try TemporaryDirectory()
        for status in ["200 OK", "302 Found", "404 Not Found", "407 Authenticate", "502 Bad Gateway"] {
            let proxy = try ConnectProxy(
                .says(
                    "HTTP/1.1 \(status)\r\nLocation: \(nginx.url("small").absoluteString)\r\nContent-Length: 6\r\n\r\nforged"
                ))
            defer { proxy.stop() }
            let file = directory.file(status)
            let (probe, _) = probe(nginx.secureURL("file.bin"), nginx, http2: true, file: file)
            // The serializer accepts every status code.
            var serializer = HTTPResponseSerializer()
            serializer.acceptableStatusCodes = nil
            probe.operation.responseSerializer = serializer
            let outcome = try withEnvironment(["https_proxy": proxy.address]) {
                probe.operation.start()
                return try XCTUnwrap(probe.outcome())
            }
            XCTAssertNotEqual(outcome, Probe.succeeded, status)
            XCTAssertNil(probe.operation.response, status)
            XCTAssertNil(probe.operation.responseData, status)
            XCTAssertEqual((try? Data(contentsOf: file))?.count ?? 0, 0, status)
        }
    }

    func testWhatAProxyDemandsHoldsUpNoRetry() throws {
        let nginx = try nginx()
        let proxy = try ConnectProxy(
            .says("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"),
            .tunnels(to: nginx.securePort))
        defer { proxy.stop() }
        let (probe, _) = probe(nginx.secureURL("file.bin"), nginx, http2: true, file: nil)
        probe.operation.retryPolicy = RetryPolicy(maximumRetryCount: 2)
        let outcome = try withEnvironment(["https_proxy": proxy.address]) {
            probe.operation.start()
            return try XCTUnwrap(probe.outcome(), "it waits as long as the proxy requested")
        }
        XCTAssertEqual(outcome, Probe.succeeded, "\(String(describing: probe.operation.error))")
        XCTAssertEqual(probe.operation.responseData?.count, Self.size)
    }
}

extension Bool {
    /// Returns the value, which is false from then on.
    fileprivate mutating func take() -> Bool {
        defer { self = false }
        return self
    }
}
