import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySharedQueue

#if Postgres
import ConvoyPostgres
#endif

/// The stores that must pass the suite.
enum StoreKind: String, CaseIterable, CustomTestStringConvertible {
    case sqlite, postgres

    /// Whether PostgreSQL is available.
    static let hasPostgres: Bool = {
        #if Postgres
        return PostgresServer.shared != nil
        #else
        return false
        #endif
    }()
    static let postgresReason: Comment =
        "needs the trait Postgres, and PostgreSQL. Debian, Ubuntu: apt-get install postgresql libpq-dev"

    /// The available stores. The name of the test in `StoresTests` shows whether PostgreSQL is missing.
    static let available: [StoreKind] = hasPostgres ? allCases : [.sqlite]

    /// Creates a store in a PostgreSQL database.
    static func postgres(_ address: String, schema: String = "convoy") throws -> SharedQueueStore {
        #if Postgres
        return .postgres(address, schema: schema)
        #else
        throw ProcessError.notInstalled("\(postgresReason)")
        #endif
    }

    var testDescription: String { rawValue }
}

@Suite struct StoresTests {
    @Test("PostgreSQL passes the same suite as SQLite", .enabled(if: StoreKind.hasPostgres, StoreKind.postgresReason))
    func both() { #expect(StoreKind.available == StoreKind.allCases) }
}

/// A store for one test.
final class TestStore: Sendable {
    let store: SharedQueueStore
    let directory: TemporaryDirectory
    /// The schema in PostgreSQL.
    let schema: String

    init(_ kind: StoreKind) throws {
        directory = try TemporaryDirectory(prefix: "convoy-shared")
        schema = "t" + UUID().uuidString.replacingOccurrences(of: "-", with: "").lowercased()
        switch kind {
        case .sqlite: store = .sqlite(directory.file("queue.sqlite"))
        case .postgres:
            guard let server = PostgresServer.shared else { throw ProcessError.notInstalled(PostgresServer.installHint) }
            store = try StoreKind.postgres(server.address, schema: schema)
        }
    }

    /// Opens a separate connection.
    func open() throws -> WorkStore { WorkStore(try store.open()) }

    deinit {
        guard store.name.hasPrefix("postgresql") else { return }
        _ = try? PostgresServer.shared?.run("SET client_min_messages = error; DROP SCHEMA IF EXISTS \(schema) CASCADE")
    }
}

extension WorkItem {
    /// Creates a plain entry.
    static func plain(
        host: String = "example.com", tag: String = "", needs dependencies: Set<UUID> = [],
        _ change: (inout WorkItem) -> Void = { _ in }
    ) -> WorkItem {
        var item = WorkItem(id: UUID())
        (item.host, item.tag, item.dependencies, item.url) = (host, tag, dependencies, "http://\(host)/")
        item.standing.maximumAttempts = 3
        change(&item)
        return item
    }
}

extension WorkStore {
    /// Returns the standing of an entry.
    func standing(_ id: UUID) throws -> WorkStanding? {
        var filter = WorkFilter()
        filter.ids = [id]
        return try list(filter, limit: 1).first?.standing
    }

    func state(_ id: UUID) throws -> WorkState? { try standing(id)?.state }

    /// Registers a worker.
    func worker(lasting: Int64 = 60_000_000) throws -> UUID {
        let worker = UUID()
        try register(worker, name: "test", jobs: 1, lasting: lasting)
        return worker
    }
}

extension WorkReport {
    init(_ work: ClaimedWork, by worker: UUID, _ end: End) {
        self.init(id: work.id, worker: worker, lease: work.lease, end: end)
    }
}
