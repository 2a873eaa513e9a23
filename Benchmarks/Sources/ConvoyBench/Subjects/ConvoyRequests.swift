import Convoy
import Foundation
import FoundationNetworking
import Synchronization

extension Subject {
    /// Returns Convoy with all requests enqueued at once, in a queue with a concurrency limit.
    static func convoy(_ plan: RequestPlan, named name: String = Trial.convoy) -> Subject {
        Subject(name) { context in
            try ConvoyRequests(plan, context).measure { requests, count in
                requests.manager.operationQueue.maxConcurrentOperationCount = plan.inFlight
                return requests.enqueueAll(count)
            }
        }
    }

    /// Returns Convoy with each request enqueued by the completion handler of an earlier one, and a constant number in
    /// flight.
    static func convoyFed(_ plan: RequestPlan, named name: String = Trial.convoy) -> Subject {
        Subject(name) { context in
            try ConvoyRequests(plan, context).measure { requests, count in requests.feed(count) }
        }
    }

    /// Returns Convoy with sequential requests that a task awaits.
    static func convoyAwaited(_ plan: RequestPlan) -> Subject {
        Subject("convoy-awaited") { context in
            try ConvoyRequests(plan, context).measure { requests, count in
                (try? blocking { try await requests.awaitEach(count) }) ?? count
            }
        }
    }

    /// Returns the same as `convoy`, with operations that collect metrics.
    static func convoyMeasured(_ plan: RequestPlan, named name: String) -> Subject {
        Subject(name) { context in
            let requests = ConvoyRequests(plan, context)
            requests.manager.collectsMetrics = true
            return try requests.measure { requests, count in
                requests.manager.operationQueue.maxConcurrentOperationCount = plan.inFlight
                return requests.enqueueAll(count)
            }
        }
    }

    /// Returns the same as `convoy`, with a monitor that receives all events of each operation.
    static func convoyMonitored(_ plan: RequestPlan, named name: String) -> Subject {
        Subject(name) { context in
            let requests = ConvoyRequests(plan, context)
            let count = Atomic<Int>(0)
            requests.manager.eventMonitors = [
                EventMonitor { events in count.add(events.count, ordering: .relaxed) }
            ]
            return try requests.measure { requests, count in
                requests.manager.operationQueue.maxConcurrentOperationCount = plan.inFlight
                return requests.enqueueAll(count)
            }
        }
    }

    /// Returns the same as `convoyFed`, with a policy that pins the server's key and a backup key.
    static func convoyPinned(_ plan: RequestPlan, named name: String) -> Subject {
        Subject(name) { context in
            let requests = ConvoyRequests(plan, context)
            let keys = try Certificate.certificates(contentsOf: context.serverCertificate).compactMap(\.publicKeyPin)
            let unused = "sha256/\(Data(count: 32).base64EncodedString())"
            var policy = try SecurityPolicy(publicKeyPins: keys.map(\.description), backupPins: [unused])
            policy.certificateAuthorities = .file(context.certificateAuthority)
            requests.manager.securityPolicy = policy
            return try requests.measure { requests, count in requests.feed(count) }
        }
    }
}

/// GETs through a manager, its queue and the plain response serializer, with a completion handler for each request.
final class ConvoyRequests: Sendable {
    let manager: HTTPRequestOperationManager
    private let plan: RequestPlan
    private let context: Context
    private let leftToStart = Atomic<Int>(0)
    private let path: @Sendable () -> String

    /// - Parameter path: Returns the path of each request; nil for that of the plan.
    init(_ plan: RequestPlan, _ context: Context, path: (@Sendable () -> String)? = nil) {
        self.plan = plan
        self.path = path ?? { plan.path }
        self.context = context
        manager = HTTPRequestOperationManager(baseURL: plan.base(context))
        manager.responseSerializer = HTTPResponseSerializer()
        manager.completionQueue = DispatchQueue(label: "bench.completion")
        if plan.usesHTTP2 || plan.isSecure {
            manager.connectionConfiguration.certificateAuthorities = context.certificateAuthority
            manager.connectionConfiguration.usesHTTP2 = plan.usesHTTP2
        }
    }

    /// Warms up, then measures.
    func measure(_ requests: (ConvoyRequests, Int) -> Int) throws -> Sample {
        let warmUp = plan.warmUp(context), count = plan.requests(context)
        try BenchError.check(failed: requests(self, warmUp), of: warmUp)
        var failed = 0
        let cost = Cost { failed = requests(self, count) }
        try BenchError.check(failed: failed, of: count)
        return .rate(count, cost)
    }

    /// Enqueues all requests at once. Returns the number of failed requests.
    func enqueueAll(_ count: Int) -> Int {
        let countdown = Countdown(count)
        for _ in 0..<count { get(countdown) {} }
        return countdown.wait()
    }

    /// Enqueues requests as earlier ones complete. Returns the number of failed requests.
    func feed(_ count: Int) -> Int {
        let countdown = Countdown(count)
        leftToStart.store(count, ordering: .sequentiallyConsistent)
        for _ in 0..<min(count, plan.inFlight) { startNext(countdown) }
        return countdown.wait()
    }

    /// Awaits one request after the other. Returns the number of wrong responses.
    func awaitEach(_ count: Int) async throws -> Int {
        var wrong = 0
        for _ in 0..<count {
            let data: Data = try await manager.get(path())
            if data.count != plan.expectedBytes { wrong += 1 }
        }
        return wrong
    }

    private func startNext(_ countdown: Countdown) {
        guard leftToStart.wrappingSubtract(1, ordering: .relaxed).newValue >= 0 else { return }
        get(countdown) { [self] in startNext(countdown) }
    }

    private func get(_ countdown: Countdown, then next: @escaping @Sendable () -> Void) {
        let expected = plan.expectedBytes
        manager.get(path()) { _, object in
            next()
            countdown.done((object as? Data)?.count == expected)
        } failure: { _, _ in
            next()
            countdown.done(false)
        }
    }
}
