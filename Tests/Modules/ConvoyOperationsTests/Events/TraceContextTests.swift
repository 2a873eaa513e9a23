import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// W3C Trace Context, level 1: the values, and the requests sent with a context.
@Suite struct TraceContextTests {
    private let example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    @Test func `a context is parsed and formatted`() throws {
        let context = try #require(TraceContext(traceparent: example, tracestate: "congo=t61rcWkgMzE"))
        #expect(context.isSampled && context.state == "congo=t61rcWkgMzE")
        #expect(context.traceparent == example && "\(context)" == example)
        #expect(context.traceID.first == 0x4b && context.parentID.last == 0xb7)
        let child = context.child()
        #expect(child.traceID == context.traceID && child.parentID != context.parentID && child.state == context.state)
        let root = TraceContext.root(isSampled: false)
        #expect(TraceContext(traceparent: root.traceparent) == root && root.traceparent.hasSuffix("-00"))
    }

    @Test(arguments: [
        "", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01", "0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
        "00-4bf92f3577b34da6a3ce929d0e0e473\u{301}-00f067aa0ba902b7-01",
    ]) func `an invalid context is ignored`(text: String) { #expect(TraceContext(traceparent: text) == nil) }

    @Test(arguments: [(8192, true), (8193, false)])
    func `a trace state of up to 8 KiB is passed on`(length: Int, isKept: Bool) {
        let state = "a=" + String(repeating: "b", count: length - 2)
        #expect(TraceContext(traceparent: example, tracestate: state)?.state == (isKept ? state : nil))
    }

    @Test func `a later version may contain more fields`() throws {
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-09-what"
        #expect(try #require(TraceContext(traceparent: later)).traceparent == example)
        #expect(TraceContext(traceparent: example, tracestate: "a\r\nb: c")?.state == nil)
        let zeros = [UInt8](repeating: 0, count: 16), ones = [UInt8](repeating: 1, count: 8)
        #expect(TraceContext(traceID: zeros, parentID: ones, isSampled: true) == nil)
        #expect(TraceContext(traceID: ones + ones, parentID: ones, isSampled: true, state: "a\nb") == nil)
        #expect(TraceContext(traceID: ones, parentID: ones, isSampled: true) == nil)
    }

    @Test func `each attempt has its own context, which its redirects share`() async throws {
        let bench = try MetricsBench()
        let count = Locked(0)
        bench.server.route("/there") { _ in
            count.withLock { count in
                count += 1
                return count == 1 ? .status(503) : .redirect(to: "/quick", status: 302)
            }
        }
        let root = TraceContext.root()
        let given = Locked<[TraceContext]>([])
        bench.manager.traceContextProvider = { _ in
            let child = root.child()
            given.withLock { $0.append(child) }
            return child
        }
        let operation = try bench.operation("there")
        var policy = RetryPolicy(maximumRetryCount: 1)
        (policy.initialDelay, policy.budget, policy.maximumGateDuration) = (0.001, nil, 0)
        operation.retryPolicy = policy
        bench.manager.enqueue(operation)
        try await operation.finished()
        let contexts = given.withLock { $0 }
        #expect(contexts.count == 2)
        let sent = bench.server.requests("/there").map { $0.headers["traceparent"] }
        #expect(sent == contexts.map(\.traceparent))
        #expect(bench.server.requests("/quick").map { $0.headers["traceparent"] } == [contexts.last?.traceparent])
        #expect(operation.traceContext == contexts.last && operation.traceContextProvider == nil)
    }

    @Test func `a request's own context is preserved, and the provider's error fails the operation`() async throws {
        let bench = try MetricsBench()
        var request = URLRequest(url: bench.server.url("/quick"))
        request.setValue(example, forHTTPHeaderField: "traceparent")
        let own = bench.manager.makeOperation(request: request)
        own.traceContextProvider = { _ in TraceContext.root() }
        bench.manager.enqueue(own)
        try await own.finished()
        #expect(bench.server.requests("/quick").last?.headers["traceparent"] == example)
        struct Refusal: Error {}
        let refused = try bench.operation("quick")
        refused.traceContextProvider = { _ in throw Refusal() }
        bench.manager.enqueue(refused)
        try? await refused.finished()
        #expect(refused.error is Refusal)
        let none = try bench.operation("quick")
        none.traceContextProvider = { _ in nil }
        bench.manager.enqueue(none)
        try await none.finished()
        #expect(bench.server.requests("/quick").last?.headers["traceparent"] == nil)
    }
}
