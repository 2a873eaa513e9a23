import ConvoyOperations
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySharedQueue

/// The behaviour specific to PostgreSQL: schema versions, roles and lost connections.
@Suite(.enabled(if: StoreKind.hasPostgres, StoreKind.postgresReason)) struct PostgresStoreTests {
    private func server() throws -> PostgresServer { try #require(PostgresServer.shared) }

    @Test("a later version that adds columns and indexes does not affect this one, and an incompatible version is rejected")
    func versions() throws {
        let server = try server(), test = try TestStore(.postgres), store = try test.open()
        let item = WorkItem.plain()
        try store.enqueue([item])
        try server.run(
            """
            ALTER TABLE \(test.schema).entry ADD COLUMN later text NOT NULL DEFAULT 'x';
            CREATE INDEX ON \(test.schema).entry (later);
            CREATE TABLE \(test.schema).later (id uuid);
            UPDATE \(test.schema).version SET number = 7, minimum = 1
            """)
        // One store connected before the change, and the other connects now.
        for store in [store, try test.open()] {
            let worker = try store.worker(), next = WorkItem.plain()
            try store.enqueue([next])
            let claimed = try store.claim(worker: worker, limit: 9, tags: nil).entries
            #expect(!claimed.isEmpty)
            #expect(try store.report(claimed.map { WorkReport($0, by: worker, .succeeded) }).count == claimed.count)
        }
        #expect(try server.run("SELECT number FROM \(test.schema).version").hasPrefix("7"), "it is not taken back")
        try server.run("UPDATE \(test.schema).version SET minimum = 7")
        #expect { try test.open() } throws: { error in
            if case .newerVersion = error as? SharedQueueError { true } else { false }
        }
    }

    @Test("states and kinds unknown to this version are left unchanged and do not affect other entries")
    func unknownStates() throws {
        let server = try server(), test = try TestStore(.postgres), store = try test.open()
        let odd = WorkItem.plain(), fine = WorkItem.plain(), dependent = WorkItem.plain(needs: [odd.id])
        try store.enqueue([odd, fine, dependent])
        try server.run("UPDATE \(test.schema).entry SET state = 77 WHERE id = '\(odd.id.uuidString)'")
        let worker = try store.worker()
        #expect(try store.claim(worker: worker, limit: 9, tags: nil).entries.map(\.id) == [fine.id])
        #expect(try store.list(WorkFilter(), limit: 9).map(\.id) == [fine.id, dependent.id])
        #expect(try store.apply(.cancel, to: WorkFilter()) == 2)
        try store.maintain()
        let state = try server.run("SELECT state FROM \(test.schema).entry WHERE id = '\(odd.id.uuidString)'")
        #expect(state.hasPrefix("77"))
    }

    @Test("a role with the documented privileges can do everything except create the tables")
    func roles() throws {
        let server = try server(), test = try TestStore(.postgres), name = "r" + test.schema
        try server.run("CREATE ROLE \(name) LOGIN")
        defer { _ = try? server.run("DROP OWNED BY \(name); DROP ROLE \(name)") }
        let address = "postgresql://\(name)@127.0.0.1:\(server.port)/postgres"
        let poor = try StoreKind.postgres(address, schema: test.schema)
        func isDenied(_ error: any Error) -> Bool {
            if case .denied = error as? SharedQueueError { true } else { false }
        }
        #expect { _ = try poor.open() } throws: { isDenied($0) }
        let owner = try test.open()
        try owner.enqueue([.plain()])
        #expect { _ = try poor.open() } throws: { isDenied($0) }
        try server.run(
            """
            GRANT USAGE ON SCHEMA \(test.schema) TO \(name);
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \(test.schema) TO \(name);
            REVOKE INSERT, UPDATE, DELETE ON \(test.schema).version FROM \(name)
            """)
        let store = WorkStore(try poor.open())
        try store.enqueue([.plain { $0.standing.kept = 0 }])
        let worker = try store.worker()
        let claimed = try store.claim(worker: worker, limit: 9, tags: nil).entries
        #expect(claimed.count == 2)
        _ = try store.report(claimed.map { WorkReport($0, by: worker, .succeeded) })
        try store.setLimits(HostLimits(maximumConcurrentRequests: 1), host: "a")
        try store.setPaused(false)
        try store.maintain()
        #expect(try store.purge(WorkFilter(), olderThan: 0) == 1)
    }

    @Test("a schema of another program is left unchanged")
    func foreign() throws {
        let server = try server(), test = try TestStore(.postgres)
        try server.run("CREATE SCHEMA \(test.schema); CREATE TABLE \(test.schema).version (name text)")
        #expect(throws: SharedQueueError.self) { try test.open() }
        #expect(try server.run("SELECT count(*) FROM pg_tables WHERE schemaname = '\(test.schema)'").hasPrefix("1"))
        #expect(throws: SharedQueueError.self) { try StoreKind.postgres(server.address, schema: "a\"; DROP").open() }
    }

    @Test("processes that open an empty database concurrently create its tables once")
    func opening() async throws {
        let test = try TestStore(.postgres)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 { group.addTask { try test.open().enqueue([.plain()]) } }
            try await group.waitForAll()
        }
        #expect(try test.open().counts() == [.ready: 8])
    }

    @Test("a connection closed by the server is reestablished, and the call continues")
    func reconnection() async throws {
        let server = try server(), test = try TestStore(.postgres), queue = SharedQueue(store: test.store)
        _ = try await queue.counts()
        for _ in 0..<3 {
            try server.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'convoy' AND pid <> pg_backend_pid()"
            )
            #expect(try await queue.counts().isEmpty)
        }
    }

    @Test("the password in an address does not appear in names and errors")
    func secrets() throws {
        do {
            let store = try StoreKind.postgres("postgresql://ada:s3cret@127.0.0.1:1/jobs?connect_timeout=2")
            #expect(store.name == "postgresql://ada@127.0.0.1:1/jobs")
            #expect("\(store)" == store.name)
            _ = try store.open()
            Issue.record("no server listens there")
        } catch {
            #expect(!"\(error)".contains("s3cret"))
            #expect("\(error)".contains("cannot be reached"))
        }
        #expect { _ = try StoreKind.postgres("postgresql://ada:s3cret@[").open() } throws: { !"\($0)".contains("s3cret") }
    }

    @Test("an idle worker stops without waiting for an unavailable database", .timeLimit(.minutes(1)))
    func stop() async throws {
        let store = try StoreKind.postgres("postgresql://ada@127.0.0.1:1/jobs?connect_timeout=2")
        let manager = HTTPRequestOperationManager(baseURL: nil)
        let worker = SharedQueueWorker(queue: SharedQueue(store: store), manager: manager)
        worker.stop()
        try await worker.run()
        #expect(!worker.statistics.isConnected)
    }

    @Test("deadlocked transactions are retried, and nothing is lost")
    func deadlocks() async throws {
        let test = try TestStore(.postgres), store = try test.open()
        // Each entry depends on two of its predecessors, so that reports update the same dependents in many orders.
        var items: [WorkItem] = []
        for number in 0..<300 {
            let needed = number < 20 ? [] : Set([items[(number * 7) % number].id, items[(number * 13) % number].id])
            items.append(.plain(host: "h\(number % 5)", needs: needed) { $0.standing.policy = .run })
        }
        try store.enqueue(items)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<6 {
                group.addTask {
                    let store = try test.open(), worker = try store.worker()
                    var empty = 0
                    while empty < 20 {
                        let claimed = try store.claim(worker: worker, limit: 9, tags: nil).entries
                        empty = claimed.isEmpty ? empty + 1 : 0
                        if claimed.isEmpty { usleep(5000) }
                        let end: WorkReport.End = number.isMultiple(of: 2) ? .succeeded : .failed
                        _ = try store.report(claimed.shuffled().map { WorkReport($0, by: worker, end) })
                        if number == 0 { try store.maintain() }
                    }
                }
            }
            try await group.waitForAll()
        }
        let counts = try store.counts()
        let open = counts.keys.filter { !$0.isOver }
        #expect(open.isEmpty, "\(counts)")
        #expect(counts.values.reduce(0, +) == 300)
    }
}
