import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCache

/// System limits and failing system calls.
@Suite struct DiskLimitTests {
    @Test("on a full disk nothing is stored partially, and storing continues when there is space again")
    func full() async throws {
        let disk = try CacheDisk()
        let lines = try disk.run("full").text.split(separator: "\n")
        let torn = lines.filter { $0.hasSuffix(" torn") && !$0.contains("found") }
        #expect(torn == ["0 torn", "0 torn", "0 torn"], "\(lines)")
        #expect(lines.last == "20 found, 0 torn", "\(lines)")
        let cache = try disk.open()
        #expect(CacheChurnReader.readAll(cache).keys == Set(0..<20))
        cache.storage.disk?.tidy(olderThan: 0)
        try disk.expectSound()
    }

    @Test("without file descriptors nothing is read or stored, and nothing is lost")
    func descriptors() async throws {
        let disk = try CacheDisk()
        let lines = try disk.run("descriptors").text.split(separator: "\n")
        #expect(lines == ["0 torn", "true refused", "20 kept, 20 stored"])
        let cache = try disk.open()
        cache.storage.disk?.tidy(olderThan: 0)
        try disk.expectSound()
    }

    @Test("a read-only directory still serves its stored responses, but opening it throws a typed error")
    func locked() async throws {
        let disk = try CacheDisk()
        // The program drops its privileges to those of a user who owns the directory.
        let owner = getuid() == 0 ? 65534 : getuid()
        for path in [disk.directory.url.path, disk.path] {
            mkdir(path, 0o700)
            #expect(chown(path, owner, owner == 65534 ? 65534 : getgid()) == 0)
        }
        #expect(try disk.run("locked").text == "0 torn, true kept\nrefused\n")
        for path in ["\(disk.path)/bodies", disk.path] { chmod(path, 0o700) }
    }

    private static var record: CacheRecord {
        CacheRecord(
            id: 1, address: "http://a.test/", partition: "", vary: VaryKey(fields: []),
            head: CachedHead(statusCode: 200, fields: []), requested: CacheTime(wall: 0, up: 0),
            received: CacheTime(wall: 0, up: 0), boot: 1, length: 0)
    }

    @Test("at most 16 MiB wait to be written, and removals are never refused")
    func backlog() throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        let store = try #require(cache.storage.disk)
        let record = Self.record
        let room = 16 << 20 - DiskOperation.put(record, []).size
        // Block the queue, so that nothing is written in the meantime.
        store.queue.sync {
            #expect(store.add(.put(record, [UInt8](repeating: 0, count: room))))
            #expect(!store.add(.put(record, [])))
            #expect(store.add(.removeAll))
        }
        try cache.flush()
    }

    @Test("a replaced response is removed from a disk that rejects its replacement")
    func remainder() throws {
        let record = Self.record
        for operation in [DiskOperation.put(record, []), .putFile(record, checksums: []), .update(record)] {
            #expect(!operation.removes(record))
            #expect(operation.remainder.removes(record))
            #expect(operation.remainder.isRemoval)
        }
    }

    @Test("the capacity of the disk is respected, and the most recently used responses are kept")
    func eviction() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open(memoryCapacity: 0, diskCapacity: 1 << 20)
        for number in UInt64(0)..<100 {
            _ = try await CacheDisk.client(cache, length: number % 2 == 0 ? 20_000 : 50_000).get(CacheDisk.address(number))
            try cache.flush()
            disk.clock.advance(seconds: 61)
            // Use the first response repeatedly, so that it is not evicted.
            #expect(await CacheDisk.has(cache, 0))
        }
        #expect(cache.currentDiskUsage <= 1 << 20)
        #expect(cache.currentDiskUsage > 1 << 19)
        #expect(await CacheDisk.has(cache, 99))
        #expect(await !CacheDisk.has(cache, 1))
        try disk.expectSound()
    }

    @Test("a body of more than an eighth of the disk capacity is not stored, even if its length is unknown")
    func tooLarge() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open(diskCapacity: 800_000)
        for fields in [[("Content-Length", "100001")], []] {
            let client = CacheClient(cache) { _, _, _ in
                CacheClient.Reply(
                    fields: [("Cache-Control", "max-age=1000")] + fields, body: [UInt8](repeating: 1, count: 100_001))
            }
            #expect(try await client.get(CacheDisk.address(1)).source == .network)
            #expect(await !CacheDisk.has(cache, 1))
        }
        try eventually("no file is left") { try disk.files().isEmpty }
        #expect(cache.currentDiskUsage == 0)
    }
}
