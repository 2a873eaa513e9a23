import ConvoyOperations
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySharedQueue

/// Rows of a shared queue with extreme numbers, from damage or another program. A number that stops one worker would
/// also stop the next one.
@Suite struct SharedQueueNumberTests {
    private let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("GET", "/good", .text("fine"))
        server.route("GET", "/missing", .status(404))
    }

    private static let columns: [(table: String, columns: [String])] = [
        (
            "entry",
            [
                "state", "kind", "place", "due", "deadline", "open", "failed", "policy", "forgiven", "priority", "attempts",
                "attempt_limit", "sends_again", "lease", "status", "size", "kept", "expires", "changed", "enqueued", "begun",
            ]
        ),
        ("host", ["is_own", "jobs", "rate", "retry_share", "tokens", "refilled", "gate", "retries"]),
        ("worker", ["jobs", "since", "seen", "until"]),
    ]
    private static let numbers = ["\(Int64.min)", "\(Int64.max)"]

    @Test(arguments: StoreKind.available) func `extreme numbers in the database do not block other entries`(
        _ kind: StoreKind
    ) async throws {
        let test = try TestStore(kind), queue = SharedQueue(store: test.store), store = try test.open()
        var settings = SharedQueueWorker.Settings()
        settings.retryPolicy.initialDelay = 0.001
        let worker = SharedQueueWorker(queue: queue, manager: HTTPRequestOperationManager(), settings: settings)
        async let running: Void = worker.run()
        // The host of the changed entry has limits and a row.
        var other = try #require(URLComponents(url: server.url("/changed"), resolvingAgainstBaseURL: false))
        other.host = "localhost"
        let host = "localhost:\(server.port)"
        let limits = HostLimits(maximumConcurrentRequests: 5, requestsPerSecond: 1000, retryShare: 1)
        for (table, columns) in Self.columns {
            for change in columns.flatMap({ column in Self.numbers.map { "\(column) = \($0)" } }) {
                server.route("GET", "/changed", inTurn: [.status(503), .text("fine")])
                try await queue.setLimits(limits, host: host)
                try await queue.pause()
                // The failure of this entry is counted in its dependent.
                let missing = try await queue.enqueue(SharedRequest(URLRequest(url: server.url("/missing"))))
                var request = SharedRequest(URLRequest(url: try #require(other.url)))
                (request.dependencies, request.failedDependencyPolicy) = ([missing], .run)
                let changed = try await queue.enqueue(request)
                let isEntry = table == "entry"
                // Some numbers are too large for PostgreSQL's columns.
                _ = try? store.database.query(
                    "UPDATE \(table) SET \(change)\(isEntry ? " WHERE id = $1" : "")", isEntry ? [.id(changed)] : [])
                let good = try await queue.enqueue(SharedRequest(URLRequest(url: server.url("/good"))))
                try await queue.resume()
                try await waitUntil("the next entry after \(table) \(change)") { try await queue.entry(good).state == .done }
                // Call everything that users can call.
                _ = (try await queue.entries(), try await queue.counts(), try await queue.hosts(), try await queue.workers())
                let only = SharedQueue.Filter(id: changed)
                try await queue.openGate(host: host)
                try await queue.setLimits(limits, host: host)
                try await waitUntil("nothing to be left to do after \(table) \(change)") {
                    let counts = try await queue.counts()
                    return counts[.ready] == nil && counts[.leased] == nil
                }
                _ = try await queue.pause(only)
                _ = try await queue.resume(only)
                _ = try await queue.cancel(only)
                _ = try await queue.retry(only)
                _ = try await queue.cancel(only)
                _ = try await queue.purge(only)
                _ = try store.database.query("DELETE FROM entry WHERE id = $1", [.id(changed)])
            }
        }
        worker.stop()
        try await running
    }
}
