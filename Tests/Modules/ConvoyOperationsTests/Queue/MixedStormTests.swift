import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Thousands of operations of every kind in one queue: requests among hosts that redirect to each other, requests that
/// wait at closed gates, operations of other classes, and barriers.
///
/// `CONVOY_STORM_OPERATIONS` sets the number of requests, 1,000 by default.
@Suite struct MixedStormTests {
    /// A record of what is currently running: the operations that each host is serving, and the blocks.
    private final class Board: Sendable {
        private struct State {
            var active: [Int: Set<Int>] = [:]
            /// The operations that were stopped. A host does not immediately detect that its response is no longer
            /// awaited.
            var disturbed: Set<Int> = []
            var blocks = 0
            var report = Report()

            /// The number of operations that a host is serving, apart from those that were stopped.
            func count(_ host: Int) -> Int { active[host]?.subtracting(disturbed).count ?? 0 }
            var total: Int { active.keys.reduce(blocks) { $0 + count($1) } }
        }

        struct Report {
            var mostOfHost = 0
            var mostInAll = 0
            var blocks = 0
            var barriers = 0
            /// The barriers that ran beside an operation.
            var brokenBarriers = 0
            /// The operations whose host has requested a delay.
            var refused: Set<Int> = []
        }

        private let state = Locked(State())
        var report: Report { state.withLock { $0.report } }

        func enter(_ host: Int, _ number: Int) {
            state.withLock { state in
                state.active[host, default: []].insert(number)
                state.report.mostOfHost = max(state.report.mostOfHost, state.count(host))
                state.report.mostInAll = max(state.report.mostInAll, state.total)
            }
        }
        func leave(_ host: Int, _ number: Int) { _ = state.withLock { $0.active[host]?.remove(number) } }
        func disturb(_ number: Int) { _ = state.withLock { $0.disturbed.insert(number) } }
        /// Returns whether the host must refuse the request: once for each operation.
        func refuses(_ number: Int) -> Bool { state.withLock { $0.report.refused.insert(number).inserted } }

        func runBlock() {
            state.withLock { state in
                state.blocks += 1
                state.report.blocks += 1
                state.report.mostInAll = max(state.report.mostInAll, state.total)
            }
            sched_yield()
            state.withLock { $0.blocks -= 1 }
        }
        func runBarrier() {
            state.withLock { state in
                state.report.barriers += 1
                if state.total > 0 { state.report.brokenBarriers += 1 }
            }
        }
    }

    private static let hosts = 5
    private static let limit = 3
    private static let queueLimit = 12
    private static let count = Int(ProcessInfo.processInfo.environment["CONVOY_STORM_OPERATIONS"] ?? "") ?? 1_000

    /// The operations that wait at closed gates, and those whose host closes its gate.
    private static func waitsAtGate(_ number: Int) -> Bool { number % 8 == 1 }
    private static func isRefused(_ number: Int) -> Bool { number % 800 == 1 }

    /// Creates the servers. The request specifies the hosts through which the operation is redirected.
    private static func makeServers(_ board: Board) throws -> [TestServer] {
        let servers = try (0..<hosts).map { _ in
            var configuration = TestServer.Configuration()
            configuration.recordingLimit = 0
            return try TestServer(configuration)
        }
        let urls = servers.map { $0.url("/") }
        for (host, server) in servers.enumerated() {
            server.route("GET", "/go") { request in
                let items = Dictionary(uniqueKeysWithValues: request.queryItems.map { ($0.name, $0.value ?? "") })
                let number = Int(items["number"] ?? "") ?? 0
                board.enter(host, number)
                defer { board.leave(host, number) }
                sched_yield()
                if isRefused(number), board.refuses(number) { return .status(503, headers: ["Retry-After": "1"]) }
                // The remaining hosts are given by one digit each.
                let rest = items["way"] ?? ""
                guard let next = rest.first?.wholeNumberValue else { return .text("\(number)") }
                return .redirect(to: "\(urls[next])go?number=\(number)&way=\(rest.dropFirst())")
            }
        }
        return servers
    }

    private static func makeProbe(_ number: Int, _ servers: [TestServer], _ random: inout SplitMix64) -> Probe {
        let way = (0..<Int.random(in: 0...4, using: &random)).map { _ in "\(Int.random(in: 0..<hosts, using: &random))" }
        let start = servers[Int.random(in: 0..<hosts, using: &random)]
        let probe = Probe(URL(string: "\(start.url("/go"))?number=\(number)&way=\(way.joined())") ?? start.url)
        if waitsAtGate(number) {
            probe.operation.retryPolicy = RetryPolicy(maximumRetryCount: 5)
            probe.operation.retryPolicy?.budget = nil
        }
        return probe
    }

    @Test func `each operation finishes once, and no limit is exceeded, despite pauses, gates and barriers`() throws {
        var random = SplitMix64.printingSeed()
        let board = Board()
        let servers = try Self.makeServers(board)
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCountPerHost = Self.limit
        queue.maxConcurrentOperationCount = Self.queueLimit
        let probes = (0..<Self.count).map { Self.makeProbe($0, servers, &random) }
        let rounds = probes.enumerated().map { ($0.offset, $0.element, random.fork()) }
        let threads = DispatchGroup()
        // Four threads stop some of the operations while all are in progress.
        for part in 0..<4 {
            let mine = rounds.filter { $0.0 % 4 == part }
            DispatchQueue(label: "storm \(part)").async(group: threads) {
                for (number, probe, seed) in mine {
                    var random = seed
                    queue.addOperation(probe.operation)
                    if number % 5 == 0 { queue.addOperation(BlockOperation { board.runBlock() }) }
                    if number % 250 == 249 { queue.addBarrierBlock { board.runBarrier() } }
                    guard number > 40 else { continue }
                    let victim = Int.random(in: (number - 40)..<number, using: &random)
                    let operation = probes[victim].operation
                    switch Int.random(in: 0..<10, using: &random) {
                    case 0:
                        board.disturb(victim)
                        operation.cancel()
                    case 1, 2:
                        board.disturb(victim)
                        operation.pause()
                    case 3:
                        let priorities = [Operation.QueuePriority.veryLow, .low, .normal, .high, .veryHigh]
                        operation.queuePriority = priorities.randomElement(using: &random) ?? .normal
                    case 4: operation.resume()
                    case 5: queue.isSuspended.toggle()
                    default: break
                    }
                }
            }
        }
        #expect(threads.wait(timeout: .now() + patience) == .success)
        queue.isSuspended = false
        // An operation that was paused before it was added is not affected by the queue. A barrier waits for all of them.
        queue.resumeAll()
        for probe in probes { probe.operation.resume() }
        var cancelled = 0
        for probe in probes {
            let outcome = probe.outcome()
            if outcome == Probe.cancelled { cancelled += 1 } else { #expect(outcome == Probe.succeeded) }
        }
        #expect(drains(queue) && cancelled < Self.count / 2, "\(queue)")
        let report = board.report
        print(
            "   \(Self.count) requests, \(cancelled) cancelled, \(report.refused.count) refused; at most"
                + " \(report.mostOfHost) of a host, \(report.mostInAll) in all; \(report.blocks) blocks, \(report.barriers) barriers"
        )
        #expect(report.mostOfHost <= Self.limit && report.mostInAll <= Self.queueLimit && report.brokenBarriers == 0)
        #expect(report.blocks == (Self.count + 4) / 5 && report.barriers == Self.count / 250)
        // A last round shows that no slot was lost or gained.
        let last = Gauge()
        for server in servers {
            server.route("GET", "/last") { _ in
                last.enter()
                defer { last.leave() }
                return .text("last")
            }
        }
        let more = (0..<200).map { Probe(servers[$0 % Self.hosts].url("/last")) }
        queue.addOperations(more.map(\.operation), waitUntilFinished: false)
        for probe in more { #expect(probe.outcome() == Probe.succeeded) }
        #expect(last.total == 200 && last.most <= Self.queueLimit)
        queue.state.withLock { state in
            #expect(state.running == 0 && state.lanes.hosts.hosts.allSatisfy { $0.running == 0 && $0.members == 0 })
        }
    }
}
