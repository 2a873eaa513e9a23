import ConvoyDownloads
import ConvoyOperations
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySharedQueue

/// A queue in PostgreSQL behind a connection pooler that changes the session with each transaction.
@Suite(
    .enabled(if: StoreKind.hasPostgres, StoreKind.postgresReason),
    .enabled(if: PgBouncer.isInstalled, "\(PgBouncer.installHint)"))
struct PoolerTests {
    @Test(arguments: ["transaction", "session"])
    func `a queue works behind a pooler, and leaves no settings in its sessions`(mode: String) async throws {
        let server = try #require(PostgresServer.shared), test = try TestStore(.postgres)
        let pooler = try PgBouncer(to: server, mode: mode, size: mode == "session" ? 20 : 2)
        defer { pooler.stop() }
        let web = try TestServer(), store = try StoreKind.postgres(pooler.address, schema: test.schema)
        web.route("POST", "/x", .text("ok").delayed(0.005))
        // The first processes create the tables concurrently.
        let queues = (0..<4).map { _ in SharedQueue(store: store) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for queue in queues {
                group.addTask {
                    for _ in 0..<20 {
                        var post = URLRequest(url: web.url("/x"))
                        post.httpMethod = "POST"
                        try await queue.enqueue(SharedRequest(OutboxRequest(post, body: .data(Data("x".utf8)))))
                    }
                }
            }
            try await group.waitForAll()
        }
        try await queues[0].setLimits(HostLimits(maximumConcurrentRequests: 3), host: "127.0.0.1:\(web.port)")
        let manager = HTTPRequestOperationManager(completionQueue: .global())
        let workers = queues.map { SharedQueueWorker(queue: $0, manager: manager) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in workers { group.addTask { try await worker.run() } }
            try await waitUntil("all to be done") { try await queues[1].counts() == [.done: 80] }
            // No notification arrives, but workers look for entries.
            try await queues[0].enqueue(SharedRequest(URLRequest(url: web.url("/get"))))
            web.route("GET", "/get", .text("ok"))
            try await waitUntil("the last") { try await queues[1].counts() == [.done: 81] }
            for worker in workers { worker.stop() }
            try await group.waitForAll()
        }
        #expect(web.requests("POST", "/x").count == 80)
        // Other programs get the same sessions.
        for _ in 0..<4 {
            let settings = try ProcessRunner.run(
                "psql",
                ["-X", "-A", "-t", "-c", "SHOW search_path", "-c", "SHOW enable_seqscan", "-c", "SHOW jit", pooler.address])
            #expect(settings.text == "\"$user\", public\non\non\n", "\(settings.text) \(settings.errorText)")
        }
    }

    @Test func `a pooler that splits transactions is refused with the reason`() throws {
        let server = try #require(PostgresServer.shared), test = try TestStore(.postgres)
        let pooler = try PgBouncer(to: server, mode: "statement")
        defer { pooler.stop() }
        let store = try StoreKind.postgres(pooler.address, schema: test.schema)
        #expect { _ = try store.open() } throws: { error in
            "\(error)".contains("pool") || "\(error)".contains("transaction")
        }
    }
}
