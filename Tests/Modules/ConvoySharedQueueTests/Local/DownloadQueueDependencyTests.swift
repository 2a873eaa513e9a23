import ConvoyDownloads
import ConvoyOperations
import ConvoySharedQueue
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

struct DownloadQueueDependencyTests {
    private let fixture: QueueFixture

    init() throws {
        fixture = try QueueFixture()
        fixture.server.route("POST", "/post", .text("thanks"))
        fixture.server.route("POST", "/broken", .status(500))
    }

    private func pair(_ policy: FailedDependencyPolicy) -> (first: OutboxRequest, second: OutboxRequest) {
        let first = fixture.post("/broken", "first")
        var second = fixture.post("/post", "second")
        second.dependencies = [first.id]
        second.failedDependencyPolicy = policy
        return (first, second)
    }

    @Test func `a chain of dependencies runs in order`() async throws {
        let queue = try fixture.open()
        queue.start()
        var requests: [OutboxRequest] = []
        for index in 0..<30 {
            var request = fixture.post("/post", "\(index)")
            request.dependencies = Set(requests.suffix(2).map(\.id))
            requests.append(request)
        }
        // The first entries in the list may depend on later ones.
        try await queue.enqueue(requests.reversed())
        try await queue.waitUntilAllFinished()
        #expect(fixture.server.requests("/post").map(\.text) == (0..<30).map { "\($0)" })
    }

    @Test func `an entry is blocked until its failed dependency succeeds`() async throws {
        let queue = try fixture.open()
        queue.start()
        let (first, second) = pair(.hold)
        try await queue.enqueue([first, second])
        try await queue.waitUntilAllFinished()
        #expect(queue.states == [.failed, .blocked])
        fixture.server.route("POST", "/broken", .text("ok"))
        try queue.retry(first.id)
        try await queue.waitUntilAllFinished()
        #expect(queue.states == [.finished, .finished])
        #expect(fixture.server.requests.map(\.text) == ["first", "first", "second"])
    }

    @Test func `a blocked entry runs without its dependency when it is retried`() async throws {
        let queue = try fixture.open()
        queue.start()
        let (first, second) = pair(.hold)
        try await queue.enqueue([first, second])
        try await queue.waitUntilAllFinished()
        try queue.retry(second.id)
        try await queue.waitUntilAllFinished()
        #expect(queue.states == [.failed, .finished])
        await queue.close()
        #expect(try fixture.open().entries.map(\.dependencies) == [[], []])
    }

    @Test func `an entry can be retried as soon as its failure is reported`() async throws {
        for _ in 0..<20 {
            let queue = try fixture.open()
            queue.start()
            let (first, second) = pair(.fail)
            let updates = queue.updates
            try await queue.enqueue([first, second])
            for await entry in updates where entry.id == second.id && entry.state == .failed {
                try queue.retry(second.id)
                break
            }
            try await queue.waitUntilAllFinished()
            #expect(queue.states == [.failed, .finished])
            for id in [first.id, second.id] { try queue.cancel(id) }
            await queue.close()
        }
    }

    @Test func `an entry can run despite a failed dependency`() async throws {
        let queue = try fixture.open()
        queue.start()
        let (first, second) = pair(.run)
        try await queue.enqueue([first, second])
        try await queue.waitUntilAllFinished()
        #expect(queue.states == [.failed, .finished])
    }

    @Test func `an entry can be set to fail with its dependency, and its own dependents then fail too`() async throws {
        let queue = try fixture.open()
        queue.start()
        let (first, second) = pair(.fail)
        var third = fixture.post()
        third.dependencies = [second.id]
        third.failedDependencyPolicy = .fail
        let operations = try await queue.enqueue([first, second, third])
        try await queue.waitUntilAllFinished()
        #expect(queue.states == [.failed, .failed, .failed])
        for (operation, id) in [(operations[1], second.id), (operations[2], third.id)] {
            try? await operation.finished()
            #expect(operation.cancellationReason as? DownloadQueueError == .dependencyFailed(id))
        }
        #expect(fixture.server.requests.map(\.text) == ["first"])
        // The failures of the dependents are stored, regardless of a later result of the first entry.
        queue.pause()
        try queue.retry(first.id)
        await queue.close()
        #expect(try fixture.open().states == [.waiting, .failed, .failed])
    }

    @Test func `a cancelled dependency also counts as failed in the next process`() async throws {
        let queue = try fixture.open()
        let (first, second) = pair(.hold)
        try await queue.enqueue([first, second])
        try queue.cancel(first.id)
        #expect(queue.states == [.blocked])
        await queue.close()
        let next = try fixture.open()
        next.start()
        #expect(next.states == [.blocked])
        try next.retry(second.id)
        try await next.waitUntilAllFinished()
        #expect(next.states == [.finished])
    }

    @Test func `a removed finished dependency does not block its dependents`() async throws {
        let queue = try fixture.open()
        queue.start()
        let first = fixture.post("/post", "first")
        var second = fixture.post("/post", "second")
        second.dependencies = [first.id]
        try await queue.enqueue([first])
        try await queue.waitUntilAllFinished()
        try await queue.enqueue([second])
        try queue.pause(second.id)
        queue.removeFinished()
        await queue.close()
        let next = try fixture.open()
        #expect(next.entries.map(\.id).contains(second.id) == (next.entries.count == 1))
        next.start()
        try? next.resume(second.id)
        try await next.waitUntilAllFinished()
        #expect(next.states.allSatisfy { $0 == .finished })
    }

    @Test func `dependency cycles and unknown dependencies are rejected`() async throws {
        let queue = try fixture.open()
        var (a, b, c) = (fixture.post(), fixture.post(), fixture.post())
        a.dependencies = [c.id]
        b.dependencies = [a.id]
        c.dependencies = [b.id]
        await #expect {
            try await queue.enqueue([a, b, c, fixture.post()])
        } throws: { error in
            if case .dependencyCycle(let id)? = error as? DownloadQueueError {
                [a.id, b.id, c.id].contains(id)
            } else {
                false
            }
        }
        a.dependencies = [a.id]
        await #expect(throws: DownloadQueueError.dependencyCycle(a.id)) { try await queue.enqueue(a) }
        let stranger = UUID()
        a.dependencies = [stranger]
        await #expect(throws: DownloadQueueError.unknownDependency(stranger, of: a.id)) { try await queue.enqueue(a) }
        a.dependencies = []
        await #expect(throws: DownloadQueueError.duplicate(a.id)) { try await queue.enqueue([a, a]) }
        try await queue.enqueue(a)
        await #expect(throws: DownloadQueueError.duplicate(a.id)) { try await queue.enqueue(a) }
        #expect(queue.entries.count == 1)
        // Rejected requests leave no bodies.
        #expect(fixture.bodies.count == 1)
    }
}
