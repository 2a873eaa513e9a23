import Convoy
import Foundation
import FoundationNetworking

extension Case {
    /// The cost of a cookie store and a cache for requests to which they do not apply.
    static let idleStores: Case = {
        let trial = Trial(
            name: "idle-stores", unit: "us/request", limit: nil,
            subjects: [Subject(Trial.convoy) { try IdleStores($0).measure() }])
        return Case(
            name: trial.name,
            summary: "the CPU time that cookies of other sites and a cache add to a GET of 11 bytes, 64 in flight",
            trials: [trial],
            bars: [
                .atMost(1, "us more with 1,000 cookies of other sites") { $0.detail("cookies us", trial.name) },
                .atMost(1, "us more with 1,000 stored responses of other URLs") { $0.detail("cache us", trial.name) },
            ])
    }()
}

/// The same requests through three managers in turn, because the differences are smaller than those between runs.
private struct IdleStores {
    private let plan = RequestPlan(path: "small", fullCount: 2_000, inFlight: 64, expectedBytes: 11)
    private let context: Context
    private let plain: ConvoyRequests
    private let withCookies: ConvoyRequests
    private let withCache: ConvoyRequests

    init(_ context: Context) throws {
        self.context = context
        plain = ConvoyRequests(plan, context)
        withCookies = ConvoyRequests(plan, context)
        withCache = ConvoyRequests(plan, context)
        let store = CookieStore()
        for number in 0..<1_000 {
            guard let url = URL(string: "https://host\(number).example/") else { continue }
            store.setCookies(["name=value; Max-Age=1000"], from: url)
        }
        (plain.manager.cookieStore, withCookies.manager.cookieStore, withCache.manager.cookieStore) = (nil, store, nil)
        let cache = HTTPCache()
        let base = plan.base(context)
        try blocking { try await CachedGet.fill(cache, base, count: 1_000) }
        withCache.manager.cache = cache
    }

    func measure() throws -> Sample {
        let managers = [plain, withCookies, withCache]
        let warmUp = plan.warmUp(context), count = plan.requests(context)
        for requests in managers { try BenchError.check(failed: requests.feed(warmUp), of: warmUp) }
        // Alternate the managers in every order.
        let orders = [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1], [0, 2, 1], [1, 2, 0]]
        var costs: [[Double]] = [[], [], []]
        for round in 0..<context.count(60) {
            for index in orders[round % orders.count] {
                var failed = 0
                let cost = Cost { failed = managers[index].feed(count) }
                try BenchError.check(failed: failed, of: count)
                costs[index].append(cost.cpuSeconds * 1e6 / Double(count))
            }
        }
        func added(_ index: Int) -> Double { zip(costs[index], costs[0]).map { $0 - $1 }.median ?? .infinity }
        return Sample(
            costs[0].median ?? .infinity, details: ["cookies us": added(1), "cache us": added(2)])
    }
}
