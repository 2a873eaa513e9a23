@testable import ConvoyCache
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The http-tests/cache-tests suite with the complete client and a loopback server. Only time is simulated.
@Suite(.enabled(if: ConformanceSuite.directory("http-cache") != nil, .init(rawValue: ConformanceSuite.hint("http-cache"))))
struct CacheCollectionTests {
    /// The location in which the cache stores the responses.
    enum Place: CaseIterable {
        case memory
        case directory
        /// A directory, with a new cache for each request, as if the process had been restarted.
        case reopenedDirectory
    }

    /// The required tests that pass in the cache alone but cannot pass on the wire, each with the reason.
    static let deviations: [String: String] = [
        "headers-store-Transfer-Encoding": "a response with an unknown transfer coding is invalid (RFC 9112, section 6.1)"
    ]

    /// The places to test. A reopened directory includes what a directory does.
    private static let places: [Place] = PropertyBudget.factor > 1 ? Place.allCases : [.memory, .reopenedDirectory]

    @Test("the required cache tests pass for operations in the same way as for the cache alone", arguments: places)
    func collection(_ place: Place) async throws {
        let directory = try #require(ConformanceSuite.directory("http-cache"))
        let tests = try HTTPCacheSuite.load(from: directory).flatMap(\.tests).filter(\.isForClients)
        let stage = try Stage()
        var verdicts: [String: HTTPCacheVerdict] = [:]
        var rest = tests[...]
        try await withThrowingTaskGroup(of: (String, HTTPCacheVerdict).self) { group in
            for _ in 0..<16 {
                guard let test = rest.popFirst() else { break }
                group.addTask { (test.id, try await stage.play(test, place)) }
            }
            while let (id, verdict) = try await group.next() {
                verdicts[id] = verdict
                if let test = rest.popFirst() { group.addTask { (test.id, try await stage.play(test, place)) } }
            }
        }
        let report = HTTPCacheReport(tests, verdicts)
        print(report.unfulfilled.map { "\($0.key): \($0.value)" }.sorted().joined(separator: "\n"))
        for (kind, count) in report.counts { print("\(place), \(kind): \(count)") }
        #expect(report.surprises.filter { surprise in !Self.deviations.keys.contains { surprise.hasPrefix($0) } } == [])
        #expect(Self.deviations.keys.allSatisfy { report.unfulfilled[$0] != nil })
        #expect(report.counts[.required]?.all == 137)
    }
}

/// The server with the origins of all tests.
private final class Stage: Sendable {
    /// The origin of one test, and its time.
    final class Scene: Sendable {
        let origin: Locked<HTTPCacheOrigin>
        private let time = Locked(CacheTime(wall: 1_800_000_000_000, up: 5_000_000))

        init(_ origin: HTTPCacheOrigin) { self.origin = Locked(origin) }

        var now: CacheTime { time.withLock { $0 } }

        func advance(milliseconds: Int64) {
            time.withLock { time in
                time.wall += milliseconds
                time.up += milliseconds
            }
        }

        func answer(_ request: RecordedRequest) -> TestServer.Response {
            let fields = request.headers.fields.map { ($0.name, $0.value) }
            let reply = origin.withLock {
                $0.answer(method: request.method, target: request.target, fields: fields, now: now.wall)
            }
            guard let reply else { return TestServer.Response().failing(.closeBeforeHead) }
            let response = TestServer.Response(
                status: reply.status,
                headers: TestServer.Headers(reply.fields.map { .init(name: $0.name, value: $0.value) }),
                body: .data(Data(reply.body.utf8)))
            // Omit the length, because that of the empty body is not the length of the representation.
            return request.method == "HEAD" ? response.framed(.closeDelimited) : response
        }
    }

    private let server: TestServer

    init() throws { server = try TestServer() }

    func play(_ test: HTTPCacheSuite.Test, _ place: CacheCollectionTests.Place) async throws -> HTTPCacheVerdict {
        let token = "token-\(test.id)"
        let scene = Scene(HTTPCacheOrigin(test, token: token))
        for path in ["/test/\(token)", "/test/\(token)/*"] { server.route(path) { scene.answer($0) } }
        let directory = place == .memory ? nil : try TemporaryDirectory(prefix: "cache-collection")
        func makeCache() throws -> HTTPCache {
            let clock = CacheClock(boot: 1) { scene.now }
            guard let directory else { return HTTPCache(memoryCapacity: 1 << 20, clock: clock) }
            // The cache keeps nothing in memory.
            return try HTTPCache(
                directory: directory.file("cache"), diskCapacity: 8 << 20, memoryCapacity: 0, clock: clock)
        }
        var cache = try makeCache()
        let manager = HTTPRequestOperationManager(completionQueue: testQueue)
        var serializer = HTTPResponseSerializer()
        serializer.acceptableStatusCodes = StatusCodeSet(100..<1000)
        manager.responseSerializer = serializer
        manager.cookieStore = nil
        var seen: [HTTPCacheVerdict.Seen?] = []
        for (index, step) in test.requests.enumerated() {
            if place == .reopenedDirectory, index > 0 {
                try cache.flush()
                cache = try makeCache()
            }
            manager.cache = cache
            let target = scene.origin.withLock { $0.target(step) }
            var request = URLRequest(url: try #require(URL(string: server.url.absoluteString + target)))
            request.httpMethod = step.request_method ?? "GET"
            if step.cache == "no-cache" { request.cachePolicy = .reloadRevalidatingCacheData }
            request.httpBody = step.request_body.map { Data($0.utf8) }
            for entry in step.request_headers ?? [] {
                guard entry.count == 2, let name = entry[0].text else { continue }
                let value = HTTPCacheOrigin.value(entry[1], name, step, target: "", now: scene.now.wall)
                request.addValue(value, forHTTPHeaderField: name)
            }
            request.setValue(test.id, forHTTPHeaderField: "Test-ID")
            request.setValue(String(index + 1), forHTTPHeaderField: "Req-Num")
            let operation = manager.makeOperation(request: request)
            if step.redirect == "manual" { operation.redirectHandler = { _, _, _ in nil } }
            let arrivals = scene.origin.withLock { $0.arrivals.count }
            try? await manager.enqueue(operation).finished()
            seen.append(Self.seen(operation))
            if operation.cacheUse == .staleWhileRevalidate {
                try await waitUntil("revalidation in \(test.id)") { scene.origin.withLock { $0.arrivals.count } > arrivals }
            }
            if step.pause_after == true { scene.advance(milliseconds: 3000) }
        }
        try cache.flush()
        return HTTPCacheVerdict(scene.origin.withLock { $0 }, seen)
    }

    private static func seen(_ operation: HTTPRequestOperation) -> HTTPCacheVerdict.Seen? {
        if let error = operation.error {
            // The response that RFC 9111, section 5.2.1.7, specifies for `only-if-cached`.
            guard (error as? URLError)?.code == .resourceUnavailable else { return nil }
            return HTTPCacheVerdict.Seen(status: 504, fields: [], body: "")
        }
        guard let head = operation.core.withLock({ $0.head }) else { return nil }
        return HTTPCacheVerdict.Seen(
            status: head.statusCode, fields: head.fields,
            body: String(decoding: operation.responseData ?? Data(), as: UTF8.self))
    }
}
