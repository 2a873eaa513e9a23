import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCache

/// A cache in a directory, without failures.
@Suite struct DiskCacheTests {
    @Test("the next process finds a complete response", arguments: [0, 100, 32 << 10, (32 << 10) + 1, 1 << 16, 300_000])
    func reopened(_ length: Int) async throws {
        let disk = try CacheDisk()
        let body = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let fields = [("Cache-Control", "max-age=1000"), ("X-Text", "Grüße e\u{301}"), ("Vary", "Accept"), ("x-text", "2")]
        let handler: CacheResponseHandler = { candidate in
            var candidate = candidate
            candidate.userInfo = ["a": "ä"]
            return candidate
        }
        do {
            let cache = try disk.open()
            let client = CacheClient(cache) { _, _, _ in CacheClient.Reply(status: 203, fields: fields, body: body) }
            _ = try await client.get(CacheDisk.address(1), [("Accept", "text/*")], handler: handler)
            try cache.flush()
        }
        let client = CacheClient(try disk.open()) { _, _, _ in nil }
        let seen = try await client.get(CacheDisk.address(1), [("Accept", "text/*")])
        #expect(seen.status == 203)
        #expect(seen.body == body)
        #expect(seen.fields.filter { $0.name.lowercased() == "x-text" }.map(\.value) == ["Grüße e\u{301}", "2"])
        #expect(Array(seen.value("X-Text")?.utf8 ?? "".utf8) == Array("Grüße e\u{301}".utf8))
        await #expect(throws: CacheClient.Failure.network) {
            try await client.get(CacheDisk.address(1), [("Accept", "image/*")])
        }
    }

    @Test("the files are unreadable to other users, and their names reveal nothing")
    func modes() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        for number in UInt64(1)...3 { _ = try await CacheDisk.client(cache).get(CacheDisk.address(number)) }
        try cache.flush()
        var names: [String] = []
        for name in try FileManager.default.subpathsOfDirectory(atPath: disk.path) {
            let facts = try FileManager.default.attributesOfItem(atPath: "\(disk.path)/\(name)")
            let isDirectory = facts[.type] as? FileAttributeType == .typeDirectory
            #expect((facts[.posixPermissions] as? NSNumber)?.intValue == (isDirectory ? 0o700 : 0o600), "\(name)")
            names.append(name)
        }
        #expect(names.count { $0.hasPrefix("bodies/") } == 3)
        #expect(!names.contains { $0.contains("origin") })
    }

    @Test("a body that is cut or does not have the announced length is not stored")
    func incomplete() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        let body = [UInt8](repeating: 7, count: 200_000)
        for (length, cut) in [(200_000, 150_000), (200_000, 0), (300_000, nil), (100_000, nil), (nil, 100_000)]
            as [(Int?, Int?)]
        {
            let fields = [("Cache-Control", "max-age=1000")] + (length.map { [("Content-Length", "\($0)")] } ?? [])
            let client = CacheClient(cache) { _, _, _ in CacheClient.Reply(fields: fields, body: body, cut: cut) }
            _ = try? await client.get(CacheDisk.address(1))
            #expect(await !CacheDisk.has(cache, 1))
        }
        try cache.flush()
        try eventually("no file is left") { try disk.files().isEmpty }
    }

    @Test("a response larger than the memory's share is found immediately, even before it is written to disk")
    func smallMemory() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open(memoryCapacity: 64 << 10)
        for length in [10_000, 20_000, 50_000] {
            let number = UInt64(length)
            // The cache has now read that the disk has no response.
            #expect(await !CacheDisk.has(cache, number))
            _ = try await CacheDisk.client(cache, length: length).get(CacheDisk.address(number))
            #expect(await CacheDisk.has(cache, number), "\(length)")
        }
    }

    @Test("memory and disk agree about responses stored while everything is removed")
    func storedWhileRemoved() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        for number in UInt64(0)..<200 {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { _ = try? await CacheDisk.client(cache, length: 100).get(CacheDisk.address(number)) }
                group.addTask { number % 2 == 0 ? cache.removeAll() : cache.removeStored(since: .distantPast) }
            }
            let inMemory = cache.storage.memoryEntryCount
            try cache.flush()
            let onDisk = cache.storage.disk.map { disk in disk.queue.sync { disk.entryCount } }
            #expect(onDisk.map { Int($0) } == inMemory, "\(number)")
            cache.removeAll()
        }
    }

    @Test("a lookup does not write pending responses for other addresses")
    func batches() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        _ = try await CacheDisk.client(cache, length: 100).get(CacheDisk.address(1))
        let store = try #require(cache.storage.disk)
        // Read while the queue allows no writes in between.
        store.queue.sync {
            #expect(store.entries(of: CacheDisk.address(2))?.isEmpty == true)
            #expect(store.entries(of: CacheDisk.address(1))?.count == 1)
        }
    }

    @Test("removed responses are also removed from the disk")
    func removals() async throws {
        let disk = try CacheDisk()
        do {
            let cache = try disk.open()
            let client = CacheDisk.client(cache, length: 50_000)
            for number in UInt64(1)...3 { _ = try await client.get(CacheDisk.address(number)) }
            disk.clock.advance(seconds: 100)
            let date = Date(timeIntervalSince1970: Double(disk.clock.now.wall) / 1000)
            _ = try await client.get(CacheDisk.address(4))
            cache.removeStored(since: date)
            cache.remove(for: try #require(URL(string: CacheDisk.address(1))))
            try cache.flush()
        }
        var cache = try disk.open()
        for number in UInt64(1)...4 { #expect(await CacheDisk.has(cache, number) == [2, 3].contains(number), "\(number)") }
        try disk.expectSound()
        cache.removeAll()
        try cache.flush()
        cache = try disk.open()
        for number in UInt64(1)...4 { #expect(await !CacheDisk.has(cache, number)) }
        #expect(try disk.files().isEmpty)
        #expect(cache.currentDiskUsage == 0)
    }

    @Test("old orphaned files are removed, and those of running processes are kept")
    func orphans() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        _ = try await CacheDisk.client(cache).get(CacheDisk.address(1))
        try cache.flush()
        let known = try disk.files()
        for name in ["0123456789abcdef", "0123456789abcdef.part", "00000000000000ff"] {
            try Data("x".utf8).write(to: URL(fileURLWithPath: "\(disk.bodies)/\(name)"))
        }
        let store = try #require(cache.storage.disk)
        store.tidy()
        #expect(try disk.files().count == known.count + 3)
        for name in try disk.files() {
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSinceNow: -4000)], ofItemAtPath: "\(disk.bodies)/\(name)")
        }
        store.tidy()
        #expect(try disk.files() == known)
        #expect(await CacheDisk.has(cache, 1))
    }
}
