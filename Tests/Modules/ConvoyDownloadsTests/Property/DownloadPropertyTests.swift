import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import ConvoySupport
import Testing

/// Tests that a download completes once, with a correct file, or with an error and the old file, for any behaviour of
/// servers and mirrors and any event.
///
/// Each case is derived from a printed seed. `CONVOY_SEED` repeats a run, and `CONVOY_DOWNLOAD` one of its cases.
/// `CONVOY_DOWNLOADS` sets the number of cases, and `CONVOY_BEHAVIOURS` limits the behaviours.
struct DownloadPropertyTests {
    private static let environment = ProcessInfo.processInfo.environment
    /// The number of concurrent cases: most of them wait for a slice, a pause or a timeout.
    private static let width = 16

    private final class Results: Sendable {
        let next = Locked(0)
        let faults = Locked<[String]>([])
        let successes = Locked(0)
    }

    @Test func `a download yields a correct file or fails exactly once`() throws {
        let seed = Self.environment["CONVOY_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0...0xFFFF_FFFF)
        let count = Self.environment["CONVOY_DOWNLOADS"].flatMap { Int($0) } ?? PropertyBudget.rounds(400)
        let numbers = Self.environment["CONVOY_DOWNLOAD"].flatMap { Int($0) }.map { [$0] } ?? Array(0..<count)
        let chosen = Self.environment["CONVOY_BEHAVIOURS"]?.split(separator: ",").map(String.init)
        let behaviours = ServerBehaviour.allCases.filter { chosen?.contains($0.rawValue) ?? true }
        try #require(!behaviours.isEmpty)
        print("downloads: \(numbers.count) cases, CONVOY_SEED=\(seed)")

        var configuration = TestServer.Configuration()
        configuration.recordingLimit = 0
        let server = try TestServer(configuration)
        DownloadCaseRun.servePlanted(server)
        let directory = try TemporaryDirectory(prefix: "convoy-downloads")
        let results = Results()
        let threads = DispatchGroup()
        for _ in 0..<min(Self.width, numbers.count) {
            threads.enter()
            Thread {
                while let index = results.next.withLock({ next -> Int? in
                    guard next < numbers.count, results.faults.withLock({ $0.count }) < 40 else { return nil }
                    defer { next += 1 }
                    return next
                }) {
                    let test = DownloadCase(seed: seed, number: numbers[index], behaviours: behaviours)
                    guard let verdict = try? DownloadCaseRun(test, server: server, directory: directory).run() else {
                        results.faults.withLock { $0.append("could not be run: \(test)") }
                        continue
                    }
                    if verdict.isSuccess { results.successes.withLock { $0 += 1 } }
                    if let fault = verdict.fault {
                        results.faults.withLock { $0.append("\(fault.rawValue) in \(test)\n   \(verdict.detail)") }
                    }
                }
                threads.leave()
            }.start()
        }
        threads.wait()
        server.stop()
        let (faults, successes) = (results.faults.withLock { $0 }, results.successes.withLock { $0 })
        print("downloads: \(successes) of \(numbers.count) right, \(faults.count) with a fault")
        for fault in faults.prefix(12) { print(fault) }
        #expect(faults.isEmpty, "CONVOY_SEED=\(seed)")
        // Most cases can succeed.
        #expect(numbers.count < 100 || successes > numbers.count / 4)
    }
}
