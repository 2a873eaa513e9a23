import ConvoyDatabase
import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCache

/// Several caches, and several processes, that share one directory.
@Suite struct SharedDirectoryTests {
    @Test("two processes with eight threads each store, read and remove without torn bodies or a damaged directory")
    func churn() async throws {
        let seconds = ProcessInfo.processInfo.environment["CONVOY_STORE_SECONDS"].flatMap { Double($0) } ?? 2
        let disk = try CacheDisk()
        let results = try await withThrowingTaskGroup(of: ProcessRunner.Result.self) { group in
            for process in 1...2 {
                group.addTask {
                    try await Self.later { try disk.run("churn", "\(process)", "\(seconds)", "8", timeout: seconds + 120) }
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        for result in results {
            #expect(result.text.hasSuffix(" read, 0 torn\n"), "\(result.text)")
            // The test is meaningful only if enough responses were read.
            #expect(result.text.split(separator: " ").first.flatMap { Int($0) } ?? 0 > 10, "\(result.text)")
        }
        let cache = try disk.open()
        #expect(CacheChurnReader.readAll(cache).torn == 0)
        cache.storage.disk?.tidy(olderThan: 0)
        try disk.expectSound()
    }

    @Test("responses stored concurrently by two processes are not lost, and removals are visible to the other process")
    func noLostUpdate() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        #expect(CacheChurnReader.readAll(cache).keys.isEmpty)
        async let other = Self.later { try disk.run("put", "0", "20") }
        for number in UInt64(100)..<140 {
            _ = try await CacheDisk.client(cache, length: number % 2 == 0 ? 5000 : 60_000).get(CacheDisk.address(number))
        }
        let result = try await other
        #expect(result.status == 0, "\(result.errorText)")
        try cache.flush()
        disk.clock.advance(seconds: 1)
        for cache in [cache, try disk.open()] {
            #expect(CacheChurnReader.readAll(cache).keys == Set(0..<20))
            for number in UInt64(100)..<140 { #expect(await CacheDisk.has(cache, number), "\(number)") }
        }
        _ = try disk.run("remove", "0", "10")
        disk.clock.advance(seconds: 1)
        #expect(CacheChurnReader.readAll(cache).keys == Set(10..<20))
        cache.removeAll()
        try cache.flush()
        #expect(try disk.run("put", "5", "1").status == 0)
        disk.clock.advance(seconds: 1)
        #expect(CacheChurnReader.readAll(cache).keys == [5])
        cache.storage.disk?.tidy(olderThan: 0)
        try disk.expectSound()
    }

    @Test("a response replaced by one cache is served by another within a second")
    func replacement() async throws {
        let disk = try CacheDisk()
        let (one, other) = (try disk.open(), try disk.open())
        let texts = Locked("first")
        func client(_ cache: HTTPCache) -> CacheClient {
            CacheClient(cache) { _, _, _ in
                CacheClient.Reply(fields: [("Cache-Control", "max-age=1000")], body: Array(texts.withLock { $0 }.utf8))
            }
        }
        for cache in [one, other] { #expect(try await client(cache).get(CacheDisk.address(1)).text == "first") }
        try one.flush()
        texts.withLock { $0 = "second" }
        disk.clock.advance(seconds: 0.5)
        #expect(try await client(one).get(CacheDisk.address(1), policy: .reload).text == "second")
        try one.flush()
        disk.clock.advance(seconds: 1)
        let seen = try await client(other).get(CacheDisk.address(1))
        #expect(seen.text == "second")
        #expect(seen.source == .cache(.fresh))
    }

    @Test("a write by another process does not cause a failure, and pending responses are written after it")
    func busy() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        let store = try #require(cache.storage.disk)
        let other = try Database(path: disk.index, schema: DiskIndex.schema)
        try other.execute("BEGIN IMMEDIATE")
        _ = try await CacheDisk.client(cache, length: 100).get(CacheDisk.address(1))
        let isWritten = store.queue.sync { store.write() }
        #expect(!isWritten && cache.failure == nil)
        #expect(try other.integer("SELECT count(*) FROM entries") == 0)
        try other.execute("COMMIT")
        try cache.flush()
        #expect(await CacheDisk.has(try disk.open(), 1))
    }

    @Test("flushing waits for another process that is writing")
    func flushedWhileBusy() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        let other = try Database(path: disk.index, schema: DiskIndex.schema)
        try other.execute("BEGIN IMMEDIATE")
        _ = try await CacheDisk.client(cache, length: 100).get(CacheDisk.address(1))
        let end = DispatchSemaphore(value: 0)
        async let flush: Void = Self.later {
            defer { end.signal() }
            try cache.flush()
        }
        let hasEnded = try await Self.later { end.wait(timeout: .now() + 0.5) == .success }
        #expect(!hasEnded, "a write blocked by another process cannot have happened")
        try other.execute("COMMIT")
        try await flush
        #expect(try other.integer("SELECT count(*) FROM entries") == 1)
    }

    @Test("concurrent openings of a new directory find the same salt")
    func openedAtOnce() async throws {
        let disk = try CacheDisk()
        let salts = Locked<[String]>([])
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
            do {
                let cache = try disk.open()
                salts.withLock { $0.append(cache.salt) }
            } catch {
                Issue.record(error)
            }
        }
        #expect(salts.withLock { $0.count } == 8)
        #expect(Set(salts.withLock { $0 }).count == 1)
    }

    /// Runs blocking code on a separate thread.
    static func later<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
        }
    }

    @Test("entry numbers increase, and consist of the time in microseconds and random bits")
    func numbers() {
        let before = Int64((Date().timeIntervalSince1970 - 1_577_836_800) * 1e6)
        let numbers = (0..<2000).map { _ in EntryNumber.next() }
        #expect(zip(numbers, numbers.dropFirst()).allSatisfy(<))
        let times = numbers.map { $0 >> 12 }
        #expect(times.allSatisfy { (before - 1_000_000...before + 60_000_000).contains($0) })
        #expect(Set(times).count > 20 && Set(numbers.map { $0 & 4095 }).count > 20)
    }
}
