import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Tests that servers that contradict themselves cause correct bytes or an error, but never wrong bytes or a hang.
/// Downloads from honest servers that resemble them succeed.
///
/// Each case is derived from a printed seed. `CONVOY_SEED` repeats a run, and `CONVOY_CONTRADICTION` one of its cases.
/// `CONVOY_CONTRADICTIONS` sets the number of cases (three per server by default).
struct ContradictionTests {
    private static let environment = ProcessInfo.processInfo.environment
    /// The number of concurrent cases, each with its own port: most of them wait for a slice or a pause.
    private static let width = FrameServer.maximumPortCount

    private final class Results: Sendable {
        let next = Locked(0)
        let faults = Locked<[String]>([])
        /// The numbers of successes and failures by server.
        let ends = Locked<[String: (successes: Int, failures: Int)]>([:])
    }

    @Test func `the table has enough contradictory and honest servers with unique names`() {
        #expect(ScriptedServer.contradictions.count >= 40 && ScriptedServer.honest.count >= 24)
        let all = ScriptedServer.contradictions + ScriptedServer.honest
        #expect(Set(all.map(\.name)).count == all.count)
    }

    @Test func `downloads from contradictory servers are correct or fail once, and those from honest servers succeed`()
        throws
    {
        let hasHTTP2 = FrameServer.isInstalled
        if !hasHTTP2 { print("contradictions: no case over HTTP/2, which needs \(FrameServer.installHint)") }
        let servers = (ScriptedServer.contradictions + ScriptedServer.honest).filter { hasHTTP2 || $0.isOverHTTP1 }
        let seed = Self.environment["CONVOY_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0...0xFFFF_FFFF)
        let count = Self.environment["CONVOY_CONTRADICTIONS"].flatMap { Int($0) } ?? PropertyBudget.rounds(servers.count)
        let numbers = Self.environment["CONVOY_CONTRADICTION"].flatMap { Int($0) }.map { [$0] } ?? Array(0..<count)
        print("contradictions: \(numbers.count) cases of \(servers.count) servers, CONVOY_SEED=\(seed)")

        var configuration = TestServer.Configuration()
        configuration.recordingLimit = 0
        let server = try TestServer(configuration)
        defer { server.stop() }
        let frames = hasHTTP2 ? try FrameServer(asking: server.port, count: Self.width) : nil
        defer { frames?.stop() }
        let ground = ContradictionGround(
            server: server, frames: frames, directory: try TemporaryDirectory(prefix: "convoy-contradictions"))
        let results = Results()
        let threads = DispatchGroup()
        for lane in 0..<min(Self.width, numbers.count) {
            threads.enter()
            Thread {
                while let index = results.next.withLock({ next -> Int? in
                    guard next < numbers.count, results.faults.withLock({ $0.count }) < 40 else { return nil }
                    defer { next += 1 }
                    return next
                }) {
                    let test = ContradictionCase(seed: seed, number: numbers[index], servers: servers, hasHTTP2: hasHTTP2)
                    guard let verdict = try? ContradictionRun(test, on: ground, lane: lane).run() else {
                        results.faults.withLock { $0.append("could not be run: \(test)") }
                        continue
                    }
                    results.ends.withLock { ends in
                        var end = ends[test.server.name] ?? (0, 0)
                        if verdict.isSuccess { end.successes += 1 } else { end.failures += 1 }
                        ends[test.server.name] = end
                    }
                    if let fault = verdict.fault {
                        results.faults.withLock { $0.append("\(fault.rawValue) in \(test)\n   \(verdict.detail)") }
                    }
                }
                threads.leave()
            }.start()
        }
        threads.wait()
        let (faults, ends) = (results.faults.withLock { $0 }, results.ends.withLock { $0 })
        let successes = ends.values.reduce(0) { $0 + $1.successes }
        print("contradictions: \(successes) of \(numbers.count) right, \(faults.count) with a fault")
        for fault in faults.prefix(12) { print(fault) }
        if Self.environment["CONVOY_CONTRADICTIONS"] != nil {
            for (name, end) in ends.sorted(by: { $0.key < $1.key }) {
                print("   \(end.successes) right, \(end.failures) not: \(name)")
            }
        }
        #expect(faults.isEmpty, "CONVOY_SEED=\(seed)")
        // With most servers, a download can succeed.
        #expect(numbers.count < 100 || successes > numbers.count / 2)
    }
}
