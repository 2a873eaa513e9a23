import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySharedQueue

/// Searches, ages and durations, whose effort does not grow with the queue.
@Suite struct SearchTests {
    @Test(arguments: StoreKind.available)
    func `a search reads a limited number of entries, and returns where to continue`(_ kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        store.searchLimit = 50
        try store.enqueue(
            (0..<230).map { number in WorkItem.plain { $0.url = "http://a/\(number % 100 == 7 ? "Needle" : "x")" } })
        var found: [Int64] = [], place: Int64?, calls = 0
        repeat {
            let (records, next) = try store.search("nEEDLE", WorkFilter(), behind: place, limit: 10)
            found += records.map(\.sequence)
            (place, calls) = (next, calls + 1)
        } while place != nil
        #expect(found == [208, 108, 8] && calls == 5)
        // With a limit, the next call continues after the last result.
        let first = try store.search("needle", WorkFilter(), limit: 1)
        #expect(first.records.map(\.sequence) == [208] && first.next == 208)
        var filter = WorkFilter()
        filter.states = [.done]
        #expect(try store.search("needle", filter, limit: 10).records.isEmpty)
    }

    @Test(arguments: StoreKind.available)
    func `characters with a meaning in SQL are searched for as they are`(_ kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        let texts = ["100%", "a_b", "a!b", "'; DROP TABLE entry; --", "\\", "\"", "[a]", "?$1"]
        try store.enqueue(texts.map { text in WorkItem.plain { $0.tag = text } })
        for text in texts + ["!!", "%_", "*", "\u{0}"] {
            let found = try store.search(text, WorkFilter(), limit: 10).records.map(\.tag)
            #expect(found == texts.filter { $0.contains(text) }, "\(text)")
        }
        #expect(try store.search(String(repeating: "%", count: 100_000), WorkFilter(), limit: 10).records.isEmpty)
    }

    @Test(arguments: StoreKind.available)
    func `the oldest ready entry of each host is found behind those of higher priority`(_ kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        #expect(try store.oldestReady().isEmpty)
        let low = WorkItem.plain(host: "a") { $0.priority = -8 }
        let late = WorkItem.plain(host: "c") { $0.delay = 3_600_000_000 }
        try store.enqueue([low, late])
        let between = try store.now()
        try store.enqueue([.plain(host: "a"), .plain(host: "b", tag: "t"), .plain(host: "b")])
        let oldest = try store.oldestReady()
        #expect(oldest.keys.sorted() == ["a", "b"])
        #expect(oldest["a"] ?? .max <= between && oldest["b"] ?? 0 >= between)
        _ = try store.database.query("UPDATE entry SET due = due - 7200000000, enqueued = enqueued - 7200000000", [])
        try store.maintain()
        // An entry counts from its start time, not from the time at which it was enqueued.
        #expect(try (store.oldestReady()["c"] ?? 0) > (store.oldestReady()["b"] ?? 0))
    }

    @Test(arguments: StoreKind.available)
    func `durations are added by host, and the number of hosts is limited`(_ kind: StoreKind) async throws {
        let test = try TestStore(kind)
        // Workers add to the same rows concurrently.
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<4 {
                group.addTask {
                    let store = try test.open()
                    for round in 0..<10 {
                        var durations = HostDurations()
                        for host in (0..<20).shuffled() {
                            durations.add(0.02, host: "h\(host)")
                            if round == 0, worker == 0 { durations.add(400, host: "h\(host)") }
                        }
                        try store.record(durations)
                    }
                }
            }
            try await group.waitForAll()
        }
        let store = try test.open()
        var known = try store.durations().hosts
        #expect(known.count == 20)
        for (_, durations) in known {
            #expect(durations.count == 41 && durations.counts[1] == 40 && durations.counts.last == 1)
            #expect(abs(durations.total - 400.8) < 0.001 && durations.bound(ofShare: 0.95) == 0.05)
            #expect(durations.bound(ofShare: 1) == nil)
        }
        var many = HostDurations()
        for host in 0..<3000 { many.add(1, host: "many\(host)") }
        many.add(.nan, host: "h0")
        many.add(-1, host: "h0")
        #expect(many.hosts.count == 1001)
        try store.record(many)
        known = try store.durations().hosts
        #expect(known.count <= 101 && known.values.reduce(0) { $0 + $1.count } == 20 * 41 + 3002)
        #expect(known[HostDurations.otherHosts]?.count ?? 0 >= 2900)
    }

    @Test(arguments: StoreKind.available)
    func `concurrent changes of the limits of a host keep each other's`(_ kind: StoreKind) async throws {
        let test = try TestStore(kind)
        for round in 0..<5 {
            let host = "Host\(round).Example"
            try await withThrowingTaskGroup(of: Void.self) { group in
                let queues = (0..<3).map { _ in SharedQueue(store: test.store) }
                group.addTask { try await queues[0].changeLimits(host: host) { $0.maximumConcurrentRequests = 2 } }
                group.addTask { try await queues[1].changeLimits(host: host) { $0.requestsPerSecond = 5 } }
                group.addTask { try await queues[2].changeLimits(host: host) { $0.retryShare = 1 } }
                try await group.waitForAll()
            }
        }
        let queue = SharedQueue(store: test.store)
        let all = HostLimits(maximumConcurrentRequests: 2, requestsPerSecond: 5, retryShare: 1)
        #expect(try await queue.hosts().map(\.name) == (0..<5).map { "host\($0).example" })
        #expect(try await queue.hosts().allSatisfy { $0.limits == all })
        let none = try await queue.changeLimits(host: "host0.example") { $0 = HostLimits() }
        #expect(!none.isLimited)
        #expect(try await queue.hosts().count == 4)
        await #expect(throws: SharedQueueError.self) { try await queue.changeLimits(host: "*.example.com") { _ in } }
    }

    @Test(arguments: StoreKind.available)
    func `a filter accepts a host in any spelling`(_ kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        try test.open().enqueue([.plain(host: "example.com"), .plain(host: "example.com:8080"), .plain(host: "b\u{FC}cher")])
        func count(_ host: String) async throws -> Int {
            var filter = SharedQueue.Filter()
            filter.host = host
            return try await queue.counts(filter)[.ready] ?? 0
        }
        for host in ["Example.COM", "example.com:443", "example.com:80", "EXAMPLE.com:8080"] {
            #expect(try await count(host) == 1, "\(host)")
        }
        #expect(try await count("*.example.com") == 0)
        // Over http, this is another host.
        try test.open().enqueue([.plain(host: "example.com:443")])
        #expect(try await count("example.com:443") == 2)
        #expect(try await count("example.com") == 1)
    }

    @Test(arguments: StoreKind.available)
    func `rows of hosts that are no longer used are removed`(_ kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open(), worker = try store.worker()
        try store.setLimits(HostLimits(requestsPerSecond: 100), host: WorkStore.everyHost)
        try store.setLimits(HostLimits(requestsPerSecond: 100), host: "kept")
        try store.enqueue((0..<5).map { .plain(host: "host\($0)") })
        #expect(try store.claim(worker: worker, limit: 10, tags: nil).entries.count == 5)
        func names() throws -> [String] {
            try store.database.query("SELECT name FROM host ORDER BY name", []).compactMap { $0.text(0) }
        }
        #expect(try names().count == 7)
        try store.maintain()
        #expect(try names().count == 7)
        _ = try store.database.query("UPDATE host SET refilled = refilled - 7200000000, gate = 0", [])
        try store.maintain()
        #expect(try names() == ["*", "kept"])
    }
}
