import ConvoyOperations
import ConvoyRealtime
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@Suite struct EventSourceTests {
    private let server: TestServer
    private let recorder = EventRecorder()

    init() throws { server = try TestServer() }

    @Test func `a source receives events, reconnects after a lost connection and ends with 204`() async throws {
        server.route(
            "/", inTurn: [.events("id: 1\ndata: a\n\nid: 2\nevent: e\ndata: b\n\n"), .events("id: 3\ndata: c\n\n"), .noMore])
        let source = EventSource.test(server.url("/"), recorder)
        #expect(source.readyState == .connecting)
        try await source.finished()
        #expect(recorder.notes == ["open", "a", "b", "lost", "open", "c", "lost", "success"])
        #expect(recorder.events[1] == ServerSentEvent(type: "e", data: "b", lastEventID: "2"))
        #expect(source.readyState == .closed)
        #expect(source.lastEvent?.data == "c")
        #expect(server.requests.map { $0.headers["Last-Event-ID"] } == [nil, "2", "3"])
        #expect(server.requests.allSatisfy { $0.headers["Accept"] == "text/event-stream" })
        #expect(server.requests.allSatisfy { $0.headers["Cache-Control"] == "no-cache" })
        #expect(source.error == nil)
    }

    @Test func `listeners receive events of their type in order until they are removed`() async throws {
        server.route("/", inTurn: [.events("data: a\n\nevent: x\ndata: b\n\nevent: x\ndata: c\n\ndata: d\n\n"), .noMore])
        let source = EventSource.test(server.url("/"))
        let recorder = recorder
        source.addListener { recorder.note("message \($0.data)") }
        let once = Locked<EventListenerID?>(nil)
        let id = source.addListener(forEvent: "x") { [weak source] event in
            recorder.note("once \(event.data)")
            if let id = once.withLock({ $0 }) { source?.removeListener(id) }
        }
        once.withLock { $0 = id }
        source.addListener(forEvent: "x") { recorder.note("always \($0.data)") }
        let gone = source.addListener(forEvent: "x") { _ in recorder.note("gone") }
        source.removeListener(gone)
        source.addListener(forEvent: "y") { _ in recorder.note("y") }
        source.removeAllListeners(forEvent: "y")
        try await source.finished()
        #expect(recorder.notes == ["message a", "once b", "always b", "always c", "message d"])
    }

    @Test func `a status other than 200 fails the source with the response body`() async throws {
        for status in [404, 500, 201] {
            let response = TestServer.Response.text("no such stream", status: status).header("Content-Type", "x")
            server.route("/", response)
            let source = EventSource.test(server.url("/"))
            let error = await #expect(throws: HTTPError.self) { try await source.finished() }
            #expect(error?.statusCode == status)
            #expect(error?.data == Data("no such stream".utf8))
            #expect(source.statusCode == status)
            #expect(source.readyState == .closed)
        }
        // This partial response was not requested.
        server.route("/", TestServer.Response.events("data: a\n\n").status(206))
        let error = await #expect(throws: URLError.self) { try await EventSource.test(server.url("/")).finished() }
        #expect(error?.code == .badServerResponse)
        #expect(server.requests.count == 4)
    }

    @Test func `only text/event-stream is accepted, with any parameters`() async throws {
        for type in ["text/plain", "text/event-streams", "text/html; text/event-stream", "x bogus"] {
            server.route("/", .chunked(["data: a\n\n"], type: type).stalls(afterBytes: 9))
            let source = EventSource.test(server.url("/"), recorder)
            await #expect(throws: EventSourceError.unacceptableContentType(type)) { try await source.finished() }
        }
        server.route("/none", TestServer.Response(body: .data(Data("data: a\n\n".utf8))))
        let source = EventSource.test(server.url("/none"), recorder)
        await #expect(throws: EventSourceError.unacceptableContentType(nil)) { try await source.finished() }
        #expect(recorder.data.isEmpty)
        for type in ["text/event-stream;charset=windows-1252", "Text/Event-Stream ; x=y", "text/event-stream;"] {
            server.route("/", inTurn: [.bytes(Data("data: é\n\n".utf8), type: type), .noMore])
            try await EventSource.test(server.url("/"), recorder).finished()
        }
        #expect(recorder.data == ["é", "é", "é"])
    }

    @Test func `close() succeeds, cancel() fails, and neither is followed by an event`() async throws {
        server.route("/", .openEvents("data: a\n\ndata: b\n\n"))
        let closed = EventSource.test(server.url("/"))
        let recorder = recorder
        closed.eventHandler = { source, event in
            recorder.note(event)
            source.close()
        }
        try await closed.finished()
        let cancelled = EventSource.test(server.url("/"))
        cancelled.eventHandler = { source, event in
            recorder.note(event)
            source.cancel()
        }
        let error = await #expect(throws: URLError.self) { try await cancelled.finished() }
        #expect(error?.code == .cancelled)
        #expect(recorder.data == ["a", "a"])
        #expect(closed.readyState == .closed)
        #expect(cancelled.readyState == .closed)
    }

    @Test func `a source can be closed when it opens, while it waits and before it starts`() async throws {
        server.route("/", .openEvents())
        let opened = EventSource.test(server.url("/"))
        opened.openHandler = { $0.close() }
        try await opened.finished()
        server.route("/ending", .events("data: a\n\n"))
        let waiting = EventSource.test(server.url("/ending"))
        waiting.retryInterval = 1000
        waiting.reconnectHandler = { source, _ in source.close() }
        try await waiting.finished()
        let count = server.requests.count
        let unbegun = EventSource.test(server.url("/"))
        unbegun.close()
        await #expect(throws: URLError.self) { try await unbegun.finished() }
        #expect(server.requests.count == count)
    }

    @Test func `a paused source disconnects, keeps its events and resumes where it left off`() async throws {
        server.route(
            "/", inTurn: [.openEvents("id: 1\ndata: a\n\nid: 2\ndata: b\n\n"), .events("id: 3\ndata: c\n\n"), .noMore])
        let source = EventSource.test(server.url("/"), recorder)
        let recorder = recorder
        source.eventHandler = { source, event in
            recorder.note(event)
            if event.data == "a" { source.pause() }
        }
        source.start()
        try await waitUntil { source.isPaused && server.requests.count == 1 }
        try await waitUntil { source.readyState == .connecting }
        #expect(recorder.data == ["a"])
        source.resume()
        try await source.finished()
        #expect(recorder.data == ["a", "b", "c"])
        #expect(server.requests.map { $0.headers["Last-Event-ID"] } == [nil, "2", "3"])
    }

    @Test func `a source closed during a pause succeeds`() async throws {
        server.route("/", .openEvents("data: a\n\n"))
        let source = EventSource.test(server.url("/"))
        source.eventHandler = { source, _ in
            source.pause()
            source.close()
        }
        try await source.finished()
        #expect(server.requests.count == 1)
    }

    @Test func `the state is observable with a handler and with a sequence`() async throws {
        server.route("/", inTurn: [.events("data: a\n\n"), .noMore])
        let source = EventSource.test(server.url("/"))
        let recorder = recorder
        let observation = source.observeReadyState { recorder.note("\($0.oldValue) \($0.newValue)") }
        let states = source.readyStates
        try await source.finished()
        var found: [EventSourceState] = []
        for await state in states { found.append(state) }
        #expect(found == [.connecting, .open, .connecting, .closed])
        try await waitUntil { recorder.notes.count == 3 }
        #expect(recorder.notes == ["connecting open", "open connecting", "connecting closed"])
        observation.invalidate()
        var late: [EventSourceState] = []
        for await state in source.readyStates { late.append(state) }
        #expect(late == [.closed])
    }

    @Test func `several loops receive the same events, and leaving one does not close the source`() async throws {
        let text = (0..<100).map { "data: \($0)\n\n" }.joined()
        server.route("/", inTurn: [.events(text), .noMore])
        let source = EventSource.test(server.url("/"))
        let (first, second, third) = (source.events, source.events, source.events)
        async let whole = first.reduce(into: []) { $0.append($1.data) }
        async let part: [String] = {
            var found: [String] = []
            for try await event in second {
                found.append(event.data)
                if found.count == 10 { break }
            }
            return found
        }()
        async let again = third.reduce(into: []) { $0.append($1.data) }
        let expected = (0..<100).map(String.init)
        #expect(try await whole == expected)
        #expect(try await part == Array(expected.prefix(10)))
        #expect(try await again == expected)
        await #expect(throws: EventSourceError.isIterated) { for try await _ in first {} }
    }

    @Test func `a loop ends with the source's error or with its task`() async throws {
        server.route("/", .events("data: a\n\n"))
        let source = EventSource.test(server.url("/"))
        let recorder = recorder
        source.reconnectHandler = { source, _ in source.cancel() }
        await #expect(throws: URLError.self) { for try await event in source.events { recorder.note(event) } }
        #expect(recorder.data == ["a"])
        server.route("/open", .openEvents())
        let open = EventSource.test(server.url("/open"))
        let task = Task { for try await _ in open.events {} }
        try await waitUntil { open.readyState == .open }
        task.cancel()
        try await task.value
        #expect(open.readyState == .open)
        open.close()
        try await open.finished()
    }
}
