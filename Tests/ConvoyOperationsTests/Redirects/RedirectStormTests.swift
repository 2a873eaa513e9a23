import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Thousands of operations among hosts that redirect to each other.
@Suite struct RedirectStormTests {
    /// A record of the operations that each host is currently serving.
    private final class Board: Sendable {
        private struct State {
            var active: [Int: Set<Int>] = [:]
            /// The operations that were stopped. A host does not immediately detect that its response is no longer
            /// awaited.
            var disturbed: Set<Int> = []
            var most = 0
        }

        private let state = Locked(State())
        /// The maximum number that a host has served concurrently, apart from those that were stopped.
        var most: Int { state.withLock { $0.most } }

        func enter(_ host: Int, _ number: Int) {
            state.withLock { state in
                state.active[host, default: []].insert(number)
                let count = state.active[host]?.subtracting(state.disturbed).count ?? 0
                state.most = max(state.most, count)
            }
        }
        func leave(_ host: Int, _ number: Int) { _ = state.withLock { $0.active[host]?.remove(number) } }
        func disturb(_ number: Int) { _ = state.withLock { $0.disturbed.insert(number) } }
    }

    private static let hosts = 5
    private static let limit = 3

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
                // The remaining hosts are given by one digit each.
                let rest = items["way"] ?? ""
                guard let next = rest.first?.wholeNumberValue else { return .text("\(number)") }
                return .redirect(to: "\(urls[next])go?number=\(number)&way=\(rest.dropFirst())")
            }
        }
        return servers
    }

    @Test func `each operation finishes once, and no host exceeds its limit, despite pauses and cancellations`() throws {
        var random = SplitMix64.printingSeed()
        let board = Board()
        let servers = try Self.makeServers(board)
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCountPerHost = Self.limit
        queue.maxConcurrentOperationCount = 12
        let probes = (0..<PropertyBudget.rounds(1_000)).map { number in
            let way = (0..<Int.random(in: 0...4, using: &random)).map { _ in
                "\(Int.random(in: 0..<Self.hosts, using: &random))"
            }
            let start = servers[Int.random(in: 0..<Self.hosts, using: &random)]
            return Probe(URL(string: "\(start.url("/go"))?number=\(number)&way=\(way.joined())") ?? start.url)
        }
        let rounds = probes.enumerated().map { ($0.offset, $0.element, random.fork()) }
        let threads = DispatchGroup()
        // Four threads stop some of the operations while all are in progress.
        for part in 0..<4 {
            let mine = rounds.filter { $0.0 % 4 == part }
            DispatchQueue(label: "storm \(part)").async(group: threads) {
                for (number, probe, seed) in mine {
                    var random = seed
                    queue.addOperation(probe.operation)
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
                    case 3: operation.queuePriority = .veryLow
                    case 4: operation.resume()
                    case 5: queue.isSuspended.toggle()
                    default: break
                    }
                }
            }
        }
        #expect(threads.wait(timeout: .now() + patience) == .success)
        queue.isSuspended = false
        queue.resumeAll()
        var cancelled = 0
        for probe in probes {
            // An operation that was paused before it was added is not affected by the queue.
            probe.operation.resume()
            let outcome = probe.outcome()
            if outcome == Probe.cancelled { cancelled += 1 } else { #expect(outcome == Probe.succeeded) }
        }
        #expect(drains(queue) && cancelled < 1_000)
        #expect(board.most <= Self.limit)
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
        #expect(last.total == 200 && last.most <= 12)
        queue.state.withLock { state in
            #expect(state.running == 0 && state.lanes.hosts.hosts.allSatisfy { $0.running == 0 && $0.members == 0 })
        }
    }
}
