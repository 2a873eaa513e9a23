import ConvoyOperations
import ConvoyRealtime
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Requirements of the contract tests for event stream clients that go beyond the standard.
@Suite struct EventSourceContractTests {
    private let server: TestServer
    private let recorder = EventRecorder()

    init() throws { server = try TestServer() }

    @Test func `comments arrive in order with the events as long as a handler is set`() async throws {
        server.route(
            "/",
            inTurn: [
                .events(":one\n: two\n:  three\ndata: a\n:within\ndata: b\n\n:\n:x:y\ndata: c\n\n: last\n"),
                .events("data: d\n\n: unheard\n\n"), .noMore,
            ])
        let source = EventSource.test(server.url("/"), recorder)
        let recorder = recorder
        source.commentHandler = { source, text in
            recorder.note("(\(text))")
            if text == "last" { source.commentHandler = nil }
        }
        try await source.finished()
        #expect(
            recorder.notes == [
                "open", "(one)", "(two)", "( three)", "(within)", "a\nb", "()", "(x:y)", "c", "(last)", "lost", "open", "d",
                "lost", "success",
            ])
    }

    @Test func `comments that arrive separately are delivered before the next event`() async throws {
        let gate = TestServer.Gate()
        server.route(
            "/",
            .chunked([":Hel", "lo\n:World\n", "data: x\n\n"], type: "text/event-stream").heldBody(by: gate, afterBytes: 14))
        let source = EventSource.test(server.url("/"), recorder)
        let recorder = recorder
        source.commentHandler = { recorder.note("(\($1))") }
        source.start()
        try await waitUntil { recorder.notes == ["open", "(Hello)", "(World)"] }
        gate.open()
        try await waitUntil { recorder.data == ["x"] }
        source.close()
    }

    @Test func `a blocked comment handler makes the server wait`() async throws {
        let piece = Data(String(repeating: ": \(String(repeating: "x", count: 1_000))\n", count: 100).utf8)
        server.route("/", inTurn: [.chunked(Array(repeating: piece, count: 300), type: "text/event-stream"), .noMore])
        let source = EventSource.test(server.url("/"))
        let stops = DispatchSemaphore(value: 0)
        let count = Locked(0)
        source.commentHandler = { _, _ in
            let number = count.withLock { count in
                count += 1
                return count
            }
            if number == 10 { stops.wait() }
        }
        source.start()
        try await waitUntil { count.withLock { $0 } == 10 }
        try await waitUntil("a full backlog") { source.waitsForRoom }
        #expect(server.statistics.activeRequestCount == 1, "30 MB are more than all buffers of the connection")
        stops.signal()
        try await source.finished()
        #expect(count.withLock { $0 } == 30_000)
    }

    @Test func `restart() reconnects immediately with the last event ID`() async throws {
        server.route(
            "/",
            inTurn: [
                .openEvents("id: 1\ndata: Hello\n\n"), .openEvents("data: Thanks\n\n"), .events("data: end\n\n"), .noMore,
            ])
        let source = EventSource.test(server.url("/"), recorder)
        source.retryInterval = 1000
        source.start()
        try await waitUntil { recorder.data == ["Hello"] }
        source.restart()
        try await waitUntil { recorder.data == ["Hello", "Thanks"] }
        source.restart()
        // The third connection ends, and the source waits for a thousand seconds.
        try await waitUntil { recorder.interruptions.count == 1 }
        source.restart()
        try await source.finished()
        #expect(recorder.notes == ["open", "Hello", "open", "Thanks", "open", "end", "lost", "success"])
        #expect(server.requests.map { $0.headers["Last-Event-ID"] } == [nil, "1", "1", "1"])
        source.restart()
        #expect(source.readyState == .closed && server.requests.count == 4)
    }

    @Test func `restart() has no effect on a source that has not started or is paused`() async throws {
        server.route("/", .openEvents("data: a\n\n"))
        let source = EventSource.test(server.url("/"), recorder)
        source.restart()
        source.start()
        try await waitUntil { recorder.data == ["a"] }
        source.pause()
        try await waitUntil { server.statistics.activeRequestCount == 0 }
        source.restart()
        source.resume()
        try await waitUntil { recorder.data == ["a", "a"] }
        #expect(server.requests.count == 2)
        source.cancel()
    }

    @Test func `an event that is too long ends only the connection if configured`() async throws {
        let long = String(repeating: "x", count: 200)
        server.route(
            "/",
            inTurn: [
                .openEvents("id: 1\ndata: a\n\ndata: \(long)\n\n"), .openEvents(": \(long)\(long)"),
                .events("data: \(long.dropLast())\n\n"), .noMore,
            ])
        let source = EventSource.test(server.url("/"), recorder)
        source.maximumEventLength = 200
        source.reconnectsAfterExcess = true
        try await source.finished()
        #expect(recorder.notes == ["open", "a", "lost", "open", "lost", "open", "\(long.dropLast())", "lost", "success"])
        #expect(
            recorder.interruptions.map { $0.error as? EventSourceError } == [
                .eventTooLong(limit: 200), .eventTooLong(limit: 200), nil,
            ])
        #expect(recorder.interruptions.map(\.failureCount) == [0, 1, 0])
        #expect(server.requests[1].headers["Last-Event-ID"] == "1")
    }

    @Test(arguments: [1, 1_023, 1_024, 1_025, 4_094, 4_096, 4_098, 8_189, 8_192, 65_536, 262_144, 1 << 20])
    func `an event of any size is delivered while the connection is open`(size: Int) async throws {
        let data = String(repeating: "x", count: size)
        server.route("/", .openEvents("data: \(data)\n\n"))
        let source = EventSource.test(server.url("/"), recorder)
        source.start()
        try await waitUntil { recorder.data == [data] }
        source.close()
    }
}
