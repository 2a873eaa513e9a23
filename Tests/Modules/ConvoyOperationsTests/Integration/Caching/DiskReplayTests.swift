import ConvoyCache
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Stored bodies that are read from disk while events affect the file, the reader or the operation.
@Suite struct DiskReplayTests {
    private static let count = 8_000_000

    /// The damage to the file of a body.
    enum Damage: CaseIterable {
        case changed
        case truncated
        case emptied
        case removed
    }

    let server: TestServer
    let manager: HTTPRequestOperationManager
    let directory: TemporaryDirectory
    let cache: HTTPCache

    init() throws {
        server = try TestServer()
        server.route(
            "/large", .pattern(count: Self.count).header("Cache-Control", "max-age=600").header("ETag", "\"x\""))
        directory = try TemporaryDirectory(prefix: "disk-replay")
        // The cache keeps nothing in memory.
        cache = try HTTPCache(directory: directory.file("cache"), memoryCapacity: 0)
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.cache = cache
    }

    @discardableResult
    private func get(
        _ path: String, to stream: OutputStream? = nil, replacing file: URL? = nil
    ) async throws -> HTTPRequestOperation {
        let operation = try manager.makeOperation(.get, path)
        operation.outputStream = stream
        if let file { operation.setBodySink(FileSink(replacing: file)) }
        manager.enqueue(operation)
        try await operation.finished()
        return operation
    }

    private func inflict(_ damage: Damage) throws {
        try cache.flush()
        let bodies = directory.file("cache/bodies")
        let names = try FileManager.default.contentsOfDirectory(atPath: bodies.path)
        let name = try #require(names.first)
        #expect(names.count == 1)
        let file = bodies.appendingPathComponent(name)
        if damage == .removed { return try FileManager.default.removeItem(at: file) }
        let handle = try FileHandle(forUpdating: file)
        switch damage {
        case .changed:
            try handle.seek(toOffset: UInt64(Self.count - 100_000))
            try handle.write(contentsOf: Data(repeating: 255, count: 10))
        case .truncated: try handle.truncate(atOffset: UInt64(Self.count - 100_000))
        case .emptied: try handle.truncate(atOffset: 0)
        case .removed: break
        }
        try handle.close()
    }

    @Test("a body damaged while it is read ends in an error, never in wrong bytes", arguments: Damage.allCases)
    func damageMeanwhile(_ damage: Damage) async throws {
        try await get("large")
        let stream = GatedStream()
        let operation = try manager.makeOperation(.get, "large")
        operation.outputStream = stream
        manager.enqueue(operation)
        try await waitUntil("the first bytes") { stream.isWaiting }
        try inflict(damage)
        stream.letThrough()
        try? await operation.finished()
        if damage == .removed {
            // An open file remains readable after its name is removed.
            #expect(operation.error == nil)
        } else {
            #expect((operation.error as? URLError)?.code == .networkConnectionLost)
        }
        if operation.error == nil { #expect(stream.bytes == PatternBytes.data(count: Self.count)) }
        // The damage is found only once.
        let next = try await get("large")
        #expect(next.responseData == PatternBytes.data(count: Self.count))
        #expect(next.cacheUse == nil || damage == .removed)
        #expect(try await get("large").cacheUse == .fresh)
    }

    @Test("a body damaged before it is requested is loaded from the network", arguments: Damage.allCases)
    func damageBefore(_ damage: Damage) async throws {
        try await get("large")
        try inflict(damage)
        let stream = GatedStream()
        stream.letThrough()
        let operation = try? await get("large", to: stream)
        // The last portion of the body is read long after the first has been delivered.
        let isFoundLate = damage == .changed
        #expect(operation == nil || stream.bytes == PatternBytes.data(count: Self.count))
        #expect(operation != nil || isFoundLate)
        #expect(try await get("large").responseData == PatternBytes.data(count: Self.count))
        #expect(server.requests.count == 2)
    }

    @Test("a download that finds a damaged body leaves the existing file unchanged")
    func download() async throws {
        try await get("large")
        try inflict(.changed)
        let file = try directory.write(Data("old".utf8), to: "download")
        await #expect(throws: URLError.self) { try await get("large", replacing: file) }
        #expect(try Data(contentsOf: file) == Data("old".utf8))
        try await get("large", replacing: file)
        #expect(try Data(contentsOf: file) == PatternBytes.data(count: Self.count))
    }

    @Test("a download with a retry policy recovers from a damaged body")
    func retriedDownload() async throws {
        var policy = RetryPolicy(maximumRetryCount: 2)
        policy.initialDelay = 0.001
        manager.retryPolicy = policy
        try await get("large")
        try inflict(.changed)
        let file = directory.file("download")
        try await get("large", replacing: file)
        #expect(try Data(contentsOf: file) == PatternBytes.data(count: Self.count))
    }

    @Test("a reader receives the complete body even if the cache is emptied in the meantime")
    func removal() async throws {
        try await get("large")
        let stream = GatedStream()
        let operation = try manager.makeOperation(.get, "large")
        operation.outputStream = stream
        manager.enqueue(operation)
        try await waitUntil("the first bytes") { stream.isWaiting }
        cache.removeAll()
        try cache.flush()
        stream.letThrough()
        try await operation.finished()
        #expect(stream.bytes == PatternBytes.data(count: Self.count) && operation.cacheUse == .fresh)
        #expect(try await get("large").cacheUse == nil)
    }

    @Test("a paused hit resumes where it stopped, decoded or not", arguments: [false, true])
    func pause(isEncoded: Bool) async throws {
        var body = PatternBytes.data(count: 3_000_000)
        if isEncoded {
            // A well compressible body would be complete before it can be paused.
            var generator = SplitMix64(seed: 7)
            body = Data((0..<400_000).flatMap { _ in withUnsafeBytes(of: generator.next()) { Array($0.prefix(7)) + [0] } })
            let packed = try ProcessRunner.run("/bin/gzip", ["-1", "-c"], input: body).output
            server.route(
                "/paused",
                .bytes(packed).header("Content-Encoding", "gzip").header("Cache-Control", "max-age=600")
                    .header("ETag", "\"y\""))
        } else {
            server.route("/paused", .bytes(body).header("Cache-Control", "max-age=600").header("ETag", "\"y\""))
        }
        try await get("paused")
        let stream = GatedStream()
        let operation = try manager.makeOperation(.get, "paused")
        operation.outputStream = stream
        manager.enqueue(operation)
        try await waitUntil("the first bytes") { stream.isWaiting }
        operation.pause()
        stream.letThrough()
        try await waitUntil("the pause") { operation.state == .paused }
        operation.resume()
        try await operation.finished()
        #expect(stream.bytes == body)
        #expect(server.requests("/paused").count == 1)
    }

    @Test("operations cancelled during the index lookup all end and leave the cache intact")
    func cancelAll() async throws {
        for number in 0..<20 {
            server.route("/n\(number)", .pattern(count: 60_000, offset: number).header("Cache-Control", "max-age=600"))
            try await get("n\(number)")
        }
        for round in 0..<30 {
            let operations = try (0..<60).map { try manager.makeOperation(.get, "n\($0 % 20)") }
            manager.enqueue(operations)
            letOthersRun(microseconds: round * 300)
            manager.cancelAllOperations()
            for (number, operation) in operations.enumerated() {
                try? await operation.finished()
                if operation.error == nil {
                    #expect(operation.responseData == PatternBytes.data(count: 60_000, offset: number % 20))
                } else {
                    #expect((operation.error as? URLError)?.code == .cancelled)
                }
            }
        }
        for number in 0..<20 {
            let operation = try await get("n\(number)")
            #expect(operation.cacheUse == .fresh)
            #expect(operation.responseData == PatternBytes.data(count: 60_000, offset: number))
        }
    }
}
