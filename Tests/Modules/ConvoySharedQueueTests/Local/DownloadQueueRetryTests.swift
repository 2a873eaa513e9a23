import ConvoyDownloads
import ConvoyOperations
import ConvoySharedQueue
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Retries of temporary failures by a queue, in this process and in the next one.
struct DownloadQueueRetryTests {
    private let fixture: QueueFixture

    init() throws {
        fixture = try QueueFixture()
        fixture.server.route("POST", "/post", .text("thanks"))
        fixture.server.serve(Data("file".utf8), at: "/file", etag: "\"1\"")
    }

    /// Returns a policy with the given number of retries and a constant delay.
    private func policy(_ count: Int, delay: TimeInterval) -> RetryPolicy {
        var policy = RetryPolicy(maximumRetryCount: count)
        // After a 503, the actual delay is at least half of this value.
        (policy.initialDelay, policy.maximumDelay, policy.multiplier) = (delay, delay, 1)
        policy.maximumGateDuration = 0
        return policy
    }

    /// Makes the path respond with a 503 while the switch is off.
    private func breakServer() -> Switch {
        let isWhole = Switch()
        fixture.server.route("GET", "/file") { _ in isWhole.isOn.withLock { $0 } ? .text("file") : .status(503) }
        return isWhole
    }

    private final class Switch: Sendable {
        let isOn = Locked(false)
        func turnOn() { isOn.withLock { $0 = true } }
    }

    @Test func `a temporary server failure fails neither a download nor its dependent request`() async throws {
        let isWhole = breakServer()
        let queue = try fixture.open(retryPolicy: policy(1000, delay: 0.02))
        let download = fixture.download()
        var post = fixture.post()
        post.dependencies = [download.id]
        try await queue.enqueue([download, post])
        queue.start()
        try await waitUntil("three attempts") { queue.entry(download.id).map { $0.attempts >= 3 } ?? false }
        #expect(queue.entry(post.id)?.state == .waiting)
        isWhole.turnOn()
        try await queue.waitUntilAllFinished()
        #expect(queue.states == [.finished, .finished])
        #expect(queue.entries[0].nextAttemptAt == nil)
        #expect(queue.entries[0].errorDescription == nil)
        #expect(fixture.contents("file.bin") == Data("file".utf8))
    }

    @Test func `the next process keeps the time of the next attempt and the attempt count`() async throws {
        let isWhole = breakServer()
        let queue = try fixture.open(retryPolicy: policy(2, delay: 3000))
        let download = fixture.download()
        try await queue.enqueue(download)
        queue.start()
        try await waitUntil("a wait") { queue.entry(download.id)?.nextAttemptAt != nil }
        let next = try #require(queue.entry(download.id)?.nextAttemptAt)
        #expect(next.timeIntervalSinceNow > 1000)
        #expect(queue.entry(download.id)?.statusCode == 503)
        try await queue.waitFor(.waiting, of: download.id)
        try await queue.flush()
        let killed = try fixture.openAsAfterKill(retryPolicy: policy(2, delay: 3000))
        await queue.close()
        var attempts = 1
        for restored in [killed, try fixture.open(retryPolicy: policy(2, delay: 0.01))] {
            restored.start()
            let entry = try #require(restored.entry(download.id))
            #expect(entry.nextAttemptAt == next)
            #expect((entry.state, entry.attempts) == (.waiting, 1))
            // The entry can be retried before its time. The policy has one retry left for it.
            try restored.retry(download.id)
            attempts += 1
            try await waitUntil("another attempt") { [attempts] in fixture.server.requests.count >= attempts }
            await restored.close()
        }
        isWhole.turnOn()
        let last = try fixture.open(retryPolicy: policy(5, delay: 0.01))
        last.start()
        if last.entry(download.id)?.state == .failed { try last.retry(download.id) }
        try await last.waitUntilAllFinished()
        #expect(last.states == [.finished])
    }

    @Test func `a permanent failure is reported, stored and can be retried`() async throws {
        let isWhole = breakServer()
        let queue = try fixture.open(retryPolicy: policy(2, delay: 0.01))
        let download = fixture.download()
        var post = fixture.post()
        post.dependencies = [download.id]
        try await queue.enqueue([download, post])
        let updates = queue.updates
        queue.start()
        for await entry in updates where entry.state == .failed {
            #expect(entry.attempts == 3)
            break
        }
        #expect(queue.states == [.failed, .blocked])
        #expect(fixture.server.requests.count == 3)
        await queue.close()
        let next = try fixture.open(retryPolicy: policy(2, delay: 0.01))
        next.start()
        #expect(next.states == [.failed, .blocked])
        isWhole.turnOn()
        try next.retry(download.id)
        try await next.waitUntilAllFinished()
        #expect(next.states == [.finished, .finished])
    }

    @Test func `a manual retry ends the wait for the next attempt`() async throws {
        let isWhole = breakServer()
        let queue = try fixture.open(retryPolicy: policy(2, delay: 3000))
        let download = fixture.download()
        try await queue.enqueue(download)
        queue.start()
        try await waitUntil("a wait") {
            queue.entry(download.id)?.nextAttemptAt != nil && queue.entry(download.id)?.state == .waiting
        }
        isWhole.turnOn()
        try queue.retry(download.id)
        try await queue.waitUntilAllFinished()
        #expect(queue.states == [.finished])
    }

    @Test func `a request that must not be sent twice is retried only if nothing was sent`() async throws {
        let queue = try fixture.open(retryPolicy: policy(1000, delay: 3000))
        fixture.server.route("POST", "/broken", .status(503))
        var refused = fixture.post("/post"), answered = fixture.post("/broken")
        (refused.sendsAgainWhenUnknown, answered.sendsAgainWhenUnknown) = (false, false)
        refused.request.url = URL(string: "http://127.0.0.1:1/post")
        try await queue.enqueue([refused, answered])
        queue.start()
        try await queue.waitFor(.failed, of: answered.id)
        try await waitUntil("a wait") { queue.entry(refused.id)?.nextAttemptAt != nil }
        try await queue.flush()
        // Nothing was sent, and the queue has stored this for the next process.
        let next = try fixture.openAsAfterKill(retryPolicy: policy(1000, delay: 3000))
        #expect(next.states == [.waiting, .failed])
    }
}
