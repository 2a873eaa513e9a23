import Foundation
import FoundationNetworking
import Synchronization

extension Subject {
    /// Returns `URLSession` with a completion handler for each request and a constant number in flight.
    static func urlSession(_ plan: RequestPlan) -> Subject {
        Subject("urlsession") { context in
            let requests = URLSessionRequests(plan, context)
            let warmUp = plan.warmUp(context), count = plan.requests(context)
            try BenchError.check(failed: requests.run(warmUp), of: warmUp)
            var failed = 0
            let cost = Cost { failed = requests.run(count) }
            try BenchError.check(failed: failed, of: count)
            return .rate(count, cost)
        }
    }
}

/// GETs through one session.
private final class URLSessionRequests: Sendable {
    private let session: URLSession
    private let plan: RequestPlan
    private let url: URL
    private let leftToStart = Atomic<Int>(0)

    init(_ plan: RequestPlan, _ context: Context) {
        self.plan = plan
        url = plan.url(context)
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpMaximumConnectionsPerHost = plan.inFlight
        configuration.urlCache = nil
        configuration.httpCookieStorage = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        session = URLSession(configuration: configuration)
    }

    func run(_ count: Int) -> Int {
        let countdown = Countdown(count)
        leftToStart.store(count, ordering: .sequentiallyConsistent)
        for _ in 0..<min(count, plan.inFlight) { startNext(countdown) }
        return countdown.wait()
    }

    private func startNext(_ countdown: Countdown) {
        guard leftToStart.wrappingSubtract(1, ordering: .relaxed).newValue >= 0 else { return }
        session.dataTask(with: url) { [self] data, response, _ in
            startNext(countdown)
            let isRight = (response as? HTTPURLResponse)?.statusCode == 200 && data?.count == plan.expectedBytes
            countdown.done(isRight)
        }.resume()
    }
}
