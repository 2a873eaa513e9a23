import ConvoyDatabase
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySharedQueue

#if Postgres
@testable import ConvoyPostgres
#endif

/// Tables that an earlier version has created.
@Suite struct MigrationTests {
    /// The columns of an entry in the first version.
    private static let entry = """
        INSERT INTO entry (id, state, kind, host, tag, lane, place, due, open, failed, policy, forgiven, priority, attempts,
            attempt_limit, sends_again, lease, changed, enqueued, begun, expires)
        VALUES ('%ID%', %STATE%, 2, 'a', '', '\u{1F}a', 0, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, 0, 0, %EXPIRES%);
        INSERT INTO request (id, method, url, payload) VALUES ('%ID%', 'GET', 'http://a/', '{}');
        """

    /// - Parameter version: The version of the tables. Up to the third, failed entries expire.
    private func statements(_ ids: [UUID], _ version: Int) -> String {
        zip(ids, ["2", "6"]).map { id, state in
            Self.entry.replacing("%ID%", with: id.uuidString.lowercased()).replacing("%STATE%", with: state)
                .replacing("%EXPIRES%", with: state == "6" && version < 4 ? "5" : "NULL")
        }.joined(separator: "\n")
    }

    /// Uses every table, and checks the entries of the earlier version: one that is ready, and one that has failed.
    private func check(_ store: WorkStore, _ ids: [UUID]) throws {
        let worker = try store.worker()
        #expect(try store.search("HTTP://A", WorkFilter(), limit: 9).records.map(\.id) == ids.reversed())
        let claimed = try store.claim(worker: worker, limit: 9, tags: nil).entries
        #expect(claimed.map(\.id) == [ids[0]])
        #expect(try store.report(claimed.map { WorkReport($0, by: worker, .succeeded) }) == [ids[0]: .done])
        try store.maintain()
        #expect(try store.state(ids[1]) == .failed, "failed entries do not expire")
        var durations = HostDurations()
        durations.add(1, host: "a")
        try store.record(durations)
        #expect(try store.durations() == durations)
        try store.setLimits(HostLimits(maximumConcurrentRequests: 1), host: "a")
        #expect(try store.database.query("SELECT count(*) FROM schedule", []).first?.integer(0) == 0)
    }

    @Test(arguments: 1..<5) func `a file of an earlier version is migrated`(version: Int) throws {
        let directory = try TemporaryDirectory(prefix: "convoy-shared"), path = directory.file("queue").path
        let schema = SQLiteWorkDatabase.schema, ids = [UUID(), UUID()]
        do {
            let old = DatabaseSchema(applicationID: schema.applicationID, steps: Array(schema.steps.prefix(version)))
            try Database(path: path, schema: old, busyTimeout: 1).execute(statements(ids, version))
        }
        try check(WorkStore(try SQLiteWorkDatabase(path: path)), ids)
        try check(WorkStore(try SQLiteWorkDatabase(path: path)), reset(ids, path))
    }

    /// Makes the entries as they were.
    private func reset(_ ids: [UUID], _ path: String) throws -> [UUID] {
        let database = try SQLiteWorkDatabase(path: path)
        _ = try database.query("DELETE FROM duration", [])
        _ = try database.query("UPDATE entry SET state = 2, expires = NULL WHERE id = $1", [.id(ids[0])])
        return ids
    }

    #if Postgres
    @Test(.enabled(if: StoreKind.hasPostgres, StoreKind.postgresReason), arguments: 1..<PostgresSchema.steps.count)
    func `a database of an earlier version is migrated, and roles keep their privileges`(version: Int) throws {
        let server = try #require(PostgresServer.shared), test = try TestStore(.postgres), name = "r" + test.schema
        let ids = [UUID(), UUID()], steps = PostgresSchema.steps.prefix(version).map(\.sql).joined(separator: "\n;")
        try server.run(
            """
            CREATE ROLE \(name) LOGIN;
            CREATE SCHEMA \(test.schema);
            SET search_path TO \(test.schema);
            CREATE TABLE version (number integer NOT NULL, minimum integer NOT NULL);
            INSERT INTO version VALUES (\(version), 1);
            \(steps);
            \(statements(ids, version))
            GRANT USAGE ON SCHEMA \(test.schema) TO \(name), PUBLIC;
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \(test.schema) TO \(name);
            GRANT SELECT ON entry TO PUBLIC;
            """)
        defer { _ = try? server.run("DROP OWNED BY \(name); DROP ROLE \(name)") }
        let poor = try StoreKind.postgres("postgresql://\(name)@127.0.0.1:\(server.port)/postgres", schema: test.schema)
        // This role may not create the new tables.
        #expect { _ = try poor.open() } throws: { error in
            if case .denied = error as? SharedQueueError { true } else { false }
        }
        _ = try test.open()
        try check(WorkStore(try poor.open()), ids)
        #expect(try server.run("SELECT number FROM \(test.schema).version") == "\(PostgresSchema.steps.count)\n")
        for table in ["duration", "schedule"] {
            let all = try server.run(
                """
                SELECT string_agg(privilege_type, ' ' ORDER BY privilege_type) FROM information_schema.table_privileges
                WHERE table_schema = '\(test.schema)' AND table_name = '\(table)' AND grantee = '\(name)'
                """)
            #expect(all == "DELETE INSERT SELECT UPDATE\n", "\(table): \(all)")
        }
    }
    #endif
}
