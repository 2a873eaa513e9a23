import ConvoyOperations
import ConvoySession
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// The metrics of tasks.
@Suite struct MetricsHandlerTests {
    @Test func `metrics are reported before the end if requested`() async throws {
        let fixture = try SessionFixture()
        fixture.server.route("/text", .text("hello"))
        fixture.server.route("/there", .redirect(to: "/text"))
        let plain = fixture.manager.dataTask(with: fixture.request("/there"))
        let told = Locked<OperationMetrics?>(nil)
        fixture.manager.taskDidFinishCollectingMetricsHandler = { task, metrics in
            fixture.note("metrics")
            told.withLock { $0 = metrics }
        }
        fixture.manager.taskDidCompleteHandler = { _, _ in fixture.note("end") }
        let task = fixture.manager.dataTask(with: fixture.request("/there"))
        for task in [plain, task] {
            task.resume()
            try await task.finished()
            fixture.settle()
        }
        #expect(fixture.notes == ["end", "metrics", "end"])
        let metrics = try #require(told.withLock { $0 })
        #expect(plain.metrics == nil && task.metrics != nil)
        #expect(metrics.redirectCount == 1 && metrics.transactions.count == 2 && metrics.retryCount == 0)
    }

    @Test func `metrics include suspensions as waits, and the requests of a download's parts`() async throws {
        let fixture = try SessionFixture()
        fixture.manager.collectsMetrics = true
        let gate = TestServer.Gate()
        fixture.server.servePattern(count: 300_000, at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: 100_000) : response
        }
        let task = fixture.manager.downloadTask(with: fixture.request("/file"))
        task.resume()
        try await waitUntil("bytes") { task.countOfBytesReceived >= 100_000 }
        task.suspend()
        task.resume()
        // The first transfer has stopped when the remaining bytes are requested.
        try await waitUntil("the remaining bytes are requested") { fixture.server.requests.count == 2 }
        gate.open()
        try await task.finished()
        let metrics = try #require(task.metrics)
        #expect(metrics.transactions.count == 2)
        #expect(metrics.waits.contains { $0.reason == .pause }, "\(metrics.waits)")
    }
}
