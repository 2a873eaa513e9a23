import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Real transfers with limited sending.
@Suite struct SendRateTests {
    let server: TestServer
    private static let size = 300_000

    init() throws {
        server = try TestServer()
        server.route("POST", "/upload", .text(""))
    }

    private func upload(asStream isStream: Bool) -> URLRequest {
        var request = URLRequest(url: server.url("/upload"))
        request.httpMethod = "POST"
        let body = PatternBytes.data(count: Self.size)
        if isStream { request.httpBodyStream = InputStream(data: body) } else { request.httpBody = body }
        return request
    }

    @Test(arguments: [true, false], [300_000, 3_000_000])
    func `an upload never exceeds its limit and arrives completely`(isStream: Bool, rate: Int) throws {
        let recorder = PaceRecorder()
        start(upload(asStream: isStream), sending: [RateLimit(bytesPerSecond: Int64(rate))], to: recorder)
        let pace = try #require(recorder.wait())
        #expect(pace.isFinished && pace.sent.last?.total == Self.size)
        let excess = PaceRecorder.Pace.excess(of: pace.sent, over: Double(rate), since: pace.start)
        #expect(excess <= Double(rate) / 8 + Double(max(1_024, rate / 50)))
        let request = try #require(server.requests.last)
        #expect(request.bodyChecksum == BodyChecksum.of(PatternBytes.data(count: Self.size)))
    }

    @Test(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"), arguments: [true, false])
    func `the limit also applies over TLS`(usesHTTP2: Bool) throws {
        let nginx = try Nginx()
        var request = upload(asStream: false)
        request.url = nginx.secureURL("upload")
        let recorder = PaceRecorder()
        start(request, sending: [RateLimit(bytesPerSecond: 2_000_000)], to: recorder) {
            $0.certificateAuthorities = nginx.certificateAuthority
            $0.usesHTTP2 = usesHTTP2
        }
        let pace = try #require(recorder.wait())
        #expect(pace.isFinished && pace.sent.last?.total == Self.size)
        #expect(PaceRecorder.Pace.excess(of: pace.sent, over: 2e6, since: pace.start) <= 250_000 + 40_000)
    }

    @Test(arguments: [true, false])
    func `a limit of zero suspends an upload beyond its timeout`(isStream: Bool) throws {
        let limit = RateLimit(bytesPerSecond: 0)
        var request = upload(asStream: isStream)
        request.timeoutInterval = 0.3
        let recorder = PaceRecorder()
        start(request, sending: [limit], stall: StallLimit(bytesPerSecond: 1_000_000, duration: 0.3), to: recorder) {
            $0.timeoutIntervalForHead = 0.3
        }
        try eventually(timeout: 60, "the upload waits, or has ended") {
            limit.waiterCount == 1 || recorder.paceSoFar.end != nil
        }
        #expect(recorder.wait(within: 1) == nil && recorder.paceSoFar.sent.isEmpty)
        limit.bytesPerSecond = nil
        #expect(recorder.wait()?.isFinished == true)
        #expect(server.requests.last?.bodyLength == Self.size && limit.waiterCount == 0)
    }

    @Test func `a waiting upload can be cancelled`() throws {
        let limit = RateLimit(bytesPerSecond: 0)
        let recorder = PaceRecorder()
        let connection = start(upload(asStream: false), sending: [limit], to: recorder)
        try eventually(timeout: 60, "the upload waits") { limit.waiterCount == 1 }
        connection.cancel()
        guard case .cancelled = try #require(recorder.wait()).end else {
            Issue.record("The transfer was not cancelled.")
            return
        }
        #expect(limit.waiterCount == 0)
    }

    @Test func `a limit for both directions limits their sum`() throws {
        server.route("POST", "/exchange", .pattern(count: Self.size))
        var request = upload(asStream: false)
        request.url = server.url("/exchange")
        let rate = 3_000_000.0
        let limit = RateLimit(bytesPerSecond: Int64(rate))
        let recorder = PaceRecorder()
        start(request, receiving: [limit], sending: [limit], to: recorder)
        let pace = try #require(recorder.wait())
        #expect(pace.isFinished && pace.isRight && pace.receivedTotal == Self.size)
        let sum = pace.received.map { ($0.time, $0.total + (pace.sent.last?.total ?? 0)) }
        #expect(PaceRecorder.Pace.excess(of: sum, over: rate, since: pace.start) <= rate / 8 + Double(64 << 10))
    }

    @Test func `an early rejection is received while a limit holds the upload back`() throws {
        server.route("POST", "/refused", options: .answersEarly, .text("too large", status: 413))
        var request = upload(asStream: false)
        request.url = server.url("/refused")
        let limit = RateLimit(bytesPerSecond: 10_000)
        let recorder = PaceRecorder()
        start(request, sending: [limit], to: recorder)
        let pace = try #require(recorder.wait(within: 30))
        #expect(pace.hasHead && pace.sent.last?.total ?? 0 < Self.size && limit.waiterCount == 0)
    }

    @Test func `the shared limit applies to uploads without their own`() throws {
        let limit = RateLimit.sharedForSending
        defer { limit.bytesPerSecond = nil }
        limit.bytesPerSecond = 3_000_000
        let recorder = PaceRecorder()
        start(upload(asStream: false), to: recorder)
        let pace = try #require(recorder.wait())
        #expect(pace.isFinished)
        #expect(PaceRecorder.Pace.excess(of: pace.sent, over: 3e6, since: pace.start) <= 375_000 + 60_000)
    }
}
