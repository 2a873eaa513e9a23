import ConvoyDownloads
import ConvoyOperations
import ConvoySharedQueue
import ConvoySupport
import Foundation
import FoundationNetworking

#if Postgres
import ConvoyPostgres
#endif

/// A worker of a shared queue that may be killed at any time, and commands that measure only the store.
enum SharedCommands {
    struct Usage: Error {}

    private static func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

    static func run(_ arguments: [String]) async throws {
        guard arguments.count >= 2 else { throw Usage() }
        let store = try store(arguments[0])
        switch (arguments[1], arguments.count) {
        case ("work", 4):
            guard let jobs = Int(arguments[2]), let lease = Double(arguments[3]) else { throw Usage() }
            try await work(store, jobs, lease)
        case ("fill", 3):
            guard let count = Int(arguments[2]) else { throw Usage() }
            try fill(store, count)
        case ("empty", 4):
            guard let batch = Int(arguments[2]), let count = Int(arguments[3]) else { throw Usage() }
            try empty(store, batch, count)
        case ("get", 5):
            guard let url = URL(string: arguments[2]), let count = Int(arguments[3]), let jobs = Int(arguments[4]) else {
                throw Usage()
            }
            try await get(store, url, count, jobs)
        default: throw Usage()
        }
    }

    /// Runs the given number of GET requests with one worker, and prints the seconds without enqueuing.
    private static func get(_ store: SharedQueueStore, _ url: URL, _ count: Int, _ jobs: Int) async throws {
        let queue = SharedQueue(store: store)
        for _ in 0..<max(1, count / 1000) {
            try await queue.enqueue((0..<min(count, 1000)).map { _ in SharedRequest(URLRequest(url: url)) })
        }
        var settings = SharedQueueWorker.Settings()
        settings.maximumConcurrentJobs = jobs
        let manager = HTTPRequestOperationManager(completionQueue: .global())
        let worker = SharedQueueWorker(queue: queue, manager: manager, settings: settings)
        let start = MonotonicClock.now
        async let running: Void = worker.run()
        while worker.statistics.succeeded + worker.statistics.failed < count { try await Task.sleep(for: .milliseconds(2)) }
        worker.stop()
        try await running
        say("\(Nanoseconds.seconds(from: start, to: MonotonicClock.now))")
    }

    /// Runs the given number of GET requests with the queue of one process.
    static func getLocally(_ directory: URL, _ url: URL, _ count: Int, _ jobs: Int) async throws {
        let manager = HTTPRequestOperationManager(completionQueue: .global())
        manager.operationQueue.maxConcurrentOperationCount = jobs
        let queue = try DownloadQueue(directory: directory, manager: manager)
        try await queue.enqueue((0..<count).map { _ in OutboxRequest(URLRequest(url: url)) })
        let start = MonotonicClock.now
        queue.start()
        try await queue.waitUntilAllFinished()
        say("\(Nanoseconds.seconds(from: start, to: MonotonicClock.now))")
        await queue.close()
    }

    /// Returns the store at a path or database address, with the schema specified by the environment.
    private static func store(_ text: String) throws -> SharedQueueStore {
        guard text.hasPrefix("postgresql:") else { return .sqlite(URL(fileURLWithPath: text)) }
        #if Postgres
        return .postgres(text, schema: ProcessInfo.processInfo.environment["CONVOY_SCHEMA"] ?? "convoy")
        #else
        throw Usage()
        #endif
    }

    private static func work(_ store: SharedQueueStore, _ jobs: Int, _ lease: Double) async throws {
        let queue = SharedQueue(store: store)
        var settings = SharedQueueWorker.Settings()
        (settings.maximumConcurrentJobs, settings.leaseDuration) = (jobs, lease)
        (settings.retryPolicy.initialDelay, settings.retryPolicy.maximumDelay) = (0.02, 0.5)
        settings.retryPolicy.maximumGateDuration = 0.2
        let manager = HTTPRequestOperationManager(completionQueue: .global())
        let worker = SharedQueueWorker(queue: queue, manager: manager, settings: settings)
        let source = DispatchSource.makeSignalSource(signal: SIGTERM)
        signal(SIGTERM, SIG_IGN)
        source.setEventHandler { worker.stop() }
        source.resume()
        say("working")
        try await worker.run()
        withExtendedLifetime(source) {}
        say("stopped")
    }

    /// Enqueues entries that are never sent.
    private static func fill(_ store: SharedQueueStore, _ count: Int) throws {
        let store = WorkStore(try store.open())
        var left = count
        while left > 0 {
            let items = (0..<min(left, 2000)).map { number in
                var item = WorkItem(id: UUID())
                (item.url, item.host) = ("http://host\(number % 10).example/", "host\(number % 10).example")
                return item
            }
            try store.enqueue(items)
            left -= items.count
        }
    }

    /// Claims and reports up to the given number of entries without running them, until no entry is ready.
    private static func empty(_ store: SharedQueueStore, _ batch: Int, _ limit: Int) throws {
        let store = WorkStore(try store.open()), worker = UUID()
        try store.register(worker, name: "empty", jobs: batch, lasting: 3_600_000_000)
        let start = MonotonicClock.now
        var count = 0
        while count < limit {
            let claimed = try store.claim(worker: worker, limit: batch, tags: nil).entries
            if claimed.isEmpty { break }
            _ = try store.report(
                claimed.map { WorkReport(id: $0.id, worker: worker, lease: $0.lease, end: .succeeded) })
            count += claimed.count
        }
        let seconds = Nanoseconds.seconds(from: start, to: MonotonicClock.now)
        say("\(count) \(seconds)")
    }
}
