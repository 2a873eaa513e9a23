import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySharedQueue

/// What workers promise when the database, a host or another worker fails.
@Suite struct WorkerPromiseTests {
    let server: TestServer

    init() throws { server = try TestServer() }

    private func worker(
        _ queue: SharedQueue, jobs: Int = 8, lease: TimeInterval = 60,
        _ change: (inout SharedQueueWorker.Settings) -> Void = { _ in }
    ) -> SharedQueueWorker {
        var settings = SharedQueueWorker.Settings()
        (settings.leaseDuration, settings.maximumConcurrentJobs) = (lease, jobs)
        settings.retryPolicy.initialDelay = 0.01
        change(&settings)
        return SharedQueueWorker(
            queue: queue, manager: HTTPRequestOperationManager(baseURL: server.url), settings: settings)
    }

    private func request(_ path: String, _ method: String = "GET", attempts: Int = 25) -> SharedRequest {
        var request = URLRequest(url: server.url(path))
        request.httpMethod = method
        var shared = SharedRequest(request)
        shared.maximumAttempts = attempts
        return shared
    }

    private func run(
        _ workers: [SharedQueueWorker], until condition: @escaping @Sendable () async throws -> Bool
    ) async throws {
        let runs = workers.map { worker in Task { try await worker.run() } }
        do {
            try await waitUntil(timeout: 40, "the workers to finish", condition)
        } catch {
            for worker in workers { worker.stop(.now) }
            throw error
        }
        for worker in workers { worker.stop() }
        for run in runs { try await run.value }
    }

    private func isOver(_ queue: SharedQueue) async throws -> Bool {
        try await queue.counts().allSatisfy { $0.key.isOver }
    }

    @Test(
        "a POST is never sent twice, and none is lost, whichever statements of the database fail",
        .timeLimit(.minutes(2)), arguments: StoreKind.available, 0..<PropertyBudget.rounds(1))
    func faults(kind: StoreKind, number: Int) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        let faults = StatementFaults(seed: UInt64(number) &+ 77, interval: 25)
        for index in 0..<60 { server.route("POST", "/\(index)", .text("ok")) }
        let requests = (0..<60).map { request("/\($0)", "POST") }
        try await queue.enqueue(requests)
        let workers = (0..<3).map { _ in worker(SharedQueue(store: faults.store(test.store)), jobs: 4, lease: 2) }
        faults.activate(true)
        do {
            try await run(workers) { [self] in try await isOver(queue) }
        } catch {
            Issue.record("\(error): \(try await queue.counts()), \(workers.map(\.statistics))")
        }
        for (index, request) in requests.enumerated() {
            let count = server.requests("POST", "/\(index)").count
            let entry = try await queue.entry(request.id)
            #expect(count <= 1)
            #expect(entry.state == .done ? count == 1 : entry.errorDescription == WorkStanding.unknownOutcome, "\(entry)")
        }
    }

    @Test(
        "a POST is never sent twice, and none is lost, whichever single statement of a worker fails",
        .timeLimit(.minutes(3)), arguments: StatementFaults.errors, [false, true])
    func everyStatement(error: SharedQueueError, takesEffect: Bool) async throws {
        server.route("POST", "/a", .text("ok"))
        // The first statements register the worker and claim the entries; the later ones repeat.
        for first in stride(from: 0, to: 48, by: 12) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in first..<first + 12 {
                    group.addTask { try await lose(number, (error, takesEffect)) }
                }
                try await group.waitForAll()
            }
        }
    }

    private func lose(_ number: Int, _ fault: StatementFaults.Fault) async throws {
        let test = try TestStore(.sqlite), queue = SharedQueue(store: test.store)
        let faults = StatementFaults(failing: number, fault)
        let requests = (0..<3).map { index in request("/a?\(test.schema)-\(index)", "POST") }
        try await queue.enqueue(requests)
        let worker = worker(SharedQueue(store: faults.store(test.store)), jobs: 2, lease: 2)
        faults.activate(true)
        do {
            try await run([worker]) { [self] in try await isOver(queue) }
        } catch {
            Issue.record("statement \(number): \(error): \(try await queue.counts()), \(worker.statistics)")
        }
        for (index, request) in requests.enumerated() {
            let count = server.requests.count { $0.target.hasSuffix("\(test.schema)-\(index)") }
            let entry = try await queue.entry(request.id)
            #expect(count <= 1, "statement \(number)")
            #expect(
                entry.state == .done ? count == 1 : entry.errorDescription == WorkStanding.unknownOutcome,
                "statement \(number): \(entry)")
        }
    }

    @Test("a worker that lacks a folder uses up no attempts", .timeLimit(.minutes(1)), arguments: StoreKind.available)
    func unfit(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/a", .text("a").delayed(0.02))
        var requests = (0..<20).map { _ in request("/a", attempts: 1) }
        for index in requests.indices { requests[index].responseBody = .folder("exports", path: "\(index)") }
        try await queue.enqueue(requests)
        let unfit = worker(queue), fit = worker(queue, jobs: 2) { $0.folders = ["exports": test.directory.url] }
        try await run([unfit, fit]) { [self] in try await isOver(queue) }
        #expect(try await queue.counts() == [.done: 20])
        #expect(unfit.statistics.failed == 0)
        #expect(unfit.statistics.returned > 0)
    }

    @Test("entries that no worker can execute do not delay the others", arguments: StoreKind.available)
    func unfitInFront(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/a", .text("a"))
        var unfit = (0..<100).map { _ in request("/a") }
        for index in unfit.indices { unfit[index].responseBody = .folder("exports", path: "\(index)") }
        try await queue.enqueue(unfit)
        let worker = worker(queue, jobs: 4), run = Task { try await worker.run() }
        // The second batch arrives when the worker has returned all of the others, and the third while it does so again.
        for count in 1...3 {
            try await queue.enqueue((0..<10).map { _ in request("/a") })
            let start = MonotonicClock.now
            try await waitUntil("batch \(count)") { try await queue.counts()[.done] == 10 * count }
            #expect(Nanoseconds.seconds(from: start, to: MonotonicClock.now) < 4)
            try await Task.sleep(nanoseconds: count == 1 ? 500_000_000 : 3_000_000_000)
        }
        worker.stop(.now)
        try await run.value
    }

    @Test("a URL that answers 503 does not delay the other requests of its host", arguments: StoreKind.available)
    func overload(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/good", .text("good"))
        server.route("GET", "/bad", .status(503))
        try await queue.enqueue((0..<5).map { _ in request("/bad") } + (0..<60).map { _ in request("/good") })
        let worker = worker(queue) { $0.retryPolicy.initialDelay = 5 }
        let start = MonotonicClock.now
        try await run([worker]) { try await queue.counts()[.done] == 60 }
        #expect(Nanoseconds.seconds(from: start, to: MonotonicClock.now) < 10)
    }

    @Test("a worker leaves entries that it cannot run to idle workers", arguments: StoreKind.available)
    func claims(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        let gate = TestServer.Gate()
        server.route("GET", "/slow", .text("slow").held(by: gate))
        server.route("GET", "/quick", .text("quick"))
        let first = worker(queue), second = worker(queue)
        try await queue.enqueue((0..<200).map { _ in request("/quick") } + (0..<8).map { _ in request("/slow") })
        try await run([first, second]) { [self] in
            guard server.requests("GET", "/slow").count == 8 else { return false }
            try await queue.enqueue((0..<8).map { _ in request("/slow") })
            try await waitUntil("all requests to be running") { server.requests("GET", "/slow").count == 16 }
            gate.open()
            return true
        }
    }

    @Test("an entry that fails in its last attempt is counted and announced", arguments: StoreKind.available)
    func verdicts(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        server.route("GET", "/bad", .status(500))
        let id = try await queue.enqueue(request("/bad", attempts: 2))
        let events = Locked<[SharedQueueWorker.Event]>([])
        let worker = worker(queue) { $0.eventHandler = { event in events.withLock { $0.append(event) } } }
        try await run([worker]) { [self] in try await isOver(queue) }
        #expect((worker.statistics.failedForNow, worker.statistics.failed) == (1, 1))
        try await waitUntil("the event") {
            events.withLock { events in
                events.contains {
                    if case .failed(let entry, _) = $0 { entry.id == id && entry.attempt == 2 } else { false }
                }
            }
        }
        #expect(events.withLock { $0.first } == .connected)
    }

    @Test("a worker reports that its database is unusable, and why")
    func silence() async throws {
        let test = try TestStore(.sqlite), faults = StatementFaults(seed: 1, interval: 1)
        let events = Locked<[SharedQueueWorker.Event]>([])
        let worker = worker(SharedQueue(store: faults.store(test.store))) {
            $0.eventHandler = { event in events.withLock { $0.append(event) } }
        }
        let run = Task { try await worker.run() }
        try await waitUntil("the connection") { worker.statistics.isConnected }
        faults.activate(true)
        try await waitUntil("the event") {
            events.withLock { $0.contains { if case .disconnected = $0 { true } else { false } } }
        }
        #expect(!worker.statistics.isConnected)
        #expect(worker.statistics.connectionError != nil)
        faults.activate(false)
        try await waitUntil("the connection") { worker.statistics.isConnected }
        #expect(worker.statistics.connectionError == nil)
        worker.stop()
        try await run.value
    }

    @Test("a retry leaves out entries whose unique key belongs to another entry", arguments: StoreKind.available)
    func uniqueKeys(kind: StoreKind) async throws {
        let test = try TestStore(kind), store = try test.open(), worker = try store.worker()
        let keyed = (0..<3).map { number in WorkItem.plain { $0.uniqueKey = "key\(number)" } }
        try store.enqueue(keyed)
        for work in try store.claim(worker: worker, limit: 3, tags: nil).entries {
            _ = try store.report([WorkReport(work, by: worker, .failed)])
        }
        try store.enqueue([WorkItem.plain { $0.uniqueKey = "key1" }])
        var filter = WorkFilter()
        filter.states = [.failed]
        #expect(try store.apply(.retry, to: filter) == 2)
        #expect(try store.state(keyed[1].id) == .failed)
    }

    @Test("entries are not claimed after their deadline", arguments: StoreKind.available)
    func deadlines(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open(), worker = try store.worker()
        let items = (0..<10).map { number in WorkItem.plain { $0.timeLimit = number < 5 ? 200_000 : 60_000_000 } }
        try store.enqueue(items)
        usleep(250_000)
        let claimed = try store.claim(worker: worker, limit: 10, tags: nil).entries
        #expect(Set(claimed.map(\.id)) == Set(items[5...].map(\.id)))
        #expect(claimed.allSatisfy { ($0.timeLeft ?? 0) > 50_000_000 })
        for item in items[..<5] { #expect(try store.state(item.id) == .failed) }
    }
}

/// The gate and the probes of a host.
@Suite struct HostShareTests {
    @Test("the gate of a host grows with consecutive failures, of which a batch counts once")
    func gate() {
        var share = HostShare(limits: HostLimits(), now: 0)
        share.recordOverload(claimed: 0, now: 10)
        share.recordOverload(claimed: 0, now: 20)
        #expect((share.failures, share.gate) == (1, 250_010))
        let closed = share.allowance(leased: 0, now: 100), open = share.allowance(leased: 0, now: 250_010)
        #expect((closed, open) == (0, 1))
        // The probe closes the gate until its end is known, at most a second.
        share.take(1, now: 250_010)
        #expect(share.gate == 1_250_010)
        share.recordOverload(claimed: 250_010, now: 300_000)
        #expect((share.failures, share.gate) == (2, 800_000))
        for _ in 0..<100 {
            let now = share.gate
            share.recordOverload(claimed: now, now: now)
        }
        let last = share.gate
        share.recordOverload(claimed: last, now: last)
        #expect(share.gate == last + 60_000_000)
        share.recordSuccess(now: last)
        let free = share.allowance(leased: 0, now: last)
        #expect((share.failures, free) == (0, .max))
    }

    @Test("a success does not open a gate whose time the host has specified")
    func retryAfter() {
        var share = HostShare(limits: HostLimits(), now: 0)
        share.recordOverload(claimed: 0, now: 0)
        share.close(until: 5_000_000)
        share.recordSuccess(now: 10)
        #expect(share.gate == 5_000_000)
    }
}
