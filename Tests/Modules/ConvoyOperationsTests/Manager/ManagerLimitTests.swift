import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The default limits of a manager.
@Suite struct ManagerLimitTests {
    @Test func `a burst of thousands of requests to one host uses only a few connections and succeeds`() async throws {
        let server = try TestServer()
        server.route("GET", "/x", .json(text: "7").delayed(0.001))
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        let sum = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<3_000 { group.addTask { try await manager.get("x") } }
            return try await group.reduce(0, +)
        }
        #expect(sum == 21_000)
        #expect(server.peakActiveRequestCount <= HTTPRequestOperationManager.defaultMaxConcurrentOperationCountPerHost)
    }

    @Test func `the limits apply per host and overall`() throws {
        let servers = try (0..<6).map { _ in try TestServer() }
        let manager = HTTPRequestOperationManager()
        for server in servers { server.route("GET", "/x", .text("never").failing(.stallBeforeHead)) }
        let operations = try servers.map { server in
            try (0..<100).map { _ in try manager.makeOperation(.get, server.url("/x").absoluteString) }
        }
        manager.enqueue(operations[0])
        #expect(operations[0].filter(\.isExecuting).count == 64)
        manager.enqueue(operations.dropFirst().flatMap { $0 })
        #expect(operations.joined().filter(\.isExecuting).count == 256)
        #expect(operations.allSatisfy { $0.filter(\.isExecuting).count <= 64 })
        manager.operationQueue.cancelAllOperations()
        #expect(drains(manager.operationQueue))
    }

    @Test func `a manually created queue has no limits`() {
        let queue = RequestOperationQueue()
        #expect(queue.maxConcurrentOperationCount == OperationQueue.defaultMaxConcurrentOperationCount)
        #expect(queue.maxConcurrentOperationCountPerHost == .max)
    }
}
