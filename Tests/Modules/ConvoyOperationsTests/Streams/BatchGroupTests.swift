import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations
@testable import ConvoySerialization

/// Batches that return their members in the order in which they finish.
@Suite(.timeLimit(.minutes(2))) struct BatchGroupTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
    }

    struct Stop: Error {}

    private func operations(_ paths: [String]) throws -> [HTTPRequestOperation] {
        try paths.map { try manager.makeOperation(.get, $0) }
    }

    @Test func `members arrive in the order in which they finish, including failed ones`() async throws {
        let gate = TestServer.Gate()
        server.route("GET", "/slow", .text("slow").held(by: gate))
        server.route("GET", "/quick", .text("quick"))
        let members = try operations(["slow", "quick", "missing"])
        let paths = try await manager.withBatch(of: members + members) { finished in
            var paths: [String] = []
            for await member in finished {
                paths.append(member.request.url?.lastPathComponent ?? "")
                #expect(member.isFinished && (member.error != nil) == (paths.last == "missing"))
                if paths.count == 2 { gate.open() }
            }
            return paths
        }
        #expect(paths.last == "slow" && Set(paths) == ["slow", "quick", "missing"] && paths.count == 3)
    }

    @Test(arguments: [true, false])
    func `leaving the loop cancels the remaining members and waits for them`(throwing: Bool) async throws {
        server.route("GET", "/quick", .text("quick"))
        server.route("GET", "/never", .text("never").stalls(afterBytes: 1))
        let members = try operations(["never", "quick", "never"])
        if throwing {
            await #expect(throws: Stop.self) {
                try await manager.withBatch(of: members) { finished in
                    for await _ in finished { throw Stop() }
                }
            }
        } else {
            let first = try await manager.withBatch(of: members) { finished in await finished.first { _ in true } }
            #expect(first?.responseString == "quick")
        }
        #expect(members.allSatisfy { $0.isFinished })
        #expect(members.map { $0.isCancelled } == [true, false, true])
    }

    @Test func `cancelling the task cancels the members and throws`() async throws {
        server.route("GET", "/never", .text("never").stalls(afterBytes: 1))
        let members = try operations(["never", "never"])
        let manager = manager
        let task = Task {
            try await manager.withBatch(of: members) { finished in
                var count = 0
                for await _ in finished { count += 1 }
                return count
            }
        }
        try await waitUntil("the requests") { server.requests.count == 2 }
        task.cancel()
        let error = await #expect(throws: URLError.self) { _ = try await task.value }
        #expect(error?.code == .cancelled)
        #expect(members.allSatisfy { $0.isFinished && $0.isCancelled })
    }

    @Test func `an empty batch ends immediately`() async throws {
        let count = try await manager.withBatch(of: [HTTPRequestOperation]()) { finished in
            await finished.reduce(0) { count, _ in count + 1 }
        }
        #expect(count == 0)
    }
}
