import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Responses with encoded bodies, as received by the delegate.
@Suite struct DecodedResponseTests {
    let server: TestServer
    let text = Array(String(repeating: "All work and no play makes Jack a dull boy.\n", count: 400).utf8)

    init() throws { server = try TestServer() }

    private func heard(
        _ body: [UInt8], encodings: [String], status: Int = 200, headers: [String: String] = [:],
        configuration: ConnectionConfiguration = ConnectionConfiguration(), delegate: Collector = Collector(),
        change: (TestServer.Response) -> TestServer.Response = { $0 }
    ) throws -> Collector.Heard {
        var response = TestServer.Response.bytes(Data(body), type: "text/plain", status: status)
        for encoding in encodings { response = response.header("Content-Encoding", encoding) }
        server.route("GET", "/encoded", change(response))
        var request = URLRequest(url: server.url("/encoded"))
        for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
        return try #require(load(request, configuration: configuration, delegate: delegate))
    }

    private func encoded(_ coding: String) throws -> [UInt8] {
        switch coding {
        case "br": try Encoders.brotli(text)
        case "zstd": try Encoders.zstd(text)
        case "deflate": try Encoders.deflate(text, windowBits: 15)
        default: try Encoders.gzip(text)
        }
    }

    @Test(arguments: ["gzip", "x-gzip", "deflate", "br", "zstd", "GZIP"])
    func `a body is decoded, and a truncated one is an error`(coding: String) throws {
        let body = try encoded(coding.lowercased())
        let whole = try heard(body, encodings: [coding])
        #expect(whole.isFinished && whole.body == Data(text))
        #expect(whole.heads.first?.isEncoded == true)
        for count in stride(from: 1, to: body.count, by: max(1, body.count / 40)) {
            let cut = try heard(Array(body[..<count]), encodings: [coding])
            #expect(cut.error?.code == .cannotDecodeContentData, "cut at \(count) of \(body.count): \(cut)")
        }
    }

    @Test func `an encoded body without bytes is empty`() throws {
        let heard = try heard([], encodings: ["gzip"])
        #expect(heard.isFinished && heard.body.isEmpty)
    }

    @Test func `a body of several gzip members is decoded completely`() throws {
        let heard = try heard(
            try Encoders.gzip(Array("hello".utf8)) + Encoders.gzip(Array(" world".utf8)), encodings: ["gzip"])
        #expect(heard.isFinished && heard.text == "hello world")
    }

    @Test(arguments: [["gzip", "identity"], ["identity", "gzip"], ["identity, gzip"]])
    func `identity beside another coding has no effect`(encodings: [String]) throws {
        let heard = try heard(try encoded("gzip"), encodings: encodings)
        #expect(heard.isFinished && heard.body == Data(text))
        #expect(heard.heads.first?.isEncoded == true)
    }

    @Test func `stacked codings are decoded from the last to the first`() throws {
        let heard = try heard(try Encoders.brotli(try encoded("gzip")), encodings: ["gzip", "br"])
        #expect(heard.isFinished && heard.body == Data(text))
    }

    @Test func `stacked codings respect the limit`() throws {
        let zeros = [UInt8](repeating: 0, count: 32 << 20)
        let bomb = try Encoders.gzip(try Encoders.gzip(zeros, level: 9), level: 9)
        let heard = try heard(bomb, encodings: ["gzip, gzip"])
        #expect(heard.error?.code == .dataLengthExceedsMaximum)
        #expect(heard.body.count < 16 << 20)
    }

    @Test func `a body in an unknown coding is delivered unchanged unless it is refused`() throws {
        let heard = try heard(Array("uryyb".utf8), encodings: ["rot13"])
        #expect(heard.isFinished && heard.text == "uryyb")
        var strict = ConnectionConfiguration()
        strict.refusesUnknownEncodings = true
        let refused = try self.heard(Array("uryyb".utf8), encodings: ["rot13"], configuration: strict)
        #expect(refused.error?.code == .cannotDecodeContentData)
    }

    @Test func `a complete body in response to a range request is still decoded`() throws {
        let heard = try heard(try encoded("gzip"), encodings: ["gzip"], headers: ["Range": "bytes=10-"])
        #expect(heard.isFinished && heard.body == Data(text))
        #expect(server.requests.last?.headers["Accept-Encoding"] == "identity")
    }

    @Test func `a body is not decoded if the request sets Accept-Encoding itself`() throws {
        let body = try encoded("gzip")
        let heard = try heard(body, encodings: ["gzip"], headers: ["Accept-Encoding": "gzip"])
        #expect(heard.isFinished && heard.body == Data(body))
    }

    @Test func `a delegate that pauses receives the rest when it resumes`() throws {
        let zeros = [UInt8](repeating: 7, count: 3 << 20)
        let isOpen = Locked(true)
        let delegate = Collector(onData: { connection in
            // Blocks are delivered one by one, and each is requested from another thread.
            connection.suspendReceiving()
            isOpen.withLock { $0 = false }
            DispatchQueue.global().async {
                isOpen.withLock { $0 = true }
                connection.resumeReceiving()
            }
        })
        let heard = try heard(try Encoders.gzip(zeros), encodings: ["gzip"], delegate: delegate)
        #expect(heard.isFinished && heard.body == Data(zeros))
    }

    @Test func `a paused delegate receives the rest before the end`() throws {
        // The complete encoded body arrives at once, and the end of the transfer waits for the delegate.
        let zeros = [UInt8](repeating: 7, count: 1 << 20)
        let delegate = Collector(onData: { connection in
            connection.suspendReceiving()
            DispatchQueue.global().asyncAfter(deadline: .now() + 0.01) { connection.resumeReceiving() }
        })
        let body = try Encoders.gzip(zeros)
        let cut = try heard(Array(body[..<(body.count - 3)]), encodings: ["gzip"], delegate: delegate)
        #expect(cut.error?.code == .cannotDecodeContentData)
        #expect(cut.ends.count == 1)
    }

    @Test func `a redirect that is taken as the response is decoded`() throws {
        let delegate = Collector(decision: { _, decide in decide(nil) })
        let heard = try heard(try encoded("gzip"), encodings: ["gzip"], status: 302, delegate: delegate) {
            $0.header("Location", "/elsewhere")
        }
        #expect(heard.isFinished && heard.body == Data(text))
    }
}
