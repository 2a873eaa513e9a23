import ConvoyOperations
import ConvoyRealtime
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Event sources that many threads control concurrently.
@Suite struct EventSourceStormTests {
    private let server: TestServer

    init() throws {
        server = try TestServer()
        let text = (0..<300).map { "id: \($0)\nevent: e\($0 % 4)\ndata: \($0)\n\n" }.joined()
        server.route("/", .events(text))
        server.route("/long", .chunked(Array(repeating: Data(text.utf8), count: 20_000), type: "text/event-stream"))
    }

    @Test func `1,000 listeners can be added and removed while events arrive`() async throws {
        let source = EventSource.test(server.url("/long"))
        let calls = Counter()
        source.start()
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask {
                    for round in 0..<250 {
                        let id = source.addListener(forEvent: "e\(thread)") { _ in calls.add() }
                        await Task.yield()
                        if round % 50 == 0 {
                            source.removeAllListeners(forEvent: "e\(thread)")
                        } else {
                            source.removeListener(id)
                        }
                    }
                }
            }
        }
        // The handler call that is running now is the last one.
        let handled = DispatchSemaphore(value: 0)
        source.addListener(forEvent: "e0") { _ in handled.signal() }
        try await waitUntil { handled.wait(timeout: .now()) == .success }
        let count = calls.count
        source.cancel()
        _ = try? await source.finished()
        #expect(calls.count == count)
    }

    private final class Counter: Sendable {
        private let value = Locked(0)
        var count: Int { value.withLock { $0 } }
        func add() { value.withLock { $0 += 1 } }
    }

    @Test func `a source controlled by many threads finishes once and is released`() async throws {
        var random = SplitMix64.printingSeed()
        let seeds = (0..<150).map { _ in random.fork() }
        let server = server
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, seed) in seeds.enumerated() {
                if index >= 12 { try await group.next() }
                group.addTask { try await Self.storm(server, seed) }
            }
            try await group.waitForAll()
        }
    }

    private static func storm(_ server: TestServer, _ seed: SplitMix64) async throws {
        var random = seed
        let ends = Locked(0)
        struct Weak { weak var source: EventSource? }
        let weak = Locked(Weak())
        func run() async throws {
            let source = EventSource.test(server.url(Bool.random(using: &random) ? "/" : "/long"))
            weak.withLock { $0.source = source }
            source.retryInterval = 0.001
            source.setCompletionHandler { _, _ in
                ends.withLock { $0 += 1 }
            } failure: { _, _ in
                ends.withLock { $0 += 1 }
            }
            let last = Locked(-1)
            source.eventHandler = { [weak source] _, event in
                if event.data == "299" { source?.reconnectHandler = { _, _ in } }
                last.withLock { $0 = Int(event.data) ?? -1 }
            }
            let reader = source.events
            source.start()
            let threads = (0..<2).map { _ in random.fork() }
            let reading = Task {
                for try await event in reader where event.data == "150" { await Task.yield() }
            }
            await withTaskGroup(of: Void.self) { group in
                for thread in threads {
                    group.addTask {
                        var random = thread
                        for _ in 0..<Int.random(in: 0...12, using: &random) {
                            letOthersRun(microseconds: Int.random(in: 0...400, using: &random))
                            switch Int.random(in: 0..<5, using: &random) {
                            case 0, 1: source.pause()
                            case 2: source.removeListener(source.addListener(forEvent: "e1") { _ in })
                            default: source.resume()
                            }
                        }
                        if Bool.random(using: &random) { source.close() } else { source.cancel() }
                    }
                }
            }
            _ = try? await source.finished()
            _ = await reading.result
            #expect(source.isFinished)
            #expect(source.readyState == .closed)
        }
        try await run()
        #expect(ends.withLock { $0 } == 1)
        try await waitUntil { weak.withLock { $0.source == nil } }
    }
}
