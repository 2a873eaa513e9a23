import ConvoyTestSupport
import ConvoyTransport
import Foundation
import Testing

/// Recorded responses of real servers, with one fault each: cut, reset or stalled at every byte, sent byte by byte or
/// twice at once, and with every byte of the head and of the chunked framing damaged.
///
/// Each run is a sample. `CONVOY_SEED` repeats a run, and `CONVOY_NETWORK=all` runs every case, and 20,000 over TLS
/// (`Tests/long network`). `CONVOY_CASE` runs one case by its number, with the same seed.
@Suite(.serialized) struct ReplayTests {
    static let environment = ProcessInfo.processInfo.environment
    /// Whether to run every case.
    static let isWhole = environment["CONVOY_NETWORK"] == "all"
    static let seed = environment["CONVOY_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0...0xFFFF_FFFF)

    /// Returns the cases to run.
    static func chosen<Case: ReplayedCase>(_ all: [Case], count: Int, _ random: inout SplitMix64) -> [Case] {
        // The variable is a number, or the first and the last number of a range.
        let bounds = environment["CONVOY_CASE"]?.split(separator: "-").compactMap { Int($0) } ?? []
        if let first = bounds.first, let last = bounds.last { return all.filter { first <= $0.number && $0.number <= last } }
        return Array(all.shuffled(using: &random).prefix(count))
    }

    @Test func `a request with an injected fault ends as specified or fails, and other requests are unaffected`() throws {
        try replay(isSecure: false, count: Self.isWhole ? .max : 1_000)
    }

    @Test func `a request with an injected fault over TLS ends as specified or fails, and other requests are unaffected`()
        throws
    {
        try replay(isSecure: true, count: Self.isWhole ? 20_000 : 200)
    }

    private func replay(isSecure: Bool, count: Int) throws {
        ProcessMeters.raiseDescriptorLimit()
        var random = SplitMix64(seed: Self.seed)
        let recordings = try Recording.all.get().map { try RecordedResponses($0) }
        let all = FaultCases.all(recordings, everyFlip: Self.isWhole && !isSecure, using: &random)
        let cases = Self.chosen(all, count: count, &random)
        print("network faults\(isSecure ? " over TLS" : ""): \(cases.count) of \(all.count) cases, CONVOY_SEED=\(Self.seed)")
        let before = ProcessMeters.openDescriptors
        let report = try Self.run(all, cases, isSecure: isSecure)
        report.print()
        #expect(report.faultCount == 0, "CONVOY_SEED=\(Self.seed)")
        #expect(report.successes + report.failures == cases.count)
        try eventually(timeout: 30, "\(before) descriptors, not \(ProcessMeters.descriptorTargets)") {
            ProcessMeters.openDescriptors <= before
        }
    }

    private static func run(_ all: [FaultCase], _ cases: [FaultCase], isSecure: Bool) throws -> FaultRun.Report {
        let tls = isSecure ? try ServerTLS(protocols: ServerTLS.http1) : nil
        let server = try ReplayServer(tls: tls) { request in
            all.indices.contains(request.number)
                ? all[request.number].play(for: request.target) : Play(bytes: [], end: .finish)
        }
        defer { server.stop() }
        var configuration = ConnectionConfiguration()
        configuration.usesHTTP2 = false
        configuration.certificateAuthorities = tls?.certificateAuthority
        let width = 400
        let run = FaultRun(
            base: isSecure ? "https://localhost:\(server.port)" : "http://127.0.0.1:\(server.port)",
            configuration: configuration, thread: NetworkThread(), width: width
        ) { server.arrivals(of: $0) }
        return run.run(cases, width: width)
    }
}
