import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySharedQueue

#if Postgres
import ConvoyPostgres
#endif

/// The stores that pass one suite.
enum StoreKind: String, CaseIterable, CustomTestStringConvertible {
    case sqlite, postgres

    /// Those that are there; each test says by its arguments which ones it has run with.
    static let available: [StoreKind] = {
        #if Postgres
        if PostgresServer.shared != nil { return allCases }
        #endif
        return [.sqlite]
    }()

    var testDescription: String { rawValue }
}

/// A store of a test's own.
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
            #if Postgres
            guard let server = PostgresServer.shared else { throw ProcessError.notInstalled(PostgresServer.installHint) }
            store = .postgres(server.address, schema: schema)
            #else
            throw ProcessError.notInstalled(PostgresServer.installHint)
            #endif
        }
    }

    /// A connection of its own.
    func open() throws -> WorkStore { WorkStore(try store.open()) }

    deinit {
        #if Postgres
        if case let server? = PostgresServer.shared, store.name.hasPrefix("postgresql") {
            _ = try? server.run("SET client_min_messages = error; DROP SCHEMA IF EXISTS \(schema) CASCADE")
        }
        #endif
    }
}

extension WorkItem {
    /// A plain entry of a test.
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
    /// The standing of an entry.
    func standing(_ id: UUID) throws -> WorkStanding? {
        var filter = WorkFilter()
        filter.ids = [id]
        return try list(filter, limit: 1).first?.standing
    }

    func state(_ id: UUID) throws -> WorkState? { try standing(id)?.state }

    /// A worker that is registered.
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
