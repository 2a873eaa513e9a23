import ConvoyOperations
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySharedQueue

/// Limits of tags, and claims that are fair to all tags.
@Suite struct TagTests {
    private func entries(_ tag: String, _ count: Int, host: (Int) -> String = { _ in "a.example" }) -> [WorkItem] {
        (0..<count).map { WorkItem.plain(host: host($0), tag: tag) }
    }

    // MARK: Limits

    @Test(
        "the limits of a tag apply to all workers and hosts, in addition to those of hosts", arguments: StoreKind.available)
    func limits(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open(), other = try test.open()
        let workers = [try store.worker(), try other.worker()]
        try store.setLimits(HostLimits(maximumConcurrentRequests: 3), tag: "t")
        try store.setLimits(HostLimits(maximumConcurrentRequests: 2), host: "host0")
        try store.enqueue(entries("t", 12) { "host\($0 % 4)" } + entries("", 2))
        var claimed = try store.claim(worker: workers[0], limit: 2, tags: nil).entries
        claimed += try other.claim(worker: workers[1], limit: 10, tags: nil).entries
        #expect(claimed.count { $0.tag == "t" } == 3 && claimed.count { $0.tag.isEmpty } == 2)
        let held = try store.claim(worker: workers[0], limit: 10, tags: nil)
        #expect(held.entries.isEmpty && held.isHeldBack)
        let ended = try #require(claimed.first { $0.tag == "t" })
        let holder = try store.leases(of: workers[0])?[ended.id] == nil ? workers[1] : workers[0]
        _ = try store.report([WorkReport(ended, by: holder, .succeeded)])
        #expect(try other.claim(worker: workers[1], limit: 10, tags: nil).entries.count == 1)
        try store.setLimits(nil, tag: "t")
        claimed = try other.claim(worker: workers[1], limit: 10, tags: nil).entries
        #expect(claimed.count == 8)
        #expect(try store.tagLimits().isEmpty && store.hosts().map(\.host) == ["host0"])
    }

    @Test("the rate of a tag limits how many requests begin", arguments: StoreKind.available)
    func rate(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open(), worker = try store.worker()
        try store.setLimits(HostLimits(requestsPerSecond: 0.01), tag: "t")
        try store.setLimits(HostLimits(maximumConcurrentRequests: 5), tag: "")
        try store.enqueue(entries("t", 3) { "host\($0)" })
        #expect(try store.claim(worker: worker, limit: 10, tags: nil).entries.count == 1)
        let next = try store.claim(worker: worker, limit: 10, tags: nil)
        #expect(next.entries.isEmpty && next.wait ?? 0 > 50_000_000, "\(next.wait ?? 0)")
        #expect(
            try store.tagLimits()
                == ["t": HostLimits(requestsPerSecond: 0.01), "": HostLimits(maximumConcurrentRequests: 5)])
    }

    @Test("two connections never claim more entries than a tag allows", arguments: StoreKind.available)
    func contention(kind: StoreKind) async throws {
        let test = try TestStore(kind), store = try test.open()
        try store.setLimits(HostLimits(maximumConcurrentRequests: 4), tag: "t")
        try store.enqueue(entries("t", 60) { "host\($0 % 5)" })
        let count = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    let own = try test.open(), worker = try own.worker()
                    return try (0..<5).reduce(0) { sum, _ in
                        try sum + own.claim(worker: worker, limit: 3, tags: nil).entries.count
                    }
                }
            }
            return try await group.reduce(0, +)
        }
        #expect(count == 4)
    }

    // MARK: Fairness

    @Test("claims are distributed among tags by their weights", arguments: StoreKind.available)
    func fairness(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open(), worker = try store.worker()
        // The older entries are on many hosts, and all of them come first by rank.
        try store.enqueue(entries("big", 400) { "host\($0 % 20)" })
        try store.enqueue(entries("small", 30) + entries("", 30))
        func claim(_ limit: Int, _ weights: [String: Double]?) throws -> [String: Int] {
            try store.claim(worker: worker, limit: limit, tags: nil, weights: weights).entries
                .reduce(into: [:]) { $0[$1.tag, default: 0] += 1 }
        }
        #expect(try claim(12, nil) == ["big": 12])
        #expect(try claim(12, [:]) == ["big": 4, "small": 4, "": 4])
        #expect(try claim(12, ["big": 4]) == ["big": 8, "small": 2, "": 2])
        var sums: [String: Int] = [:]
        for _ in 0..<30 { sums.merge(try claim(1, ["small": 0.5, "big": 1])) { $0 + $1 } }
        #expect(sums == ["big": 12, "small": 6, "": 12])
        // When the other tags have no entries, one tag gets all.
        for _ in 0..<6 { sums = try claim(12, ["small": 1000, "": 1000, "big": 0.001]) }
        #expect(sums == ["big": 12], "\(sums)")
    }

    @Test("weights and limits of any size give every tag its turn")
    func shares() {
        var fairness = TagFairness()
        let weights = ["a": Double.infinity, "b": .nan, "c": -1, "d": 0.5]
        var sums: [String: Int] = [:]
        for _ in 0..<2_000 {
            let quotas = fairness.quotas(of: ["a", "b", "c", "d"], 100, weights, most: ["a": 60])
            #expect(quotas.values.reduce(0, +) == 100)
            sums.merge(quotas) { $0 + $1 }
        }
        #expect(sums.count == 4 && sums["a"] == 60 * 2_000)
        #expect(fairness.quotas(of: [], 10, [:], most: [:]).isEmpty)
        #expect(fairness.quotas(of: ["a"], -1, [:], most: [:]).isEmpty)
        #expect(fairness.quotas(of: ["a"], 5, [:], most: ["a": 0]).isEmpty)
        // A tag that had no entries does not make up for that time.
        _ = fairness.quotas(of: ["a"], 1000, [:], most: [:])
        let next = fairness.quotas(of: ["a", "new"], 10, [:], most: [:])
        #expect(next == ["a": 5, "new": 5])
        fairness.giveBack(["a": 4])
        #expect(fairness.quotas(of: ["a", "new"], 6, [:], most: [:]) == ["a": 5, "new": 1])
    }

    @Test("a fair worker executes the entries of a small tag among those of a large one", arguments: StoreKind.available)
    func worker(kind: StoreKind) async throws {
        let test = try TestStore(kind), server = try TestServer(), queue = SharedQueue(store: test.store)
        server.route("GET", "/big", .text("ok"))
        server.route("GET", "/small", .text("ok"))
        func requests(_ tag: String, _ count: Int) -> [SharedRequest] {
            (0..<count).map { _ in
                var request = SharedRequest(URLRequest(url: server.url("/\(tag)")))
                request.tag = tag
                return request
            }
        }
        try await queue.enqueue(requests("big", 200))
        try await queue.enqueue(requests("small", 10))
        var settings = SharedQueueWorker.Settings()
        (settings.maximumConcurrentJobs, settings.tagWeights) = (2, [:])
        let worker = SharedQueueWorker(
            queue: queue, manager: HTTPRequestOperationManager(baseURL: nil), settings: settings)
        async let running: Void = worker.run()
        try await waitUntil("all entries") { try await queue.counts() == [.done: 210] }
        worker.stop()
        try await running
        let last = try #require(server.requests.lastIndex { $0.path == "/small" })
        #expect(server.requests.count == 210 && last < 120, "\(last)")
    }
}
