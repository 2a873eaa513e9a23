import ConvoyCache
import ConvoyCookies
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests of many operations on a few changing resources, which many threads pause, resume and cancel. Each operation
/// ends once, and its body is that of a single version, or missing.
@Suite struct CacheStormTests {
    enum Place: CaseIterable {
        case memory
        case directory
        /// A cache in memory, over HTTP/2 through nginx.
        case memoryOverHTTP2

        static var made: [Place] { Nginx.isInstalled ? allCases : [.memory, .directory] }
    }

    /// A resource whose bytes all contain its version, and whose length depends on the version.
    private final class Resource: Sendable {
        let length: Int
        let control: String
        private let requests = Locked(0)

        init(length: Int, control: String) { (self.length, self.control) = (length, control) }

        /// Changes the version after every fifth request, and fails occasionally.
        func answer(_ request: RecordedRequest) -> TestServer.Response {
            let number = requests.withLock { count in
                count += 1
                return count
            }
            if number % 11 == 0 { return .status(503) }
            let version = number / 5
            let etag = "\"\(version)\""
            if request.headers["If-None-Match"] == etag { return .status(304, headers: ["ETag": etag]) }
            let body = Self.body(version, length)
            var response = TestServer.Response.bytes(body).header("ETag", etag).header("Cache-Control", control)
            response = response.header("Set-Cookie", "n\(number % 7)=\(number); Path=/")
            if let range = request.headers["Range"], request.headers["If-Range"] == etag,
                let start = range.dropFirst("bytes=".count).split(separator: "-").first.flatMap({ Int($0) }),
                start < body.count
            {
                response = .bytes(body.dropFirst(start)).status(206).header("ETag", etag).header("Cache-Control", control)
                    .header("Content-Range", "bytes \(start)-\(body.count - 1)/\(body.count)")
            }
            if number % 13 == 0 { return response.truncated(afterBytes: body.count / 2) }
            if number % 17 == 0 { return response.resets(afterBytes: body.count / 3) }
            return response
        }

        static func body(_ version: Int, _ length: Int) -> Data {
            Data(repeating: UInt8(truncatingIfNeeded: version), count: length + version)
        }

        func isVersion(_ data: Data?, of response: HTTPURLResponse?) -> Bool {
            guard let tag = response?.value(forHTTPHeaderField: "ETag"), let version = Int(tag.dropFirst().dropLast())
            else { return false }
            return data == Self.body(version, length)
        }
    }

    /// The number of operations of each of the 64 threads.
    private static let steps = PropertyBudget.rounds(3)

    @Test("each operation ends once, with a single version of the body or an error", arguments: Place.made)
    func storm(_ place: Place) async throws {
        let server = try TestServer()
        let controls = [
            "max-age=600", "no-cache", "max-age=0, stale-while-revalidate=600", "max-age=0, stale-if-error=600", "no-store",
            "max-age=0", "max-age=600, must-revalidate",
        ]
        let resources = (0..<14).map { number in
            Resource(length: number % 2 == 0 ? 3000 : 300_000, control: controls[number % controls.count])
        }
        for (number, resource) in resources.enumerated() { server.route("/r\(number)") { resource.answer($0) } }
        let directory = try TemporaryDirectory(prefix: "cache-storm")
        let cache =
            place != .directory
            ? HTTPCache(memoryCapacity: 3 << 20)
            : try HTTPCache(directory: directory.file("cache"), diskCapacity: 6 << 20, memoryCapacity: 100_000)
        let nginx = place == .memoryOverHTTP2 ? try Nginx(forwardingTo: server.port) : nil
        defer { nginx?.stop() }
        let base = nginx?.secureURL("forward") ?? server.url
        let manager = HTTPRequestOperationManager(baseURL: base, completionQueue: testQueue)
        manager.connectionConfiguration.certificateAuthorities = nginx?.certificateAuthority
        manager.responseSerializer = HTTPResponseSerializer()
        manager.cache = cache
        var policy = RetryPolicy(maximumRetryCount: 2)
        policy.initialDelay = 0.001
        manager.retryPolicy = policy
        var random = SplitMix64(seed: 42)
        let ends = Locked<[Int]>(Array(repeating: 0, count: 64 * Self.steps))
        var operations: [(HTTPRequestOperation, Resource)] = []
        for index in 0..<(64 * Self.steps) {
            let number = Int.random(in: 0..<resources.count, using: &random)
            var request = URLRequest(url: base.appendingPathComponent("r\(number)"))
            if index % 9 == 0 { request.cachePolicy = .reloadRevalidatingCacheData }
            if index % 31 == 0 { request.cachePolicy = .returnCacheDataElseLoad }
            if index % 37 == 0 { request.cachePolicy = .reloadIgnoringLocalCacheData }
            let operation = manager.makeOperation(request: request)
            if index % 8 == 0 { operation.cacheResponseHandler = { _, candidate in index % 16 == 0 ? candidate : nil } }
            operation.setCompletionHandler(
                success: { _, _ in ends.withLock { $0[index] += 1 } }, failure: { _, _ in ends.withLock { $0[index] += 1 } })
            operations.append((operation, resources[number]))
        }
        let all = operations
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<64 {
                let seed = random.next()
                group.addTask {
                    await withCheckedContinuation { done in
                        Thread.detachNewThread {
                            var random = SplitMix64(seed: seed)
                            for step in 0..<Self.steps {
                                let (operation, _) = all[worker * Self.steps + step]
                                manager.enqueue(operation)
                                letOthersRun(microseconds: Int.random(in: 0..<3000, using: &random))
                                switch Int.random(in: 0..<10, using: &random) {
                                case 0, 1: operation.cancel()
                                case 2, 3, 4:
                                    operation.pause()
                                    letOthersRun(microseconds: Int.random(in: 0..<1000, using: &random))
                                    operation.resume()
                                case 5 where worker % 16 == 0: cache.removeAll()
                                default: break
                                }
                            }
                            done.resume()
                        }
                    }
                }
            }
        }
        var (hits, cancelled, failed) = (0, 0, 0)
        for (operation, resource) in operations {
            try? await operation.finished()
            switch operation.error {
            case nil:
                #expect(resource.isVersion(operation.responseData, of: operation.response), "\(resource.control)")
                hits += operation.cacheUse == nil ? 0 : 1
            case let error as URLError where error.code == .cancelled: cancelled += 1
            default: failed += 1
            }
        }
        testQueue.sync {}
        #expect(ends.withLock { $0 }.allSatisfy { $0 == 1 })
        print("\(place): \(hits) hits, \(cancelled) cancelled, \(failed) failed of \(operations.count)")
        #expect(hits > 5 && cancelled > 5)
        // The stored responses must be correct as well.
        for (number, resource) in resources.enumerated() {
            for _ in 0..<3 {
                let operation = manager.enqueue(
                    manager.makeOperation(
                        request: URLRequest(url: base.appendingPathComponent("r\(number)"))))
                try? await operation.finished()
                if operation.error == nil {
                    #expect(resource.isVersion(operation.responseData, of: operation.response))
                }
            }
        }
        try cache.flush()
    }
}
