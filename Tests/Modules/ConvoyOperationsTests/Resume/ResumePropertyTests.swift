import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import Testing

@testable import ConvoyOperations

/// Tests that an operation ends once with the right bytes or an error, for any behaviour of the server and any event.
///
/// Every case is created from a printed seed. `CONVOY_SEED` repeats a run, and `CONVOY_RESUME` one case of it.
/// `CONVOY_RESUMES` sets the number of cases (2,000 by default), and `CONVOY_BEHAVIOURS` restricts the behaviours.
@Suite struct ResumePropertyTests {
    private static let environment = ProcessInfo.processInfo.environment
    /// The number of concurrent cases, most of which wait for a slice, a pause or a timeout.
    private static let width = 16

    @Test func `the bytes are correct, or the operation fails once`() throws {
        let seed = Self.environment["CONVOY_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0...0xFFFF_FFFF)
        let count = Self.environment["CONVOY_RESUMES"].flatMap { Int($0) } ?? 600
        let numbers = Self.environment["CONVOY_RESUME"].flatMap { Int($0) }.map { [$0] } ?? Array(0..<count)
        print("resumes: \(numbers.count) cases, CONVOY_SEED=\(seed)")
        if !Nginx.isInstalled { print("resumes: no case over HTTP/2, which needs \(Nginx.installHint)") }
        try #require(!ServerBehaviour.chosen.isEmpty)

        let before = try Self.descriptorsAtRest(seed)
        let report = try Self.report(
            of: numbers.map {
                ResumeCase(seed: seed, number: $0, behaviours: ServerBehaviour.chosen, sharesHTTP2: Nginx.isInstalled)
            })
        print("resumes: \(report)")
        #expect(report.runs == numbers.count)
        // A body that an old libcurl may have truncated is requested again over HTTP/1.1, and other cases may then use
        // that connection.
        let overHTTP1 = report.count(of: .notHTTP2)
        #expect(report.faults == overHTTP1, "CONVOY_SEED=\(seed): \(report)")
        #expect(overHTTP1 * 10 <= report.runs, "CONVOY_SEED=\(seed): \(report)")
        try eventually(timeout: 30, "descriptors: \(before) before, afterwards \(ProcessMeters.descriptorTargets)") {
            ProcessMeters.openDescriptors <= before
        }
    }

    /// Returns the number of descriptors after the first cases, when everything created once per process exists.
    private static func descriptorsAtRest(_ seed: UInt64) throws -> Int {
        _ = try report(of: (0..<width).map { ResumeCase(seed: seed, number: $0, behaviours: [.honest], sharesHTTP2: true) })
        var (last, looks) = (-1, 0)
        // The descriptors of the server, nginx and the network thread are closed a moment later.
        try eventually("a stable number of descriptors") {
            let count = ProcessMeters.openDescriptors
            (last, looks) = (count, count == last ? looks + 1 : 0)
            return looks == 25
        }
        return last
    }

    private static func report(of cases: [ResumeCase]) throws -> ResumeReport {
        var configuration = TestServer.Configuration()
        configuration.recordingLimit = 0
        let server = try TestServer(configuration)
        let nginx = cases.contains(where: \.usesHTTP2) ? try Nginx(forwardingTo: server.port) : nil
        let ground = ResumeGround(
            server: server, nginx: nginx, directory: try TemporaryDirectory(prefix: "convoy-resumes"),
            thread: NetworkThread())
        let next = Guarded(0)
        let results = Guarded<[(run: ResumeRun, verdict: ResumeRun.Verdict)]>([])
        let threads = DispatchGroup()
        for _ in 0..<min(width, cases.count) {
            threads.enter()
            Thread {
                let handlers = DispatchQueue(label: "Convoy.Tests.handlers")
                while true {
                    let index = next.withLock { next in
                        defer { next += 1 }
                        return next
                    }
                    // If everything hangs, a few cases are enough to show it.
                    let hung = results.withLock { $0.count { $0.verdict.fault == .hung } }
                    guard index < cases.count, hung < width else { return threads.leave() }
                    let run = ResumeRun(cases[index], on: ground, handlers: handlers)
                    let verdict = run.run()
                    results.withLock { $0.append((run, verdict)) }
                }
            }.start()
        }
        threads.wait()
        var report = ResumeReport()
        for (run, verdict) in results.withLock({ $0 }) {
            report.add(verdict, of: run.test)
            if verdict.fault == nil, let fault = run.lateFault { report.add(fault, "later", of: run.test) }
        }
        return report
    }
}
