import ConvoySharedQueue
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTool

#if Postgres
import ConvoyPostgres
#endif

/// A separate store for a test, in the form given to the tool, with a server and a directory.
final class QueueGround: Sendable {
    enum Store: String, Sendable, CustomTestStringConvertible {
        case sqlite, postgres

        /// The stores that are available on this machine.
        static let available: [Store] = {
            #if Postgres
            if PostgresServer.shared != nil { return [.sqlite, .postgres] }
            #endif
            return [.sqlite]
        }()

        var testDescription: String { rawValue }
    }

    let bench: Workbench
    /// The options that select the store.
    let arguments: [String]
    let queue: SharedQueue
    private let schema: String?

    init(_ store: Store = .sqlite) throws {
        bench = try Workbench()
        #if Postgres
        if store == .postgres {
            let server = try #require(PostgresServer.shared)
            let name = "t" + UUID().uuidString.replacing("-", with: "").lowercased()
            schema = name
            arguments = ["--store", server.address, "--schema", name]
            queue = SharedQueue(store: .postgres(server.address, schema: name))
            return
        }
        #endif
        schema = nil
        arguments = ["--store", "queue.sqlite"]
        queue = SharedQueue(store: .sqlite(bench.scratch.url.appendingPathComponent("queue.sqlite")))
    }

    deinit {
        #if Postgres
        if let schema {
            _ = try? PostgresServer.shared?.run("SET client_min_messages = error; DROP SCHEMA IF EXISTS \(schema) CASCADE")
        }
        #endif
    }

    func queue(_ action: String, _ arguments: String...) async throws -> ToolProcess.Result {
        try await ToolProcess.run(["queue", action] + self.arguments + arguments, in: bench.scratch.url)
    }

    func work(_ arguments: String...) async throws -> ToolProcess.Result {
        try await ToolProcess.run(["work"] + self.arguments + arguments, in: bench.scratch.url)
    }

    func start(_ words: String...) throws -> ToolProcess {
        try ToolProcess([words[0]] + words.dropFirst() + arguments, in: bench.scratch.url)
    }

    /// Adds a request, and returns the id of its entry.
    func add(_ arguments: String...) async throws -> UUID {
        let result = try await ToolProcess.run(["queue", "add"] + self.arguments + arguments, in: bench.scratch.url)
        #expect(result.status == 0 && result.outputLines.count == 1, "\(result.errors)")
        return try #require(result.outputLines.first.flatMap { UUID(uuidString: $0) })
    }

    /// Adds requests that no server answers, without using the tool.
    func fill(_ count: Int, tag: String? = nil, path: String = "/none") async throws {
        let requests = (0..<count).map { number in
            var request = SharedRequest(URLRequest(url: bench.server.url("\(path)/\(number)")))
            request.tag = tag
            request.maximumAttempts = 1
            return request
        }
        for start in stride(from: 0, to: count, by: 1000) {
            try await queue.enqueue(Array(requests[start..<min(start + 1000, count)]))
        }
    }
}
