import Convoy
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// The behaviour of the code in the articles about streams and about watching operations.
@Suite struct ArticleStreamTests {
    private let server: TestServer
    private let manager: HTTPRequestOperationManager
    private let scratch: Scratch
    private let text = "first\nsecond\n\nthird\n"

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
        server.route(nil, "/log", .text(text))
        server.route("GET", "/page", .text("page"))
        server.route("PUT", "/copy", .status(204))
        manager = HTTPRequestOperationManager(
            baseURL: server.url, completionQueue: DispatchQueue(label: "Convoy.Articles"))
        manager.responseSerializer = HTTPResponseSerializer()
    }

    @Test func `bodies are read while they arrive`() async throws {
        #expect(try await ArticleCode.lines(manager) == ["first", "second"])
        let (count, operation) = try await ArticleCode.chunks(manager)
        #expect(count == text.utf8.count)
        await ArticleCode.progress(operation)
        try await ArticleCode.upload(manager)
        #expect(server.requests("/copy").first?.text == text)
        #expect(try await ArticleCode.fastest(manager)?.request.url?.path == "/log")
    }

    @Test func `the activity of operations is reported`() async throws {
        let monitor = ArticleCode.monitor(manager)
        _ = try await manager.get("page", as: String.self)
        await withCheckedContinuation { done in monitor.whenCaughtUp { done.resume() } }
        ArticleCode.log(manager)
        #expect(try await ArticleCode.archive(manager, scratch.url) == "page")
        let archive = try String(contentsOf: scratch.url.appendingPathComponent("requests.har"), encoding: .utf8)
        #expect(archive.contains("/page"))
        let caller = ArticleCode.trace(manager, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        _ = try await manager.get("page", as: String.self)
        let sent = try #require(server.requests("/page").last?.headers["traceparent"])
        #expect(TraceContext(traceparent: sent)?.traceID == caller.traceID && sent != caller.traceparent)
    }

    private final class View: TransferProgressView, Sendable {
        let shown = Locked<[Double?]>([])
        func setProgress(_ fraction: Double?, of transfer: TransferProgress) { shown.withLock { $0.append(fraction) } }
    }

    @Test func `a view follows the progress of an operation`() async throws {
        let view = View()
        let operation = try manager.makeOperation(.get, "log")
        let binding = ArticleCode.view(view, operation, DispatchQueue(label: "Convoy.Articles.view"))
        manager.enqueue(operation)
        try await operation.finished()
        try await waitUntil("the end") { view.shown.withLock { $0.last } == 1 && binding.isOver }
        ArticleCode.activity()
        NetworkActivityMonitor.shared.isEnabled = false
        NetworkActivityMonitor.shared.activityHandler = nil
    }
}
