@testable import ConvoyCache
@testable import ConvoyDatabase
import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

/// A cache in its own directory, whose responses are self-describing.
final class CacheDisk: Sendable {
    let directory: TemporaryDirectory
    let clock = SimulatedClock(wall: Int64(Date().timeIntervalSince1970 * 1000))
    var path: String { directory.file("cache").path }
    var index: String { "\(path)/index.sqlite" }
    var bodies: String { "\(path)/bodies" }

    init() throws { directory = try TemporaryDirectory(prefix: "convoy-cache") }

    func open(memoryCapacity: Int = 1 << 20, diskCapacity: Int64 = 64 << 20) throws -> HTTPCache {
        try HTTPCache(
            directory: directory.file("cache"), diskCapacity: diskCapacity, memoryCapacity: memoryCapacity,
            clock: clock.clock())
    }

    /// Creates a client of an origin that serves the bodies of `SelfDescribingBody` with this length.
    static func client(_ cache: HTTPCache, length: Int = 200_000) -> CacheClient {
        CacheClient(cache) { _, address, _ in
            let body = SelfDescribingBody.make(number: number(address), length: length)
            return CacheClient.Reply(
                fields: [("Cache-Control", "max-age=100000"), ("Content-Length", "\(body.count)")], body: body)
        }
    }

    static func address(_ number: UInt64) -> String { "http://origin.test/\(number)" }

    private static func number(_ address: String) -> UInt64 {
        UInt64(address.split(separator: "/").last.map(String.init) ?? "") ?? 0
    }

    /// Returns whether a response comes from the cache, and expects it to be the correct one.
    static func isHit(_ seen: CacheClient.Seen, _ number: UInt64) -> Bool {
        #expect(SelfDescribingBody.number(seen.body) == number, "a torn body, or a wrong one")
        return seen.source != .network
    }

    /// Returns whether a readable response is stored under a number, without using the network.
    static func has(_ cache: HTTPCache, _ number: UInt64) async -> Bool {
        do throws(CacheClient.Failure) {
            return isHit(try await client(cache).get(address(number), policy: .storedOnly), number)
        } catch {
            return false
        }
    }

    /// Returns the names of the body files.
    func files() throws -> Set<String> { Set(try FileManager.default.contentsOfDirectory(atPath: bodies)) }

    /// Checks that the index is intact and matches the body files.
    func expectSound(_ comment: Comment? = nil) throws {
        let database = try Database(path: index, schema: DiskIndex.schema)
        let verdict = try database.withStatement("PRAGMA integrity_check") { row throws(DatabaseError) in
            try row.step() ? row.text(0) : ""
        }
        #expect(verdict == "ok", comment)
        var names: Set<String> = []
        try database.forEachRow("SELECT id FROM entries WHERE isFile = 1") { row in
            let digits = String(UInt64(bitPattern: row.integer(0)), radix: 16)
            names.insert(String(repeating: "0", count: 16 - digits.count) + digits)
        }
        #expect(try files() == names, comment)
        let sum = try database.integer("SELECT ifnull(sum(size), 0) FROM entries")
        #expect(try database.integer("SELECT bytes FROM totals") == sum, comment)
    }

    static func program() throws -> String {
        let tests = URL(fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
        return tests.deletingLastPathComponent().appendingPathComponent("StoreProgram").path
    }

    /// Runs `StoreProgram` as a second process to its end.
    func run(_ arguments: String..., timeout: TimeInterval = 60) throws -> ProcessRunner.Result {
        let result = try ProcessRunner.run(Self.program(), ["cache", path] + arguments, timeout: timeout)
        #expect(result.status == 0, "\(result.errorText)")
        return result
    }
}

/// A change to the bytes of a file.
enum Damage {
    static func change(_ path: String, _ body: (inout [UInt8]) -> Void) throws {
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: path))
        var bytes = [UInt8](try handle.readToEnd() ?? Data())
        body(&bytes)
        try handle.truncate(atOffset: 0)
        try handle.write(contentsOf: Data(bytes))
        try handle.close()
    }
}
