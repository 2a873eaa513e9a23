import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCache

/// The responses in memory.
@Suite struct MemoryTests {
    private static func entry(
        _ address: String, id: Int64 = 1, length: Int = 1000, partition: String = ""
    ) -> CacheEntry {
        let time = CacheTime(wall: 1_000_000, up: 1000)
        let record = CacheRecord(
            id: id, address: address, partition: partition, vary: VaryKey(fields: []),
            head: CachedHead(statusCode: 200, fields: []),
            requested: time, received: time, boot: 1, length: length)
        return CacheEntry(record: record, body: .memory([UInt8](repeating: 0, count: length)))
    }

    private static func has(_ address: String, id: Int64? = nil, _ index: inout MemoryIndex) -> Bool {
        index.find(address)?.entries.contains { id == nil || $0.record.id == id } == true
    }

    @Test("the capacity is respected, and the most recently used responses are kept")
    func capacity() {
        var index = MemoryIndex(capacity: 100_000, hasDisk: false)
        for number in 0..<1000 {
            let isStored = index.store(Self.entry("\(number)", id: Int64(number)))
            #expect(isStored)
            #expect(index.usage <= 100_000)
            let isFound = Self.has("0", &index)
            #expect(isFound)
        }
        #expect(index.entryCount > 40)
        let (newest, old) = (Self.has("999", &index), Self.has("1", &index))
        #expect(newest && !old)
        index.removeAll()
        #expect(index.usage == 0)
        let isLeft = Self.has("0", &index)
        #expect(!isLeft)
    }

    @Test("a response larger than the memory is not kept and takes no space")
    func tooLarge() {
        for capacity in [0, -1, 500] {
            var index = MemoryIndex(capacity: capacity, hasDisk: true)
            let isStored = index.store(Self.entry("a"))
            #expect(isStored)
            #expect(index.usage == 0)
            let isFound = Self.has("a", &index)
            #expect(!isFound)
        }
    }

    @Test("without a disk, removed responses leave nothing behind")
    func removed() {
        let ways: [(String, (inout MemoryIndex) -> Void)] = [
            ("remove", { $0.remove(1, "a") }), ("removeAll(of:)", { $0.removeAll(of: "a") }),
            ("removeAll(where:)", { $0.removeAll { _ in true } }),
        ]
        for (name, remove) in ways {
            var index = MemoryIndex(capacity: 10_000, hasDisk: false)
            _ = index.store(Self.entry("a"))
            #expect(index.usage > 1000)
            remove(&index)
            #expect(index.usage == 0, "\(name)")
        }
    }

    @Test("a body that was read is assigned only to its own response")
    func bodyOfOne() {
        var index = MemoryIndex(capacity: 10_000, hasDisk: true)
        for id in [1, 2] as [Int64] { _ = index.store(Self.entry("a", id: id, length: 10, partition: "\(id)")) }
        index.setBody(.memory([1, 2, 3]), of: Self.entry("a", id: 1).record)
        let found = index.find("a")
        #expect(found?.entries.map(\.record.id) == [1, 2])
        #expect(found?.entries.map { $0.body.bytes?.count } == [3, 10])
    }

    @Test("rows read before a removal, a store or an eviction are discarded")
    func lateRows() {
        let changes: [(String, (inout MemoryIndex) -> Void)] = [
            ("removeAll", { $0.removeAll() }), ("removeAll(of:)", { $0.removeAll(of: "a") }),
            ("removeAll(where:)", { $0.removeAll { _ in true } }), ("remove", { $0.remove(1, "a") }),
            ("store", { _ = $0.store(Self.entry("a", id: 2)) }),
            (
                "forgotten",
                { index in
                    _ = index.store(Self.entry("a", id: 2))
                    for number in 0..<20 { _ = index.store(Self.entry("\(number)", id: 3)) }
                }
            ),
            ("update", { $0.update(Self.entry("a").record) }),
        ]
        for (name, change) in changes {
            var index = MemoryIndex(capacity: 10_000, hasDisk: true)
            let snapshot = index.snapshot("a")
            change(&index)
            index.install([Self.entry("a")], of: "a", ifUnchangedSince: snapshot)
            let isFound = Self.has("a", id: 1, &index)
            #expect(!isFound, "\(name)")
        }
        var index = MemoryIndex(capacity: 10_000, hasDisk: true)
        index.install([Self.entry("a")], of: "a", ifUnchangedSince: index.snapshot("a"))
        let found = index.find("a")
        #expect(found?.isComplete == true)
    }

    @Test("responses are complete and correct while eight threads look up, store, confirm, remove and evict")
    func threads() async throws {
        let seconds = ProcessInfo.processInfo.environment["CONVOY_STORE_SECONDS"].flatMap { Double($0) } ?? 2
        let disk = try CacheDisk()
        // Test a cache without a disk, and one with a disk and little memory.
        for cache in [HTTPCache(memoryCapacity: 200_000), try disk.open(memoryCapacity: 200_000, diskCapacity: 2 << 20)] {
            let hits = await withTaskGroup(of: Int.self) { group in
                for thread in UInt64(0)..<8 { group.addTask { await Self.churn(cache, seed: thread, seconds / 2) } }
                return await group.reduce(0, +)
            }
            #expect(hits > 0)
            #expect(cache.currentMemoryUsage <= 200_000)
        }
    }

    /// - Returns: The number of responses from the cache.
    private static func churn(_ cache: HTTPCache, seed: UInt64, _ seconds: Double) async -> Int {
        var random = SplitMix64(seed: seed)
        let end = Date(timeIntervalSinceNow: seconds)
        var hits = 0
        while Date() < end {
            let number = UInt64.random(in: 0..<30, using: &random)
            let policies: [CachePolicy] = [.protocolPolicy, .protocolPolicy, .reload, .reloadRevalidating]
            let policy = policies.randomElement(using: &random) ?? .reload
            let client = Self.client(cache, length: [100, 3000, 40_000].randomElement(using: &random) ?? 0)
            if let seen = try? await client.get(CacheDisk.address(number), policy: policy) {
                #expect(SelfDescribingBody.number(seen.body) == number)
                if seen.source != .network { hits += 1 }
            }
            switch Int.random(in: 0..<100, using: &random) {
            case 0: cache.removeAll()
            case 1: cache.removeStored(since: Date(timeIntervalSinceNow: -0.1))
            case 2..<10: _ = try? await client.get(CacheDisk.address(number), method: "POST")
            default: break
            }
        }
        return hits
    }

    /// Returns a client of an origin that confirms validators.
    private static func client(_ cache: HTTPCache, length: Int) -> CacheClient {
        CacheClient(cache) { method, address, fields in
            if fields.contains(where: { $0.name == "If-None-Match" }) { return CacheClient.Reply(status: 304) }
            let number = UInt64(address.split(separator: "/").last.map(String.init) ?? "") ?? 0
            let body = SelfDescribingBody.make(number: number, length: length)
            return CacheClient.Reply(fields: [("Cache-Control", "max-age=1000"), ("ETag", "\"a\"")], body: body)
        }
    }
}
