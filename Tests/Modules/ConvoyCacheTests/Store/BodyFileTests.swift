import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCache

/// Body files that were changed externally.
@Suite struct BodyFileTests {
    enum Attack: CaseIterable {
        case gone, first, middle, last, cut, emptied, grown, link, directory, fullDirectory, pipe

        func perform(on path: String) throws {
            let files = FileManager.default
            switch self {
            case .gone: try files.removeItem(atPath: path)
            case .first: try Damage.change(path) { $0[0] ^= 1 }
            case .middle: try Damage.change(path) { $0[$0.count / 2] ^= 1 }
            case .last: try Damage.change(path) { $0[$0.count - 1] ^= 1 }
            case .cut: try Damage.change(path) { $0.removeLast() }
            case .emptied: try Damage.change(path) { $0 = [] }
            case .grown: try Damage.change(path) { $0.append(0) }
            case .link:
                try files.moveItem(atPath: path, toPath: "\(path).target")
                try files.createSymbolicLink(atPath: path, withDestinationPath: "\(path).target")
            case .directory, .fullDirectory:
                try files.removeItem(atPath: path)
                try files.createDirectory(atPath: path, withIntermediateDirectories: false)
                if self == .fullDirectory { try Data("x".utf8).write(to: URL(fileURLWithPath: "\(path)/x")) }
            case .pipe:
                try files.removeItem(atPath: path)
                #expect(mkfifo(path, 0o600) == 0)
            }
        }
    }

    @Test("a body whose file was changed is never served, and is stored again", arguments: Attack.allCases)
    func attack(_ attack: Attack) async throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        let client = CacheDisk.client(cache)
        #expect(try await !CacheDisk.isHit(client.get(CacheDisk.address(1)), 1))
        try cache.flush()
        #expect(await CacheDisk.has(cache, 1))
        let name = try #require(try disk.files().first)
        try attack.perform(on: "\(disk.bodies)/\(name)")
        // A changed byte is detected when it is read, so a reader that already has the start gets an error.
        do throws(CacheClient.Failure) {
            #expect(try await !CacheDisk.isHit(client.get(CacheDisk.address(1)), 1))
        } catch {
            #expect(error == .body(.damaged))
            #expect(try await !CacheDisk.isHit(client.get(CacheDisk.address(1)), 1))
        }
        #expect(try await CacheDisk.isHit(client.get(CacheDisk.address(1)), 1))
        try cache.flush()
        #expect(try await CacheDisk.isHit(CacheDisk.client(try disk.open()).get(CacheDisk.address(1)), 1))
        #expect(cache.failure == nil)
    }

    /// The checksum must never change, because files outlive the program that wrote them and its version.
    @Test(
        "the checksums are those of xxHash",
        arguments: [
            ("", 0xEF46_DB37_51D8_E999), ("a", 0xD24E_C4F1_A98C_6E5B), ("xxhash", 0x32DD_3895_2C4B_C720),
            ("Nobody inspects the spammish repetition", 0xFBCE_A83C_8A37_8BF1),
            ("The quick brown fox jumps over the lazy dog", 0x0B24_2D36_1FDA_71BC),
            ("Call me Ishmael. Some years ago--never mind how long precisely-", 0x02A2_E854_70D6_FD96),
        ] as [(String, UInt64)])
    func checksums(_ text: String, _ checksum: UInt64) {
        #expect(XXHash64.hash(Array(text.utf8)) == checksum)
    }

    @Test("a body file of unexpected length is rejected and closed")
    func otherLength() throws {
        let disk = try CacheDisk()
        let file = disk.directory.file("body")
        try Data(count: 10).write(to: file)
        #expect(chmod(file.path, 0o600) == 0)
        #expect(try BodyFile(path: file.path, length: 10, checksums: [0]) != nil)
        let before = ProcessMeters.openDescriptors
        for _ in 0..<100 { #expect(try BodyFile(path: file.path, length: 11, checksums: [0]) == nil) }
        // Other tests may open some descriptors in the meantime.
        #expect(ProcessMeters.openDescriptors < before + 50)
    }

    @Test("bodies that are cut while being written leave no files and no open descriptors")
    func cutBodies() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        let client = CacheClient(cache) { _, _, _ in
            CacheClient.Reply(
                fields: [("Cache-Control", "max-age=1000"), ("Content-Length", "200000")],
                body: Array(repeating: 1, count: 200_000), cut: 100_000)
        }
        let before = ProcessMeters.openDescriptors
        for number in 0..<UInt64(100) {
            await #expect(throws: CacheClient.Failure.cut) { try await client.get(CacheDisk.address(number)) }
        }
        try cache.flush()
        try await waitUntil("the files are gone") { try disk.files().isEmpty }
        #expect(ProcessMeters.openDescriptors < before + 50)
    }

    @Test("a small body that was changed in the index is a miss, and is stored again")
    func row() async throws {
        let disk = try CacheDisk()
        do {
            let cache = try disk.open()
            _ = try await CacheDisk.client(cache, length: 1000).get(CacheDisk.address(1))
            try cache.flush()
        }
        let body = SelfDescribingBody.make(number: 1, length: 1000)
        for name in ["index.sqlite", "index.sqlite-wal"] {
            try Damage.change("\(disk.path)/\(name)") { bytes in
                for start in bytes.indices where bytes[start...].starts(with: body[100..<200]) { bytes[start] ^= 0x20 }
            }
        }
        let cache = try disk.open()
        #expect(await !CacheDisk.has(cache, 1))
        _ = try await CacheDisk.client(cache, length: 1000).get(CacheDisk.address(1))
        #expect(await CacheDisk.has(cache, 1))
    }

    @Test("a response that is being read stays complete when it is removed, replaced or evicted")
    func pinned() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        let client = CacheDisk.client(cache)
        _ = try await client.get(CacheDisk.address(1))
        let stored = try #require(await Self.open(cache, 1))
        cache.removeAll()
        try cache.flush()
        #expect(try disk.files().isEmpty)
        let bytes = await withCheckedContinuation { continuation in
            stored.read(at: 0, count: stored.length) { continuation.resume(returning: try? $0.get()) }
        }
        #expect(bytes.flatMap { SelfDescribingBody.number($0) } == 1)
        #expect(await !CacheDisk.has(cache, 1))
    }

    @Test("a range of a large body is read and verified without the rest")
    func part() async throws {
        let disk = try CacheDisk()
        let cache = try disk.open()
        _ = try await CacheDisk.client(cache).get(CacheDisk.address(1))
        let whole = SelfDescribingBody.make(number: 1, length: 200_000)
        let client = CacheDisk.client(cache)
        for range in [0..<1, 65_535..<65_537, 100..<199_000, 199_999..<200_000] {
            let seen = try await client.get(
                CacheDisk.address(1), [("Range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)")])
            #expect(seen.status == 206)
            #expect(seen.source == .cache(.fresh))
            #expect(seen.body == Array(whole[range]))
            #expect(seen.value("Content-Range") == "bytes \(range.lowerBound)-\(range.upperBound - 1)/200000")
        }
    }

    private static func open(_ cache: HTTPCache, _ number: UInt64) async -> (any ServableResponse)? {
        let request = CacheRequest(
            method: "GET", address: CacheDisk.address(number), fields: [], policy: .storedOnly, partition: "",
            hasBody: false)
        return await withCheckedContinuation { continuation in
            cache.exchange(for: request).lookup { answer in
                guard case .hit(let stored, _) = answer else { return continuation.resume(returning: nil) }
                continuation.resume(returning: stored)
            }
        }
    }
}
