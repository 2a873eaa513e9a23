import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Transfers whose bytes are held back.
@Suite(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"))
struct HeldBackTests {
    /// In the last round, the end of the body is among the bytes buffered in libcurl.
    @Test(arguments: [true, false])
    func `a transfer paused after each block completes and does not delay others`(usesHTTP2: Bool) throws {
        let nginx = try Nginx()
        let bytes = PatternBytes.data(count: 3_000_000)
        _ = try nginx.add(bytes, as: "file.bin")
        let thread = NetworkThread()
        let held = DispatchSemaphore(value: 0)
        let collector = Collector(onData: { connection in
            connection.suspendReceiving()
            held.signal()
        })
        var configuration = ConnectionConfiguration(
            certificateAuthorities: nginx.certificateAuthority, usesHTTP2: usesHTTP2)
        configuration.receiveBufferSize = 512 << 10
        let connection = RequestChain(
            request: URLRequest(url: nginx.secureURL("file.bin")), configuration: configuration, delegate: collector,
            thread: thread)
        connection.start()
        while collector.body.count < bytes.count {
            try held.waitOrThrow(timeout: 30, "a block after \(collector.body.count) bytes")
            let other = try #require(
                load(URLRequest(url: nginx.url("small")), thread: thread, delegate: Collector()), "the request is held back")
            #expect(other.text == "hello world")
            connection.resumeReceiving()
        }
        let heard = try #require(collector.wait(within: 30))
        #expect(heard.isFinished && heard.body == bytes)
    }
}
