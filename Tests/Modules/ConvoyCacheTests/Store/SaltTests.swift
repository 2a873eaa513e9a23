import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCache
@testable import ConvoyDatabase

/// The salt of the partitions, without which responses stored for credentials could not be found again.
@Suite struct SaltTests {
    @Test("the salt of a directory lives as long as its contents")
    func lifetime() async throws {
        let disk = try CacheDisk()
        let salt: String
        do {
            let cache = try disk.open()
            salt = cache.salt
            // The salt has 128 bits.
            #expect(salt.utf8.count == 32)
            cache.removeAll()
            try cache.flush()
            #expect(cache.salt == salt)
        }
        #expect(try disk.open().salt == salt)
        #expect(try CacheDisk().open().salt != salt)
        try Database(path: disk.index, schema: DiskIndex.schema).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        try Damage.change(disk.index) { for index in 0..<100 { $0[index] = 0 } }
        let cache = try disk.open()
        #expect(cache.salt != salt)
        #expect(cache.salt.utf8.count == 32)
    }

    @Test("the next process finds responses stored in a partition")
    func partition() async throws {
        let disk = try CacheDisk()
        for isFirst in [true, false] {
            let cache = try disk.open()
            let client = CacheDisk.client(cache, length: 100)
            let seen = try await client.get(CacheDisk.address(1), partition: "secret \(cache.salt)")
            #expect(CacheDisk.isHit(seen, 1) == !isFirst)
            #expect(await !CacheDisk.has(cache, 1))
            try cache.flush()
        }
    }

    @Test("a cache whose index is replaced while it is open adopts the new salt")
    func rebuilt() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        let salt = cache.salt
        for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
            try FileManager.default.removeItem(atPath: "\(disk.path)/\(name)")
        }
        disk.clock.advance(seconds: 1)
        #expect(await !CacheDisk.has(cache, 1))
        #expect(cache.salt != salt)
        #expect(try disk.open().salt == cache.salt)
    }

    @Test("a damaged salt is replaced")
    func damaged() throws {
        let disk = try CacheDisk()
        let salt = try disk.open().salt
        for sql in ["DELETE FROM salt", "UPDATE salt SET value = x'00'"] {
            try Database(path: disk.index, schema: DiskIndex.schema).execute(sql)
            let other = try disk.open().salt
            #expect(other.utf8.count == 32)
            #expect(other != salt)
            #expect(try disk.open().salt == other)
        }
    }

    @Test("each cache in memory has its own salt")
    func memory() {
        let cache = HTTPCache()
        #expect(cache.salt == cache.salt)
        #expect(cache.salt != HTTPCache().salt)
    }
}
