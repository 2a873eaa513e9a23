import ConvoyTestSupport
import ConvoyTransport
import Foundation
import Testing

/// The frames of real HTTP/2 servers, with one fault each: truncated, reset or stalled at every byte, every byte
/// damaged, and GOAWAY and RST_STREAM before each frame. See ``ReplayTests``.
@Suite(.serialized) struct FrameReplayTests {
    @Test func `a request with an injected fault ends as specified or fails, and other requests are unaffected`() throws {
        ProcessMeters.raiseDescriptorLimit()
        var random = SplitMix64(seed: ReplayTests.seed)
        let all = FrameCase.all(try FrameRecording.all())
        let cases = ReplayTests.chosen(all, count: ReplayTests.isWhole ? .max : 150, &random)
        print("network faults over HTTP/2: \(cases.count) of \(all.count) cases, CONVOY_SEED=\(ReplayTests.seed)")
        let before = ProcessMeters.openDescriptors
        let report = try Self.run(all, cases)
        report.print()
        #expect(report.faultCount == 0, "CONVOY_SEED=\(ReplayTests.seed)")
        #expect(report.successes + report.failures == cases.count)
        try eventually(timeout: 30, "\(before) descriptors, not \(ProcessMeters.descriptorTargets)") {
            ProcessMeters.openDescriptors <= before
        }
    }

    private static func run(_ all: [FrameCase], _ cases: [FrameCase]) throws -> FaultRun.Report {
        let tls = try ServerTLS(protocols: ServerTLS.http2)
        let server = try FrameReplayServer(tls: tls) { all.indices.contains($0) ? all[$0] : nil }
        defer { server.stop() }
        var configuration = ConnectionConfiguration()
        configuration.certificateAuthorities = tls.certificateAuthority
        let width = 100
        let run = FaultRun(
            base: "https://localhost:\(server.port)", configuration: configuration, thread: NetworkThread(), isolates: true,
            stallTimeout: 1, width: width
        ) { server.arrivals(of: $0) }
        return run.run(cases, width: width)
    }
}
