import ConvoyOperations
import ConvoyRealtime
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Streams received through a socket.
@Suite struct EventSourceStreamTests {
    private let server: TestServer

    init() throws { server = try TestServer() }

    private func events(of source: EventSource) async throws -> [EventVector.Event] {
        let events = source.events
        var found: [EventVector.Event] = []
        for try await event in events { found.append(EventVector.Event(event)) }
        return found
    }

    @Test(.enabled(if: EventVector.isThere, Comment(rawValue: EventVector.hint)))
    func `the streams of the web platform tests yield their events for any division of the bytes`() async throws {
        for (number, vector) in try EventVector.all().enumerated() {
            for (index, pieces) in vector.chunkings.enumerated() {
                let path = "/\(number)/\(index)"
                let stream = TestServer.Response.chunked(pieces, type: vector.contentType ?? "text/event-stream")
                server.route(path, inTurn: [stream, .noMore])
                let source = EventSource.test(server.url(path))
                let waits = Locked<[TimeInterval?]>([])
                source.reconnectHandler = { source, interruption in
                    waits.withLock { $0.append(interruption.delay) }
                    // Reconnect immediately, because the stream may specify a long delay.
                    source.pause()
                    source.resume()
                }
                #expect(try await events(of: source) == vector.events, "\(vector) \(index)")
                #expect(waits.withLock { $0 } == [vector.retry.map { $0 / 1000 } ?? 0.01], "\(vector) \(index)")
                let second = try #require(server.requests(path).last)
                let asked = second.headers["Last-Event-ID"].map { Data($0.utf8) }
                if let last = vector.lastEventIdAtReconnect {
                    #expect(asked == (last.isEmpty ? nil : Data(last.utf8)), "\(vector) \(index)")
                }
            }
        }
    }

    @Test(.enabled(if: EventVector.isThere, Comment(rawValue: EventVector.hint)))
    func `a stream cut at any byte yields its complete events`() async throws {
        let server = server
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, vector) in try EventVector.all().enumerated() {
                group.addTask {
                    for cut in 0..<min(vector.stream.count, 120) {
                        let path = "/\(number)/\(cut)"
                        let whole = TestServer.Response.bytes(vector.stream, type: vector.contentType ?? "text/event-stream")
                        server.route(path, inTurn: [whole.truncated(afterBytes: cut), .noMore])
                        let source = EventSource.test(server.url(path))
                        source.reconnectHandler = { source, interruption in
                            if interruption.error == nil { Issue.record("\(vector) \(cut)") }
                            source.pause()
                            source.resume()
                        }
                        let found = try await events(of: source)
                        var parser = EventStreamParser()
                        let expected = try parser.parse(vector.stream.prefix(cut)).map(EventVector.Event.init)
                        #expect(found == expected, "\(vector) \(cut)")
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test func `100 lost connections neither lose nor repeat an event`() async throws {
        let random = Locked(SplitMix64.printingSeed())
        let drops = Locked(0)
        let count = 2_000
        server.route("/") { request in
            let last = request.headers["Last-Event-ID"].flatMap(Int.init) ?? 0
            guard last < count else { return .noMore }
            let text = (last + 1...count).map { "id: \($0)\nevent: e\($0 % 3)\ndata: event\ndata: \($0)\n\n" }.joined()
            let response = TestServer.Response.chunked(
                Data(text.utf8).pieces(of: 700), type: "text/event-stream")
            guard drops.withLock({ $0 }) < 100 else { return response }
            drops.withLock { $0 += 1 }
            let (cut, resets) = random.withLock { random in
                // Slightly more than a hundredth of them on average.
                (Int.random(in: 0...1_200, using: &random), Bool.random(using: &random))
            }
            return resets ? response.resets(afterBytes: cut) : response.truncated(afterBytes: cut)
        }
        let source = EventSource.test(server.url("/"))
        source.retryInterval = 0
        source.maximumRetryInterval = 0.02
        let found = try await events(of: source)
        #expect(drops.withLock { $0 } == 100)
        #expect(found.map(\.lastEventId) == (1...count).map(String.init))
        #expect(found.map(\.data) == (1...count).map { "event\n\($0)" })
        #expect(found.map(\.type) == (1...count).map { "e\($0 % 3)" })
    }

    @Test func `an event of a compressed stream arrives as soon as the server has flushed it`() async throws {
        // The body has three events, each flushed by zlib.
        let flushed = [
            "H4sIAAAAAAACA8pMsVIw4EpJLEm0UkgtS80rAfK4AAAAAP//", "ygQKGqIIGnJxAQAAAP//", "AgkaoQgacXEBAAAA//8=",
        ].compactMap { Data(base64Encoded: $0) }
        let gates = [TestServer.Gate(), TestServer.Gate()]
        let whole = flushed.reduce(Data(), +)
        for (index, gate) in gates.enumerated() {
            let length = flushed.prefix(index + 1).reduce(0) { $0 + $1.count }
            server.route(
                "/\(index)",
                TestServer.Response.chunked([whole], type: "text/event-stream").header("Content-Encoding", "gzip")
                    .heldBody(by: gate, afterBytes: length))
            let source = EventSource.test(server.url("/\(index)"))
            let recorder = EventRecorder()
            recorder.listen(to: source)
            source.start()
            try await waitUntil { recorder.data.count == index + 1 }
            gate.open()
            try await waitUntil { recorder.data.count == 3 }
            #expect(recorder.data == ["event 0", "event 1", "event 2"])
            source.cancel()
        }
    }

    @Test func `an endless line or event fails the source at the limit`() async throws {
        let line = Data(repeating: 0x61, count: 64 << 10)
        let lines = Data(String(repeating: "data: x\n", count: 8 << 10).utf8)
        for (piece, error) in [
            (line, EventSourceError.eventTooLong(limit: 8 << 20)), (lines, EventSourceError.eventTooLong(limit: 8 << 20)),
        ] {
            // The body has a gigabyte, whose pieces share the same memory.
            let endless = [Data("id: 1\ndata: first\n\ndata: ".utf8)] + Array(repeating: piece, count: 16 << 10)
            server.route("/", .chunked(endless, type: "text/event-stream"))
            let before = ProcessMeters.residentKilobytes
            let recorder = EventRecorder()
            let source = EventSource.test(server.url("/"), recorder)
            await #expect(throws: error) { try await source.finished() }
            #expect(recorder.notes == ["open", "first", "failure"])
            // The growth must be much less than a gigabyte; other tests may be running.
            #expect(ProcessMeters.residentKilobytes - before < 256 << 10)
        }
    }

    @Test func `200,000 events take no additional memory, and a blocked handler makes the server wait`() async throws {
        let piece = Data(
            (0..<1_000).map { "id: \($0)\ndata: {\"number\": \($0), \"text\": \"some more\"}\n\n" }.joined().utf8)
        server.route(
            "/", inTurn: [.chunked(Array(repeating: piece, count: 200), type: "text/event-stream"), .noMore])
        let source = EventSource.test(server.url("/"))
        let stops = DispatchSemaphore(value: 0)
        let count = Locked(0)
        let bytes = Locked(0)
        source.eventHandler = { _, event in
            let number = count.withLock { count in
                count += 1
                return count
            }
            bytes.withLock { $0 += event.data.utf8.count }
            if number == 5_000 { stops.wait() }
        }
        source.start()
        try await waitUntil { count.withLock { $0 } == 5_000 }
        let before = ProcessMeters.allocatedBytes
        // A source that kept reading would grow, and would not wait for room.
        try await waitUntil("a full backlog") { source.waitsForRoom }
        // The server's pieces are in this process too.
        let grown = ProcessMeters.allocatedBytes - before
        #expect(grown < 4 << 20)
        #expect(source.readyState == .open)
        #expect(server.statistics.activeRequestCount == 1)
        stops.signal()
        try await source.finished()
        #expect(count.withLock { $0 } == 200_000)
        #expect(ProcessMeters.allocatedBytes - before < 8 << 20)
    }

    @Test func `a reader that stops makes the server and other readers wait until it leaves`() async throws {
        let piece = Data((0..<1_000).map { "data: \($0) \(String(repeating: "x", count: 100))\n\n" }.joined().utf8)
        server.route(
            "/", inTurn: [.chunked(Array(repeating: piece, count: 300), type: "text/event-stream"), .noMore])
        let source = EventSource.test(server.url("/"))
        let quick = source.events
        let slow = Locked<ServerSentEvents?>(source.events)
        let count = Locked(0)
        let task = Task {
            for try await _ in quick { count.withLock { $0 += 1 } }
        }
        try await waitUntil { count.withLock { $0 } > 500 }
        try await waitUntil("a full backlog") { source.waitsForRoom }
        // The fast reader gets all events up to the point where the slow reader's backlog is full.
        let last = count.withLock { $0 }
        #expect(last < 20_000)
        slow.withLock { $0 = nil }
        try await waitUntil { count.withLock { $0 } > last + 20_000 }
        // Leaving the loop ends the wait, even if the sequence still exists.
        let left = source.events
        for try await _ in left { break }
        try await task.value
        withExtendedLifetime(left) {}
        #expect(count.withLock { $0 } == 300_000)
    }
}
