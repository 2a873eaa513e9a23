import Convoy
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization

extension Case {
    /// Cached responses compared with those of a local server.
    static let cachedGet: Case = {
        let plans = [64, 1].map { RequestPlan(path: "json", fullCount: 50_000, inFlight: $0, expectedBytes: 1024) }
        let trials = plans.map { plan in
            Trial(
                name: plan.inFlight == 1 ? "cached-get-1" : "cached-get", unit: "requests/s", limit: "network",
                subjects: [
                    .convoyFed(plan.reduced(to: 10_000), named: "network"),
                    Subject("memory") { try CachedGet(plan, $0, memoryCapacity: 512 << 20).measure() },
                    Subject("disk") { try CachedGet(plan, $0, memoryCapacity: nil).measure() },
                ])
        }
        return Case(
            name: "cached-get",
            summary: "random GETs of 1 KB from a cache of 100,000 responses, compared with a server",
            trials: trials,
            bars: trials.flatMap { trial in
                ["memory", "disk"].map { subject in
                    .atLeast(5, "times the rate of the network, from \(subject) (\(trial.name))") {
                        $0.ratio(trial.name, subject, to: "network")
                    }
                }
            })
    }()
}

/// GETs of cached responses.
struct CachedGet {
    private let plan: RequestPlan
    private let context: Context
    private let requests: ConvoyRequests
    private let cache: HTTPCache

    /// - Parameter memoryCapacity: The capacity; nil for a disk cache that keeps almost nothing in memory.
    fileprivate init(_ plan: RequestPlan, _ context: Context, memoryCapacity: Int?) throws {
        let count = context.count(100_000)
        self.plan = plan
        self.context = context
        // This avoids a system call for each random number.
        let random = Mutex(SplitMix64(seed: 1))
        requests = ConvoyRequests(plan, context) {
            "stored/\(random.withLock { Int.random(in: 0..<count, using: &$0) })"
        }
        cache =
            if let memoryCapacity {
                HTTPCache(memoryCapacity: memoryCapacity)
            } else {
                try HTTPCache(
                    directory: context.scratch.appendingPathComponent("cache"), diskCapacity: 1 << 30,
                    memoryCapacity: 64 << 10)
            }
        let cache = cache, base = plan.base(context)
        try blocking {
            if cache.currentDiskUsage < count * 1024 { try await Self.fill(cache, base, count: count) }
        }
        try cache.flush()
        requests.manager.cache = cache
        requests.manager.cookieStore = nil
    }

    fileprivate func measure() throws -> Sample {
        let before = cache.hits
        let sample = try requests.measure { requests, count in requests.feed(count) }
        guard cache.hits - before == plan.requests(context) + plan.warmUp(context) else {
            throw BenchError("not all were hits")
        }
        return sample
    }

    /// Stores responses of 1 KB.
    static func fill(_ cache: HTTPCache, _ base: URL, count: Int) async throws {
        let data = Data(JSONDocument.text.utf8)
        let fields = [
            "Content-Type": "application/json", "Content-Length": "\(data.count)", "Cache-Control": "max-age=86400",
            "ETag": "\"1\"", "Server": "bench",
        ]
        for number in 0..<count {
            let url = base.appendingPathComponent("stored/\(number)")
            guard
                let response = HTTPURLResponse(
                    url: url, statusCode: 200, httpVersion: "HTTP/1.1", headerFields: fields),
                await cache.store(CachedURLResponse(response: response, data: data), for: URLRequest(url: url))
            else { throw BenchError("response \(number) was not stored") }
            // Flush, because a cache drops responses that the disk cannot keep up with.
            if number % 1_000 == 999 { try cache.flush() }
        }
    }
}
