import ConvoyOperations
import ConvoyReachability
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyRealtime

@Suite struct EventSourceReconnectTests {
    private let server: TestServer
    private let recorder = EventRecorder()

    init() throws { server = try TestServer() }

    @Test func `the first delay is the retry interval, and later delays grow with jitter up to a limit`() {
        let delay = ReconnectDelay(interval: 3, maximum: 60)
        #expect(delay.seconds(after: 0, random: 0.9) == 3)
        #expect(delay.seconds(after: 1, random: 0.9) == 3)
        #expect(delay.seconds(after: 2, random: 1) == 6)
        #expect(delay.seconds(after: 2, random: 0) == 3)
        #expect(delay.seconds(after: 3, random: 0.5) == 9)
        #expect(delay.seconds(after: 100_000, random: 1) == 60)
        #expect(delay.seconds(after: 100_000, random: 0) == 30)
        #expect(delay.seconds(after: 0, random: 0, retryAfter: 7) == 7)
        #expect(delay.seconds(after: 5, random: 0, retryAfter: Double.infinity) == 86_400)
        #expect(ReconnectDelay(interval: 100, maximum: 60).seconds(after: 9, random: 0) == 100)
        #expect(ReconnectDelay(interval: 0, maximum: 60).seconds(after: 0, random: 0) == 0)
        #expect(ReconnectDelay(interval: 0, maximum: 60).seconds(after: 4, random: 1) == 0.8)
        for wrong in [-1, Double.nan, -Double.infinity] {
            #expect(ReconnectDelay(interval: wrong, maximum: wrong).seconds(after: 9, random: 1) == 0)
        }
        #expect(ReconnectDelay(interval: Double.infinity, maximum: 1).seconds(after: 0, random: 0) == 86_400)
    }

    @Test func `the server's retry interval takes precedence and is limited to a day`() async throws {
        server.route("/", inTurn: [.events("retry: 20\ndata: a\n\n"), .events("retry: 999999999999\ndata: b\n\n")])
        let source = EventSource.test(server.url("/"))
        source.retryInterval = 0.01
        let recorder = recorder
        source.reconnectHandler = { source, interruption in
            recorder.note("\(interruption.delay ?? -1) \(interruption.error == nil) \(interruption.failureCount)")
            if interruption.delay == 86_400 { source.close() }
        }
        try await source.finished()
        #expect(recorder.notes == ["0.02 true 0", "86400.0 true 0"])
        #expect(source.retryInterval == 86_400)
    }

    @Test func `connections without events count as failures, and an event resets the count`() async throws {
        server.route(
            "/", inTurn: [.events(": a\n\n"), .events(""), .events("data: a\n\n"), .events("id: 1\n\n"), .noMore])
        let source = EventSource.test(server.url("/"), recorder)
        try await source.finished()
        #expect(recorder.interruptions.map(\.failureCount) == [1, 2, 0, 1])
    }

    @Test func `a host that refuses connections is retried until it accepts them`() async throws {
        let port = try LoopbackPort.free()
        let url = try #require(URL(string: "http://127.0.0.1:\(port)/"))
        let source = EventSource.test(url, recorder)
        source.start()
        try await waitUntil { recorder.interruptions.count >= 2 }
        #expect((recorder.interruptions[0].error as? URLError)?.code == .cannotConnectToHost)
        var configuration = TestServer.Configuration()
        configuration.port = port
        let server = try TestServer(configuration)
        server.route("/", inTurn: [.events("data: a\n\n"), .noMore])
        try await source.finished()
        #expect(recorder.data == ["a"])
    }

    @Test func `a source waits for an unavailable network and reconnects as soon as it returns`() async throws {
        let port = try LoopbackPort.free()
        let url = try #require(URL(string: "http://127.0.0.1:\(port)/"))
        let source = EventSource.test(url, recorder)
        source.retryInterval = 1000
        let isAway = Locked(true)
        let returns = Locked<[@Sendable () -> Void]>([])
        final class Wait: Sendable {}
        source.network.isAway = { _ in isAway.withLock { $0 } }
        source.network.awaitReturn = { _, afterLoss, block in
            #expect(afterLoss == !isAway.withLock { $0 })
            returns.withLock { $0.append(block) }
            return Wait()
        }
        source.start()
        try await waitUntil { returns.withLock { $0.count } == 1 }
        try await waitUntil { recorder.interruptions.count == 1 }
        #expect(recorder.interruptions[0].delay == nil)
        var configuration = TestServer.Configuration()
        configuration.port = port
        let server = try TestServer(configuration)
        server.route("/", inTurn: [.events("data: a\n\ndata: b").resets(afterBytes: 9), .noMore])
        isAway.withLock { $0 = false }
        returns.withLock { $0[0] }()
        // The connection is lost while the network is available, which then disappears and returns. No wait lasts a
        // thousand seconds.
        try await waitUntil { returns.withLock { $0.count } == 2 }
        try await waitUntil { recorder.data == ["a"] }
        try await waitUntil { recorder.interruptions.count == 2 }
        #expect(recorder.interruptions[1].delay == 1000)
        returns.withLock { $0[1] }()
        // A late call of the network handler has no effect.
        returns.withLock { $0[0] }()
        try await source.finished()
        #expect(server.requests.count == 2)
    }

    @Test func `a silent server is abandoned after the read timeout, which is off by default`() async throws {
        // On a busy machine even the event may be late.
        server.route("GET", "/") { request in
            request.headers["Last-Event-ID"] == "4" ? .noMore : .openEvents("id: 4\ndata: a\n\n")
        }
        let source = EventSource.test(server.url("/"), recorder)
        source.readTimeout = 0.2
        try await source.finished()
        #expect((recorder.interruptions.first?.error as? URLError)?.code == .timedOut)
        #expect(server.requests.last?.headers["Last-Event-ID"] == "4")
        // The limits of other requests do not apply to an open stream.
        server.route("/silent", .openEvents())
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = DispatchQueue(label: "handlers")
        manager.requestSerializer.timeoutInterval = 0.2
        let silent = try manager.makeEventSource("silent")
        silent.totalTimeout = nil
        silent.connectionConfiguration.stallLimit = StallLimit(bytesPerSecond: 1000, duration: 0.1)
        manager.enqueue(silent)
        try await waitUntil { silent.readyState == .open }
        // The pause is three times as long as the limits that must not apply.
        try await Task.sleep(for: .milliseconds(600))
        #expect(silent.readyState == .open)
        silent.close()
        // The usual limit still applies to the head.
        server.route("/late", TestServer.Response.openEvents().failing(.stallBeforeHead))
        let late = try manager.makeEventSource("late")
        late.reconnectHandler = { source, interruption in
            #expect((interruption.error as? URLError)?.code == .timedOut)
            source.close()
        }
        manager.enqueue(late)
        try await late.finished()
    }

    @Test func `server errors end the source unless reconnectsAfterServerErrors is set`() async throws {
        server.route("/", inTurn: [.status(503, headers: ["Retry-After": "1"]), .events("data: a\n\n"), .noMore])
        let source = EventSource.test(server.url("/"), recorder)
        source.reconnectsAfterServerErrors = true
        try await source.finished()
        #expect(recorder.notes == ["lost", "open", "a", "lost", "success"])
        #expect(recorder.interruptions[0].delay == 1)
        #expect((recorder.interruptions[0].error as? HTTPError)?.statusCode == 503)
        server.route("/", inTurn: [.status(404)])
        let gone = EventSource.test(server.url("/"))
        gone.reconnectsAfterServerErrors = true
        await #expect(throws: HTTPError.self) { try await gone.finished() }
    }

    @Test func `redirects, even permanent ones, are followed again for each connection`() async throws {
        server.redirect("/", to: "/there", status: 301)
        server.route("/there", inTurn: [.events("id: 1\ndata: a\n\n"), .noMore])
        let source = EventSource.test(server.url("/"), recorder)
        try await source.finished()
        #expect(server.requests.map(\.path) == ["/", "/there", "/", "/there"])
        #expect(server.requests.map { $0.headers["Last-Event-ID"] } == [nil, nil, "1", "1"])
        #expect(source.redirects.count == 1)
    }

    @Test func `the method, body and headers are sent for each connection`() async throws {
        server.route("POST", "/", inTurn: [.events("data: a\n\n"), .events("data: b\n\n"), .noMore])
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = DispatchQueue(label: "handlers")
        manager.operationQueue.isSuspended = true
        let source = manager.eventSource(
            "", method: .post, body: ["ask": "me"], headers: ["X-Own": "1", "Cache-Control": "no-cache"])
        source.retryInterval = 0.01
        source.reconnects = true
        manager.operationQueue.isSuspended = false
        try await source.finished()
        #expect(server.requests.map(\.text) == Array(repeating: #"{"ask":"me"}"#, count: 3))
        #expect(server.requests.allSatisfy { $0.headers["X-Own"] == "1" && $0.headers["Cache-Control"] == "no-cache" })
        #expect(server.requests.allSatisfy { $0.headers["Accept"] == "text/event-stream" })
    }

    @Test func `a source with an unrepeatable body fails instead of reconnecting`() async throws {
        server.route("POST", "/", .events("data: a\n\n"))
        var request = URLRequest(url: server.url("/"))
        request.httpMethod = "POST"
        request.httpBodyStream = InputStream(data: Data("once".utf8))
        let source = EventSource(request: request)
        source.reconnects = true
        source.completionQueue = DispatchQueue(label: "handlers")
        source.retryInterval = 0.01
        await #expect(throws: EventSourceError.bodyCannotBeSentAgain) { try await source.finished() }
        #expect(server.requests.map(\.text) == ["once"])
    }

    @Test func `the last event ID is sent unchanged, unless it is invalid in a header`() async throws {
        for (id, sent) in [
            ("…é😀", "…é😀"), ("a\tb", "a\tb"), ("a, b; c=\"d\"", "a, b; c=\"d\""), ("a\u{1}b", nil), ("\u{1B}[31m", nil),
            ("a\u{7F}", nil), ("a\u{0B}X-Injected: 1", nil), (String(repeating: "x", count: 5000), nil), ("", nil),
        ] as [(String, String?)] {
            server.route("/", inTurn: [.events("id: \(id)\ndata: a\n\n"), .noMore])
            server.forgetRequests()
            let source = EventSource.test(server.url("/"), recorder)
            try await source.finished()
            #expect(server.requests.count == 2)
            #expect(server.requests.last?.headers["Last-Event-ID"].map { Array($0.utf8) } == sent.map { Array($0.utf8) })
            #expect(server.requests.last?.headers["X-Injected"] == nil)
            #expect(source.lastEventID == id)
        }
    }

    @Test func `a source can resume where another one stopped`() async throws {
        server.route("/", .noMore)
        let source = EventSource.test(server.url("/"))
        source.lastEventID = "41"
        try await source.finished()
        var request = URLRequest(url: server.url("/"))
        request.setValue("42", forHTTPHeaderField: "Last-Event-ID")
        let other = EventSource(request: request)
        #expect(other.lastEventID == "42")
        try await other.finished()
        #expect(server.requests.map { $0.headers["Last-Event-ID"] } == ["41", "42"])
    }
}
