import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Log messages about operations.
@Suite struct EventLogTests {
    private struct Line: Sendable {
        let level: EventLogLevel
        let message: String
        let metadata: [String: String]
    }

    private func log(at level: EventLogLevel, _ path: String) async throws -> [Line] {
        let bench = try MetricsBench()
        bench.server.route("/moved") { _ in .redirect(to: "/quick?token=hidden", status: 302) }
        let lines = Locked<[Line]>([])
        let monitor = EventMonitor.logging(at: level) { level, message, metadata in
            lines.withLock { $0.append(Line(level: level, message: message, metadata: metadata)) }
        }
        bench.manager.eventMonitors = [monitor]
        let operation = try bench.operation(path)
        bench.manager.enqueue(operation)
        try? await operation.finished()
        await withCheckedContinuation { done in monitor.whenCaughtUp { done.resume() } }
        return lines.withLock { $0 }
    }

    @Test func `a success is logged as one line at info level`() async throws {
        let lines = try await log(at: .info, "quick")
        #expect(lines.map(\.level) == [.info])
        let message = try #require(lines.first?.message)
        let line = /GET http:\/\/127\.0\.0\.1:\d+\/quick: 200, \d+ bytes, \d\.\d{3} s/
        #expect(message.wholeMatch(of: line) != nil, "\(message)")
    }

    @Test func `a failure is logged as an error with its reason`() async throws {
        let lines = try await log(at: .info, "missing")
        #expect(lines.map(\.level) == [.error])
        #expect(lines.first?.metadata["error"]?.contains("404") == true)
        #expect(lines.first?.message.contains("/missing: ") == true && lines.first?.message.contains("404") == true)
    }

    @Test func `a retry decision is one line with its URL, without secrets`() async throws {
        let bench = try MetricsBench()
        bench.server.route("/busy") { _ in .text("later", status: 503) }
        var policy = RetryPolicy(maximumRetryCount: 1)
        policy.initialDelay = 0.01
        bench.manager.retryPolicy = policy
        let operation = try bench.operation("busy?token=hidden")
        let lines = Locked<[String]>([])
        operation.retryHandler = { _, event in lines.withLock { $0.append("\(event)") } }
        bench.manager.enqueue(operation)
        try? await operation.finished()
        // The handlers run after these events.
        let end = "not retried: the maximum number of retries was reached"
        #expect(eventually { lines.withLock { $0.contains { $0.hasSuffix(end) } } })
        let found = lines.withLock { $0 }
        #expect(found.count == 2, "\(found)")
        #expect(found.allSatisfy { $0.contains("/busy?token=***: failed with status 503: ") }, "\(found)")
        #expect(found.contains { $0.contains(": retry 1 ") })
    }

    @Test func `the trace level logs every event, but no secrets`() async throws {
        let lines = try await log(at: .trace, "moved?password=hidden")
        #expect(lines.count > 12)
        #expect(Set(lines.compactMap { $0.metadata["operation"] }).count == 1)
        #expect(lines.contains { $0.metadata["url"]?.hasSuffix("/moved?password=***") == true })
        let end = lines.last { $0.metadata["received"] != nil }
        #expect(end?.metadata["status"] == "200" && end?.metadata["duration"] != nil)
        #expect(!lines.contains { "\($0)".contains("hidden") })
    }
}
