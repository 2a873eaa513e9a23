import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySharedQueue

/// Workers in separate processes that are killed, stopped and disconnected.
@Suite struct SharedQueueKillTests {
    let server: TestServer

    init() throws { server = try TestServer() }

    private static let program: String = {
        let tests = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return URL(fileURLWithPath: tests).deletingLastPathComponent().appendingPathComponent("StoreProgram").path
    }()

    private func start(
        _ test: TestStore, _ address: String, jobs: Int, lease: Double, clock: JumpingClock? = nil
    ) throws -> ChildProcess {
        try ChildProcess(
            Self.program, ["shared", address, "work", "\(jobs)", "\(lease)"],
            environment: (clock?.environment ?? [:]).merging(["CONVOY_SCHEMA": test.schema]) { $1 },
            directory: test.directory.url, log: test.directory.file("log-\(UUID().uuidString)"))
    }

    /// Returns a number from the environment: the number of requests or of killed workers. `Tests/long shared-queue`
    /// uses more of both, and a separate database, which is stopped and killed as well.
    private static func number(_ name: String, _ standard: Int) -> Int {
        ProcessInfo.processInfo.environment[name].flatMap { Int($0) } ?? standard
    }

    /// The ways in which the first attempt of some requests fails.
    private enum Failure: Int, CaseIterable {
        case error, overload, overloadWithTime, limit, limitWithTime, reset, lostResponse, cutBody, stall

        var response: TestServer.Response {
            switch self {
            case .error: .status(500)
            case .overload: .status(503)
            case .overloadWithTime: .status(503, headers: ["Retry-After": "1"])
            case .limit: .status(429)
            case .limitWithTime: .status(429, headers: ["Retry-After": "1"])
            case .reset: .text("cut").failing(.reset(afterBytes: 1))
            case .lostResponse: .text("lost").failing(.closeBeforeHead)
            case .cutBody: .pattern(count: 5000).failing(.close(afterBytes: 2500))
            // The request fails after three seconds without data.
            case .stall: .text("late").delayed(8)
            }
        }
    }

    @Test(
        "the storm: killed workers, clocks that jump, blocked databases and failing servers lose and repeat nothing",
        arguments: StoreKind.available)
    func kills(kind: StoreKind) async throws {
        let count = Self.number("CONVOY_SHARED_REQUESTS", 120), killCount = Self.number("CONVOY_SHARED_KILLS", 6)
        let isLong = count > 1000, workerCount = isLong ? 8 : 4, limit = 6, period = isLong ? 200 : 40
        let test = try TestStore(kind)
        let database = isLong && kind == .postgres ? try PostgresServer(synchronizes: true) : nil
        defer { database?.stop() }
        let store = try database.map { try StoreKind.postgres($0.address, schema: test.schema) } ?? test.store
        let queue = SharedQueue(store: store)
        let meter = Locked((now: 0, most: 0))
        let seen = Locked<[String: [String]]>([:])
        server.route("POST", "/work") { request in
            meter.withLock { ($0.now, $0.most) = ($0.now + 1, max($0.most, $0.now + 1)) }
            defer { meter.withLock { $0.now -= 1 } }
            usleep(2000)
            let attempt = seen.withLock { seen in
                seen[request.text, default: []].append(request.headers["Idempotency-Key"] ?? "none")
                return seen[request.text]?.count ?? 1
            }
            guard attempt == 1, let number = Int(request.text), let failure = Failure(rawValue: number % period) else {
                return .text("done")
            }
            return failure.response
        }
        try await queue.setLimits(
            HostLimits(maximumConcurrentRequests: limit), host: "127.0.0.1:\(server.port)")
        var post = URLRequest(url: server.url("/work"))
        (post.httpMethod, post.timeoutInterval) = ("POST", 3)
        let requests = (0..<count).map { SharedRequest(OutboxRequest(post, body: .data(Data("\($0)".utf8)))) }
        for first in stride(from: 0, to: count, by: 2000) {
            try await queue.enqueue(Array(requests[first..<min(count, first + 2000)]))
        }
        // Statements that wait for a lock fail.
        try database?.run("ALTER ROLE convoy SET statement_timeout = '500ms'")

        let address =
            kind == .sqlite ? test.directory.file("queue.sqlite").path : database?.address ?? postgresAddress
        let clocks = try (0..<workerCount).map { number in
            let directory = test.directory.file("clock\(number)")
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
            return try JumpingClock(in: directory)
        }
        // The times in seconds at which the database is stopped or killed.
        var restarts = database == nil ? [] : [(10, false), (25, true), (40, false), (70, true)]
        let begun = ContinuousClock.now
        var workers = try clocks.map { try start(test, address, jobs: 8, lease: 1.5, clock: $0) }
        var kills = 0, locks = 0, random = SplitMix64(seed: UInt64(count))
        let end = begun + .seconds(isLong ? 1800 : 240)
        while true {
            let counts = try await queue.counts()
            if counts.allSatisfy({ $0.key.isOver }) { break }
            try #require(ContinuousClock.now < end, "not ended: \(counts)")
            try await Task.sleep(for: .milliseconds(isLong ? 1000 : 150))
            if let (second, immediately) = restarts.first, ContinuousClock.now > begun + .seconds(second) {
                restarts.removeFirst()
                database?.halt(immediately: immediately)
                try await Task.sleep(for: .milliseconds(500))
                try database?.start()
            }
            try clocks.randomElement(using: &random)?.jump(by: [-3600, 0, 3600].randomElement(using: &random) ?? 0)
            if locks < kills / 6 {
                locks += 1
                try await block(store, database)
            }
            if kills < killCount {
                let victim = Int.random(in: 0..<workerCount, using: &random)
                kill(workers[victim].id, SIGKILL)
                workers[victim].stop(grace: 0)
                workers[victim] = try start(test, address, jobs: 8, lease: 1.5, clock: clocks[victim])
                kills += 1
            }
        }
        for worker in workers { worker.stop(grace: 5) }
        #expect(try await queue.counts() == [.done: count])
        #expect(kills > 0)
        let all = seen.withLock { $0 }
        #expect(all.count == count, "each was seen")
        #expect(all.values.allSatisfy { Set($0).count == 1 && $0[0] != "none" }, "each under its own key")
        // A failure of the server causes one more request; beyond that, at most the entries leased when a worker is killed
        // or the database cannot be used are repeated.
        let extra = all.reduce(0) { sum, item in
            sum + item.value.count - (Failure(rawValue: (Int(item.key) ?? 0) % period) == nil ? 1 : 2)
        }
        #expect(extra <= kills * 8 + limit * (locks + (database == nil ? 0 : 4)))
        #expect(meter.withLock { $0.most } <= limit)
        if isLong {
            print(
                "\(kind): \(count) requests, \(kills) kills, \(locks) locks, \(database == nil ? 0 : 4 - restarts.count) restarts, "
                    + "\(extra) sent once more, in \(ContinuousClock.now - begun)")
        }
    }

    /// Prevents all changes of entries for longer than workers wait for a statement in PostgreSQL.
    private func block(_ store: SharedQueueStore, _ database: PostgresServer?) async throws {
        try await Task.detached {
            let other = WorkStore(try store.open())
            try other.database.transaction { () throws(SharedQueueError) in
                if database != nil {
                    _ = try other.database.query("SET LOCAL statement_timeout = 0", [])
                    _ = try other.database.query("LOCK TABLE entry IN SHARE MODE", [])
                }
                usleep(900_000)
            }
        }.value
    }

    private var postgresAddress: String { PostgresServer.shared?.address ?? "" }

    @Test(
        "every entry ends even if the database is stopped, killed and restarted",
        .enabled(if: StoreKind.hasPostgres, StoreKind.postgresReason))
    func databaseRestarts() async throws {
        let database = try PostgresServer(synchronizes: true)
        defer { database.stop() }
        let queue = SharedQueue(store: try StoreKind.postgres(database.address))
        server.route("GET", "/a", .text("").delayed(0.01))
        let requests = (0..<300).map { _ in SharedRequest(URLRequest(url: server.url("/a"))) }
        try await queue.enqueue(requests)
        var settings = SharedQueueWorker.Settings()
        (settings.leaseDuration, settings.maximumConcurrentJobs) = (3, 4)
        settings.retryPolicy.initialDelay = 0.05
        let manager = HTTPRequestOperationManager(completionQueue: .global())
        let workers = (0..<2).map { _ in
            SharedQueueWorker(queue: SharedQueue(store: queue.store), manager: manager, settings: settings)
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in workers { group.addTask { try await worker.run() } }
            for immediately in [false, true] {
                let before = server.requests.count
                try await waitUntil("more requests") { server.requests.count > before + 20 }
                database.halt(immediately: immediately)
                try await Task.sleep(for: .milliseconds(200))
                try database.start()
            }
            try await waitUntil(timeout: 60, "all to be done") { try await queue.counts() == [.done: 300] }
            for worker in workers { worker.stop() }
            try await group.waitForAll()
        }
        #expect(workers.reduce(0) { $0 + $1.statistics.succeeded } >= 300)
    }

    @Test(
        "a disconnected worker stops in time, and its entries are passed to another worker",
        .enabled(if: StoreKind.hasPostgres, StoreKind.postgresReason))
    func cutOff() async throws {
        let test = try TestStore(.postgres), database = try #require(PostgresServer.shared)
        let relay = try FreezableRelay(to: database.port)
        defer { relay.stop() }
        let queue = SharedQueue(store: test.store)
        let gate = TestServer.Gate()
        server.route("GET", "/held", .text("x").held(by: gate))
        server.route("GET", "/body", .pattern(count: 100_000).heldBody(by: gate, afterBytes: 50_000))
        let file = test.directory.file("file")
        var download = DownloadRequest(server.url("/body"), destination: file)
        download.tag = "cut"
        var held = SharedRequest(URLRequest(url: server.url("/held")))
        held.tag = "cut"
        try await queue.enqueue([SharedRequest(download), held])
        var settings = SharedQueueWorker.Settings()
        (settings.leaseDuration, settings.name) = (2, "cut off")
        let cut = SharedQueueWorker(
            queue: SharedQueue(
                store: try StoreKind.postgres("postgresql://convoy@127.0.0.1:\(relay.port)/postgres", schema: test.schema)),
            manager: HTTPRequestOperationManager(completionQueue: .global()), settings: settings)
        async let first: Void = cut.run()
        _ = try await server.waitForRequests(count: 2)
        relay.isFrozen = true
        // Its leases expire, which it detects without the database.
        try await waitUntil("the worker to give up") { cut.statistics.running == 0 }
        #expect(!FileManager.default.fileExists(atPath: file.path))
        settings.name = "other"
        let other = SharedQueueWorker(
            queue: queue, manager: HTTPRequestOperationManager(completionQueue: .global()), settings: settings)
        async let second: Void = other.run()
        _ = try await server.waitForRequests(count: 4)
        gate.open()
        try await waitUntil("the other one to be done") { try await queue.counts() == [.done: 2] }
        relay.isFrozen = false
        try await waitUntil("the first one to be back") {
            try await queue.workers().contains { $0.name == "cut off" }
        }
        #expect(try await queue.counts() == [.done: 2])
        #expect(try Data(contentsOf: file).count == 100_000)
        #expect(cut.statistics.succeeded == 0)
        cut.stop()
        other.stop()
        _ = try await (first, second)
    }
    @Test("a worker whose process was suspended does not report entries that it has lost", arguments: StoreKind.available)
    func standstill(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store)
        let gate = TestServer.Gate()
        server.route("GET", "/held", inTurn: [.text("x").held(by: gate), .text("fine")])
        let request = SharedRequest(URLRequest(url: server.url("/held")))
        try await queue.enqueue(request)
        let address = kind == .sqlite ? test.directory.file("queue.sqlite").path : postgresAddress
        let stopped = try start(test, address, jobs: 1, lease: 1)
        _ = try await server.waitForRequests(count: 1)
        kill(stopped.id, SIGSTOP)
        let other = try start(test, address, jobs: 1, lease: 1)
        try await waitUntil("the other one to be done") { try await queue.entry(request.id).state == .done }
        gate.open()
        kill(stopped.id, SIGCONT)
        kill(stopped.id, SIGTERM)
        try await waitUntil("it to end") { !stopped.isRunning }
        #expect(stopped.exitStatus == 0)
        #expect(try await queue.entry(request.id).attempts == 2)
        other.stop()
    }

    @Test(
        "a file that was complete before its attempt could report is not downloaded again",
        arguments: StoreKind.available)
    func mark(kind: StoreKind) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store), store = try test.open()
        server.route("GET", "/file", .pattern(count: 1000))
        let file = test.directory.file("file")
        let id = try await queue.enqueue(SharedRequest(DownloadRequest(server.url("/file"), destination: file)))
        // The attempt ends between the rename and the report.
        let worker = try store.worker(lasting: 1)
        let work = try #require(try store.claim(worker: worker, limit: 1, tags: nil).entries.first)
        try Data("theirs".utf8).write(to: file)
        try store.mark(id, lease: work.lease, try #require(FinishedFile(file.path, as: file)).mark)
        try eventually {
            try store.maintain(); return try store.state(id) == .ready
        }
        let next = SharedQueueWorker(queue: queue, manager: HTTPRequestOperationManager(completionQueue: .global()))
        async let running: Void = next.run()
        try await waitUntil("the entry to end") { try await queue.entry(id).state == .done }
        next.stop()
        try await running
        #expect(server.requests.isEmpty)
        #expect(try await queue.result(of: id)?.place == file.absoluteString)
    }
}
