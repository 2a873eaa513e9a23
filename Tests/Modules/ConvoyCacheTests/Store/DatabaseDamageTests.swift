import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCache
@testable import ConvoyDatabase

/// An index that was damaged, replaced or removed.
@Suite struct DatabaseDamageTests {
    private static let numbers: [UInt64] = Array(0..<60)

    /// Returns a closed cache whose contents are all in the database file and not in its log.
    private static func filled() async throws -> CacheDisk {
        let disk = try CacheDisk()
        do {
            let cache = try disk.open()
            for number in numbers {
                _ = try await CacheDisk.client(cache, length: number % 3 == 0 ? 60_000 : 3000).get(CacheDisk.address(number))
            }
            try cache.flush()
        }
        try Database(path: disk.index, schema: DiskIndex.schema).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return disk
    }

    /// Checks that nothing wrong is served, and that every response is stored again after it was fetched.
    ///
    /// - Parameter isNoticed: Whether the cache can detect the damage. It does not read pages again that SQLite has in
    ///   memory; the next process that opens the file does.
    private static func expectRepair(_ disk: CacheDisk, _ cache: HTTPCache, isNoticed: Bool = true) async throws {
        for _ in 0..<4 {
            // A response that is only in memory is not stored again.
            disk.clock.advance(seconds: 1)
            for number in numbers {
                let client = CacheDisk.client(cache, length: number % 3 == 0 ? 60_000 : 3000)
                do throws(CacheClient.Failure) {
                    _ = CacheDisk.isHit(try await client.get(CacheDisk.address(number)), number)
                } catch {
                    #expect(error == .body(.damaged))
                }
            }
        }
        try cache.flush()
        let again = try disk.open()
        guard isNoticed else { return try await expectRepair(disk, again) }
        for number in numbers { #expect(await CacheDisk.has(again, number), "\(number)") }
        try again.flush()
        again.storage.disk?.tidy(olderThan: 0)
        try disk.expectSound()
    }

    enum Attack: CaseIterable {
        case header, emptied, cut, halved, middle, oneByteInTen, end, garbage

        func perform(on path: String) throws {
            var random = SplitMix64(seed: 11)
            try Damage.change(path) { bytes in
                switch self {
                case .header: for index in 0..<100 { bytes[index] = 0x55 }
                case .emptied: bytes = []
                case .cut: bytes.removeLast(5000)
                case .halved: bytes.removeLast(bytes.count / 2)
                case .middle:
                    for index in bytes.count / 3..<bytes.count / 2 {
                        bytes[index] = UInt8.random(in: 0...255, using: &random)
                    }
                case .oneByteInTen:
                    for index in stride(from: 4096, to: bytes.count, by: 10) {
                        bytes[index] = UInt8.random(in: 0...255, using: &random)
                    }
                case .end: for index in bytes.count - 8192..<bytes.count { bytes[index] = 0 }
                case .garbage: bytes = (0..<50_000).map { _ in UInt8.random(in: 0...255, using: &random) }
                }
            }
        }
    }

    @Test("a damaged index never leads to a wrong response, and is repaired", arguments: Attack.allCases)
    func damaged(_ attack: Attack) async throws {
        let disk = try await Self.filled()
        try attack.perform(on: disk.index)
        try await Self.expectRepair(disk, try disk.open())
    }

    @Test(
        "an index that is damaged while it is open never leads to a wrong response, and is repaired",
        arguments: Attack.allCases
    )
    func damagedWhileOpen(_ attack: Attack) async throws {
        let disk = try await Self.filled()
        let cache = try disk.open(memoryCapacity: 0)
        #expect(await CacheDisk.has(cache, 1))
        try attack.perform(on: disk.index)
        try await Self.expectRepair(disk, cache, isNoticed: false)
    }

    @Test("an open index that is removed or replaced is detected within a second")
    func replaced() async throws {
        for isReplaced in [false, true] {
            let (disk, other) = (try await Self.filled(), try CacheDisk())
            let cache = try disk.open()
            #expect(await CacheDisk.has(cache, 1))
            for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
                try? FileManager.default.removeItem(atPath: "\(disk.path)/\(name)")
            }
            if isReplaced {
                let cache = try other.open()
                _ = try await CacheDisk.client(cache, length: 2000).get(CacheDisk.address(1000))
                try cache.flush()
                try Database(path: other.index, schema: DiskIndex.schema).execute("PRAGMA wal_checkpoint(TRUNCATE)")
                try FileManager.default.copyItem(atPath: other.index, toPath: disk.index)
            }
            disk.clock.advance(seconds: 1)
            #expect(await !CacheDisk.has(cache, 1))
            #expect(await CacheDisk.has(cache, 1000) == isReplaced)
            try await Self.expectRepair(disk, cache)
        }
    }

    @Test("a directory that is removed while it is open is created again")
    func directoryRemoved() async throws {
        let disk = try await Self.filled()
        let cache = try disk.open(memoryCapacity: 0)
        // The cache may still be searching for orphans.
        try cache.flush()
        try FileManager.default.removeItem(atPath: disk.path)
        disk.clock.advance(seconds: 1)
        #expect(await !CacheDisk.has(cache, 1))
        try await Self.expectRepair(disk, cache)
    }

    @Test("if a directory cannot be created again, only its entries are lost")
    func directoryReplaced() async throws {
        let disk = try await Self.filled()
        let cache = try disk.open(memoryCapacity: 0)
        try cache.flush()
        try FileManager.default.removeItem(atPath: disk.path)
        try Data("a file".utf8).write(to: URL(fileURLWithPath: disk.path))
        disk.clock.advance(seconds: 1)
        #expect(cache.failure == nil)
        #expect(await !CacheDisk.has(cache, 1))
        #expect(cache.failure != nil, "what could not be read")
        for length in [1000, 100_000] {
            #expect(try await !CacheDisk.isHit(CacheDisk.client(cache, length: length).get(CacheDisk.address(1)), 1))
        }
        #expect(throws: HTTPCacheError.self) { try cache.flush() }
        #expect(cache.failure != nil)
        // The cache retries after a while, and the last success counts.
        try FileManager.default.removeItem(atPath: disk.path)
        try await waitUntil("the directory to exist again") {
            _ = try await CacheDisk.client(cache).get(CacheDisk.address(2))
            return (try? cache.flush()) != nil
        }
        #expect(cache.failure == nil)
    }

    @Test("a database of a newer version or of another program is left unchanged")
    func foreign() async throws {
        for sql in ["PRAGMA user_version=99", "PRAGMA application_id=12345"] {
            let disk = try await Self.filled()
            let database = try Database(path: disk.index, schema: DiskIndex.schema)
            try database.execute(sql)
            // The cache's own connection may still be open, in which case closing this one would not write the log to
            // the database.
            try database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            let before = try Data(contentsOf: URL(fileURLWithPath: disk.index))
            #expect(throws: HTTPCacheError.isForeign(disk.index)) { try disk.open() }
            #expect(try Data(contentsOf: URL(fileURLWithPath: disk.index)) == before)
        }
    }

    @Test("opening a cache throws a typed error if its directory cannot be created or is not a directory")
    func unusable() throws {
        let disk = try CacheDisk()
        try Data("a file".utf8).write(to: URL(fileURLWithPath: disk.path))
        #expect(throws: HTTPCacheError.self) { try disk.open() }
        #expect(throws: HTTPCacheError.self) {
            try HTTPCache(directory: disk.directory.file("missing/cache"))
        }
        #expect(throws: HTTPCacheError.self) { try HTTPCache(directory: URL(fileURLWithPath: "/proc/convoy")) }
    }

    @Test("extreme numbers in the index do not cause failures")
    func numbers() async throws {
        let whole = try await Self.filled()
        let columns = ["hash", "used", "received", "size", "isFile", "metaSum", "bodySum"]
        var changes = columns.map { "UPDATE entries SET \($0) = NUMBER WHERE id IN (SELECT id FROM entries LIMIT 3)" }
        changes += ["UPDATE totals SET bytes = NUMBER", "UPDATE totals SET entries = NUMBER"]
        for change in changes {
            for number in [Int64.min, .max] {
                let text = change.replacing("NUMBER", with: "\(number)")
                let disk = try CacheDisk()
                try FileManager.default.copyItem(atPath: whole.path, toPath: disk.path)
                try Database(path: disk.index, schema: DiskIndex.schema).execute(text)
                let cache = try disk.open(diskCapacity: 1 << 20)
                // Storing evicts other responses.
                for place in Self.numbers.flatMap({ [$0, $0 + 1000] }) {
                    let client = CacheDisk.client(cache, length: place % 3 == 0 ? 60_000 : 3000)
                    do throws(CacheClient.Failure) {
                        _ = CacheDisk.isHit(try await client.get(CacheDisk.address(place)), place)
                    } catch {
                        #expect(error == .body(.damaged), "\(text)")
                    }
                }
                #expect(throws: Never.self, "\(text)") { try cache.flush() }
                cache.storage.disk?.tidy(olderThan: 0)
                _ = try await CacheDisk.client(cache, length: 60_000).get(CacheDisk.address(5000))
                #expect(throws: Never.self, "\(text)") { try cache.flush() }
                try disk.expectSound("\(text)")
                let size = try disk.files().reduce(0) { sum, name in
                    sum + (try Data(contentsOf: URL(fileURLWithPath: "\(disk.bodies)/\(name)")).count)
                }
                #expect(size <= 1 << 20, "\(text)")
            }
        }
    }

    @Test("an impossible size does not stop eviction", arguments: [Int64.min, -1, .max])
    func sizes(_ size: Int64) async throws {
        let disk = try await Self.filled()
        let sql = "UPDATE entries SET size = \(size) WHERE id IN (SELECT id FROM entries LIMIT 3)"
        try Database(path: disk.index, schema: DiskIndex.schema).execute(sql)
        let index = try DiskIndex.open(CacheDirectory(path: disk.path), capacity: 1 << 20, timeout: 1)
        try index.apply([], used: [:])
        try index.recount()
        #expect(try index.usage() <= 1 << 20)
        try disk.expectSound()
    }

    @Test("wrong totals are recomputed")
    func totals() async throws {
        let disk = try await Self.filled()
        try Database(path: disk.index, schema: DiskIndex.schema).execute("UPDATE totals SET bytes = 1 << 60")
        let cache = try disk.open()
        cache.storage.disk?.tidy()
        for number in Self.numbers { #expect(await CacheDisk.has(cache, number)) }
        try disk.expectSound()
    }
}
