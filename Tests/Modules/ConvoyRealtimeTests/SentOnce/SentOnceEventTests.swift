import ConvoyOperations
import ConvoySerialization
import ConvoySession
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyRealtime

/// Requests of event sources, which are sent again only if they can be repeated or `reconnects` is set. The server
/// counts the requests.
@Suite(.timeLimit(.minutes(2))) struct SentOnceEventTests {
    static let methods = ["GET", "PUT", "SUBSCRIBE", "POST", "PATCH"]

    private let server: TestServer
    private let recorder = EventRecorder()
    private let gate = TestServer.Gate()

    init() throws { server = try TestServer() }

    static func isRepeatable(_ method: String) -> Bool { ["GET", "PUT", "SUBSCRIBE"].contains(method) }

    private func source(_ method: String) -> EventSource {
        var request = URLRequest(url: server.url("/"))
        request.httpMethod = method
        let source = EventSource(request: request)
        source.completionQueue = DispatchQueue(label: "handlers")
        source.retryInterval = 0.01
        recorder.listen(to: source)
        return source
    }

    @Test(arguments: methods) func `a source reconnects by default if its request can be repeated`(method: String) {
        let source = source(method)
        #expect(source.reconnects == Self.isRepeatable(method))
        source.reconnects.toggle()
        #expect(source.reconnects != Self.isRepeatable(method))
        #expect(source.makeCopy().reconnects == source.reconnects)
    }

    @Test(arguments: methods, [nil, true, false] as [Bool?])
    func `the end of the stream completes a source that does not reconnect`(
        method: String, reconnects: Bool?
    ) async throws {
        server.route(method, "/", inTurn: [.events("data: a\n\n"), .events("data: b\n\n"), .noMore])
        let source = source(method)
        if let reconnects { source.reconnects = reconnects }
        try await source.finished()
        let repeats = reconnects ?? Self.isRepeatable(method)
        #expect(
            recorder.notes == (repeats ? ["open", "a", "lost", "open", "b", "lost", "success"] : ["open", "a", "success"]))
        #expect(server.requests.count == (repeats ? 3 : 1))
    }

    @Test(arguments: methods)
    func `an interrupted stream fails a source that does not reconnect`(method: String) async throws {
        let text = "data: a\n\n"
        server.route(
            method, "/",
            inTurn: [.chunked([text, text], type: "text/event-stream").resets(afterBytes: text.utf8.count), .noMore])
        let source = source(method)
        try? await source.finished()
        if Self.isRepeatable(method) {
            #expect(recorder.notes == ["open", "a", "lost", "success"] && server.requests.count == 2)
        } else {
            #expect(recorder.notes == ["open", "a", "failure"] && server.requests.count == 1)
            #expect((source.error as? URLError)?.code == .networkConnectionLost)
        }
    }

    @Test(arguments: methods) func `a temporary status repeats only repeatable requests`(method: String) async {
        server.route(method, "/", inTurn: [.status(503), .noMore])
        let source = source(method)
        source.reconnectsAfterServerErrors = true
        try? await source.finished()
        #expect(server.requests.count == (Self.isRepeatable(method) ? 2 : 1))
        #expect((source.error as? HTTPError)?.statusCode == (Self.isRepeatable(method) ? nil : 503))
    }

    @Test(arguments: methods) func `after an event that is too long, only repeatable requests are sent again`(
        method: String
    ) async {
        server.route(method, "/", inTurn: [.events("data: \(String(repeating: "x", count: 100))\n\n"), .noMore])
        let source = source(method)
        source.maximumEventLength = 10
        source.reconnectsAfterExcess = true
        try? await source.finished()
        #expect(server.requests.count == (Self.isRepeatable(method) ? 2 : 1))
        #expect((source.error == nil) == Self.isRepeatable(method))
    }

    @Test(arguments: methods) func `a request that was certainly not sent is retried`(method: String) async throws {
        let port = try LoopbackPort.free()
        server.route(method, "/", .noMore)
        let source = source(method)
        source.connectionConfiguration.addressOverrides = ["127.0.0.1": "127.0.0.1:\(port)"]
        source.reconnectHandler = { source, _ in source.connectionConfiguration.addressOverrides = [:] }
        try await source.finished()
        #expect(server.requests.count == 1)
    }

    @Test(arguments: methods) func `a pause keeps the connection of a source that does not reconnect`(
        method: String
    ) async throws {
        let text = "data: a\n\n"
        server.route(
            method, "/",
            inTurn: [
                .chunked([text, "data: b\n\n"], type: "text/event-stream").heldBody(by: gate, afterBytes: text.utf8.count),
                .noMore,
            ])
        let source = source(method)
        source.start()
        try await waitUntil { recorder.notes == ["open", "a"] }
        source.pause()
        try await waitUntil { source.readyState == .connecting }
        gate.open()
        // Received events are not delivered.
        #expect(recorder.notes == ["open", "a"])
        source.resume()
        try await source.finished()
        if Self.isRepeatable(method) {
            #expect(server.requests.count == 2)
        } else {
            #expect(recorder.notes == ["open", "a", "b", "success"])
            #expect(server.requests.count == 1 && server.totalConnectionCount == 1)
        }
    }

    @Test func `a source paused by many threads sends its request once and loses no event`() async throws {
        let events = (0..<200).map { "data: \($0)\n\n" }
        server.route("POST", "/", .chunked(events, every: 0.001, type: "text/event-stream"))
        let source = source("POST")
        source.start()
        let pausing = DispatchQueue(label: "pausing", attributes: .concurrent)
        for _ in 0..<3 {
            pausing.async {
                for _ in 0..<2_000 {
                    source.pause()
                    source.resume()
                }
            }
        }
        await withCheckedContinuation { continuation in
            pausing.async(flags: .barrier) { continuation.resume() }
        }
        source.resume()
        try await source.finished()
        #expect(recorder.data == (0..<200).map(String.init))
        #expect(server.requests.count == 1 && source.readyState == .closed)
    }

    @Test(arguments: ["close", "cancel", "release"])
    func `ending a paused source closes its connection`(_ end: String) async throws {
        server.route("POST", "/", .openEvents("data: a\n\n"))
        var source: EventSource? = source("POST")
        source?.start()
        try await waitUntil { recorder.notes == ["open", "a"] }
        source?.pause()
        switch end {
        case "close":
            source?.close()
            try await source?.finished()
        case "cancel":
            source?.cancel()
            try? await source?.finished()
            #expect((source?.error as? URLError)?.code == .cancelled)
        default:
            weak let released = source
            source = nil
            try await waitUntil("the source is released") { released == nil }
        }
        _ = try await server.wait { $0.openConnectionCount == 0 }
        #expect(server.requests.count == 1)
    }

    @Test func `a connection lost during a pause fails the source`() async throws {
        server.route("POST", "/", .openEvents("data: a\n\n"))
        let source = source("POST")
        source.start()
        try await waitUntil { recorder.notes == ["open", "a"] }
        source.pause()
        server.dropConnections()
        _ = try await server.wait { $0.abandonedRequestCount > 0 }
        source.resume()
        await #expect(throws: URLError.self) { try await source.finished() }
        #expect(server.requests.count == 1)
    }

    @Test(arguments: [HTTPMethod.subscribe, .get, .post])
    func `a subscription reconnects unless its method has other effects`(method: HTTPMethod) async throws {
        server.route(method.rawValue, "/", inTurn: [.events("event: put\ndata: 1\n\n"), .noMore])
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = DispatchQueue(label: "handlers")
        let subscription = try manager.makeSubscription("", method: method, as: JSON.self)
        subscription.fetchesValue = false
        subscription.source.retryInterval = 0.01
        manager.enqueue(subscription.source)
        try await subscription.source.finished()
        #expect(server.requests.count == (method == .post ? 1 : 2))
    }
}
