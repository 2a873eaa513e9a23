import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCache

/// Directories of caches, and files in them, that another user has prepared or can change.
@Suite struct PreparedDirectoryTests {
    let disk: CacheDisk

    init() throws { disk = try CacheDisk() }

    /// The responses: one small enough for a row of the index, and one in a file.
    private static let responses: [(number: UInt64, length: Int)] = [(1, 2000), (2, 200_000)]

    private func fill() async throws {
        let cache = try disk.open()
        for (number, length) in Self.responses {
            _ = try await CacheDisk.client(cache, length: length).get(CacheDisk.address(number))
        }
        try cache.flush()
        for (number, _) in Self.responses { #expect(await CacheDisk.has(cache, number)) }
    }

    private func expectRefusal(_ comment: String) {
        let error = #expect(throws: HTTPCacheError.self, "\(comment)") { try disk.open() }
        guard case .isUnsafe(_, let reason) = error else {
            return #expect(Bool(false), "\(comment): \(String(describing: error))")
        }
        #expect(!reason.isEmpty)
    }

    @Test func `a directory that another user owns or can modify is rejected with an error`() async throws {
        try await fill()
        for mode in [0o770, 0o707, 0o777] as [mode_t] {
            for path in [disk.path, disk.bodies] {
                try #require(chmod(path, mode) == 0)
                expectRefusal("\(path) \(String(mode, radix: 8))")
                try #require(chmod(path, 0o700) == 0)
            }
        }
        #expect(await CacheDisk.has(try disk.open(), 1))
        guard geteuid() == 0 else { return print("skipped in part: only root can give a directory to another user") }
        for path in [disk.path, disk.bodies] {
            try #require(chown(path, 65534, 65534) == 0)
            expectRefusal("another user's \(path)")
            try #require(chown(path, 0, 0) == 0)
        }
        try #require(chown(disk.path, 65534, 65534) == 0 && chmod(disk.path, 0o777) == 0)
        expectRefusal("this user's index in another user's directory")
    }

    @Test(arguments: ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"])
    func `an index that another user could have written is replaced and not served`(
        _ name: String
    ) async throws {
        let changes: [(String, (String) -> Int32)] =
            [("mode", { chmod($0, 0o666) })] + (geteuid() == 0 ? [("owner", { chown($0, 65534, 65534) })] : [])
        for (kind, change) in changes {
            try await fill()
            try #require(change("\(disk.path)/\(name)") == 0)
            let cache = try disk.open()
            for (number, _) in Self.responses { #expect(await !CacheDisk.has(cache, number), "\(name) \(kind)") }
            var facts = stat()
            #expect(stat(disk.index, &facts) == 0 && facts.st_mode & 0o777 == 0o600 && facts.st_uid == geteuid())
            try await fill()
        }
    }

    @Test func `a body that another user could have written is not served`() async throws {
        let changes: [(String, (String) -> Int32)] =
            [("mode", { chmod($0, 0o666) }), ("link", { link($0, "\($0).other") })]
            + (geteuid() == 0 ? [("owner", { chown($0, 65534, 65534) })] : [])
        for (kind, change) in changes {
            try await fill()
            for name in try disk.files() { try #require(change("\(disk.bodies)/\(name)") == 0) }
            let cache = try disk.open(memoryCapacity: 0)
            #expect(await !CacheDisk.has(cache, 2), "\(kind)")
            for name in try disk.files() { unlink("\(disk.bodies)/\(name)") }
        }
    }

    @Test func `a directory that is opened to others while it is in use is no longer trusted`() async throws {
        let cache = try disk.open()
        _ = try await CacheDisk.client(cache).get(CacheDisk.address(2))
        try cache.flush()
        // Remove the index, so that the cache must open it again.
        for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] { unlink("\(disk.path)/\(name)") }
        try #require(chmod(disk.path, 0o777) == 0)
        _ = try await CacheDisk.client(cache).get(CacheDisk.address(3))
        let error = #expect(throws: HTTPCacheError.self) { try cache.flush() }
        guard case .isUnsafe = error else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(!FileManager.default.fileExists(atPath: disk.index))
    }

    @Test func `a tag stored by an earlier version is ignored if it cannot be sent`() throws {
        for (tag, isKept) in [
            ("\"a\"", true), ("\"\u{E9}\"", true), ("\"\u{1}\"", false), ("\"a\rb\"", false), ("\u{7F}", false),
        ] {
            let now = disk.clock.clock().now()
            let record = CacheRecord(
                id: 1, address: "http://origin.test/", partition: "", vary: VaryKey(fields: []),
                head: CachedHead(statusCode: 200, fields: [("ETag", tag), ("Last-Modified", "x\u{1}")]), requested: now,
                received: now, boot: 1, length: 0, userInfo: [:])
            let decoded = RecordCoding.encode(record).withUnsafeBytes {
                RecordCoding.decode($0, id: 1, address: record.address, partition: "", used: 0)
            }
            #expect(decoded?.facts.etag == (isKept ? tag : nil), "\(tag.debugDescription)")
            #expect(decoded?.facts.lastModified == nil)
        }
    }
}
