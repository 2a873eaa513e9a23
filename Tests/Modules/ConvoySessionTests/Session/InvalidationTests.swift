import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySession

/// The end of a session with tasks in each state.
@Suite(.serialized) struct InvalidationTests {
    /// The reports of a session's tasks.
    private final class Ends: Sendable {
        let completions = Locked<[Int: Int]>([:])
        let invalidations = Locked(0)

        func complete(_ number: Int) { completions.withLock { $0[number, default: 0] += 1 } }
    }

    /// The number of open sockets. Other descriptors are opened once and kept, for the first timer and the first
    /// thread.
    private static var openSockets: Int { ProcessMeters.descriptorTargets.count { $0.contains("socket:") } }

    /// Creates five hundred tasks: suspended from the start, running, suspended in the middle, ended, or waiting for another
    /// task.
    private func tasks(_ fixture: SessionFixture, _ ends: Ends) async throws -> [SessionTask] {
        var tasks: [SessionTask] = []
        for number in 0..<500 {
            let path = number % 5 == 3 ? "/text" : "/held"
            let end: @Sendable () -> Void = { ends.complete(number) }
            let task: SessionTask =
                switch number % 3 {
                case 0: fixture.manager.dataTask(with: fixture.request(path)) { _, _, _ in end() }
                case 1: fixture.manager.uploadTask(with: fixture.request(path), from: Data(count: 100)) { _, _, _ in end() }
                default: fixture.manager.downloadTask(with: fixture.request(path)) { _, _, _ in end() }
                }
            tasks.append(task)
            switch number % 5 {
            case 0: break
            case 1, 2, 3: task.resume()
            default:
                task.operation.addDependency(tasks[number - 3].operation)
                task.resume()
            }
            if number % 5 == 2 { task.suspend() }
        }
        return tasks
    }

    private func fixture(_ ends: Ends) throws -> SessionFixture {
        let fixture = try SessionFixture()
        fixture.server.route("/text", .text("hello"))
        fixture.server.route("/held", .pattern(count: 100_000).bandwidth(bytesPerSecond: 20_000))
        fixture.manager.sessionDidBecomeInvalidHandler = { error in
            #expect(error == nil)
            ends.invalidations.withLock { $0 += 1 }
        }
        return fixture
    }

    @Test func `tasks cancelled midway complete once and leave nothing behind`() async throws {
        let ends = Ends()
        weak var manager: HTTPSessionManager?
        var sockets = 0
        var kept: [SessionTask] = []
        do {
            let fixture = try fixture(ends)
            manager = fixture.manager
            sockets = Self.openSockets
            kept = try await tasks(fixture, ends)
            try await waitUntil("some have begun") { fixture.server.requests.count > 50 }
            // Invalidate the session from several threads, and more than once.
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<4 { group.addTask { fixture.manager.invalidate(cancellingTasks: true) } }
            }
            for task in kept { await task.end() }
            try await waitUntil("the session is invalid") { ends.invalidations.withLock { $0 } > 0 }
            fixture.manager.invalidate(cancellingTasks: true)
            let late = fixture.manager.dataTask(with: fixture.request("/text"))
            late.resume()
            #expect(await late.end() as? SessionError == .invalidated)
            await #expect(throws: SessionError.invalidated) { try await fixture.manager.get("text") }
            fixture.settle()
            #expect(fixture.manager.tasks.isEmpty && fixture.manager.sessionDidBecomeInvalidHandler == nil)
            #expect(ends.invalidations.withLock { $0 } == 1)
            let completions = ends.completions.withLock { $0 }
            #expect(completions.count == 500 && completions.values.allSatisfy { $0 == 1 })
            #expect(kept.allSatisfy { $0.state == .completed })
            // All connections are closed although the tasks still exist. (The server keeps its ends until it detects
            // this.)
            try await waitUntil("all sockets are closed") { Self.openSockets <= sockets }
        }
        try await waitUntil("the manager is gone") { manager == nil }
        withExtendedLifetime(kept) {}
    }

    @Test func `released suspended tasks retain neither threads nor descriptors`() async throws {
        let server = try TestServer()
        defer { server.stop() }
        server.route("/held", .pattern(count: 100_000).bandwidth(bytesPerSecond: 20_000))
        let (sockets, descriptors, threads) = (Self.openSockets, ProcessMeters.openDescriptors, Self.networkThreads)
        var kept: SessionTask?
        for number in 0..<100 {
            let manager = URLSessionManager(configuration: .ephemeral, completionQueue: .global())
            manager.responseSerializer = HTTPResponseSerializer()
            let task = manager.dataTask(with: URLRequest(url: server.url("/held")))
            task.resume()
            // Suspend the task before the connection, along with it, or in the middle of the body.
            if number % 3 > 0 { try await waitUntil("it has started") { number % 3 == 1 || task.countOfBytesReceived > 0 } }
            task.suspend()
            if number == 99 { kept = task }
        }
        try await waitUntil("all threads have ended") { Self.networkThreads <= threads }
        try await waitUntil("all sockets are closed") { Self.openSockets <= sockets }
        // A hundred threads have had several descriptors each.
        #expect(ProcessMeters.openDescriptors < descriptors + 20)
        // A task that was kept resumes on its own thread.
        server.servePattern(count: 100_000, at: "/held", etag: "\"1\"")
        let task = try #require(kept)
        task.resume()
        try await task.finished()
        #expect(task.operation.responseData == PatternBytes.data(count: 100_000))
        try await waitUntil("its thread has ended as well") { Self.networkThreads <= threads }
    }

    private static var networkThreads: Int {
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
        return threads.filter {
            (try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)) == "Convoy.Network\n"
        }.count
    }

    @Test func `an invalidation without cancelling awaits running and suspended tasks`() async throws {
        let ends = Ends()
        let fixture = try fixture(ends)
        let running = fixture.manager.dataTask(with: fixture.request("/text")) { _, _, error in
            #expect(error == nil)
            ends.complete(1)
        }
        let suspended = fixture.manager.dataTask(with: fixture.request("/text")) { _, _, error in
            #expect(error == nil)
            ends.complete(2)
        }
        running.resume()
        fixture.manager.invalidate(cancellingTasks: false)
        try await running.finished()
        fixture.settle()
        #expect(ends.invalidations.withLock { $0 } == 0)
        suspended.resume()
        try await suspended.finished()
        try await waitUntil("the session is invalid") { ends.invalidations.withLock { $0 } == 1 }
        #expect(ends.completions.withLock { $0 } == [1: 1, 2: 1])
    }

    @Test func `a task released before it starts is not awaited`() async throws {
        let ends = Ends()
        let fixture = try fixture(ends)
        var task: SessionTask? = fixture.manager.dataTask(with: fixture.request("/text"))
        fixture.manager.invalidate(cancellingTasks: false)
        fixture.settle()
        #expect(ends.invalidations.withLock { $0 } == 0 && task != nil)
        task = nil
        try await waitUntil("the session is invalid") { ends.invalidations.withLock { $0 } == 1 }
    }

    @Test func `a session without tasks ends immediately`() async throws {
        let ends = Ends()
        let fixture = try fixture(ends)
        fixture.manager.invalidate(cancellingTasks: false)
        try await waitUntil("the session is invalid") { ends.invalidations.withLock { $0 } == 1 }
    }

    @Test func `a reset manager continues with new connections and the same handlers`() async throws {
        let ends = Ends()
        let fixture = try fixture(ends)
        let old = fixture.manager.dataTask(with: fixture.request("/held"))
        old.resume()
        try await fixture.manager.get("text")
        fixture.manager.resetSession()
        #expect(fixture.manager.tasks.isEmpty)
        try await fixture.manager.get("text")
        fixture.manager.resetSession()
        try await fixture.manager.get("text")
        let connections = fixture.server.requests.filter { $0.path == "/text" }.map(\.connection)
        #expect(Set(connections).count == 3)
        old.cancel()
        await old.end()
        try await waitUntil("both are invalid") { ends.invalidations.withLock { $0 } == 2 }
        #expect(fixture.manager.sessionDidBecomeInvalidHandler != nil)
        fixture.manager.invalidate(cancellingTasks: true)
        try await waitUntil("the third is invalid") { ends.invalidations.withLock { $0 } == 3 }
    }

    @Test func `an unreferenced manager and its thread end after its tasks`() async throws {
        let server = try TestServer()
        defer { server.stop() }
        server.route("/text", .text("hello"))
        let before = Self.openSockets
        weak var manager: URLSessionManager?
        let (stream, continuation) = AsyncStream.makeStream(of: Bool.self)
        do {
            let made = URLSessionManager(configuration: .ephemeral, completionQueue: .global())
            made.responseSerializer = HTTPResponseSerializer()
            manager = made
            made.taskDidCompleteHandler = { _, error in
                continuation.yield(error == nil)
                continuation.finish()
            }
            made.dataTask(with: URLRequest(url: server.url("/text"))).resume()
        }
        #expect(await stream.first { _ in true } == true)
        try await waitUntil("the manager is gone") { manager == nil }
        try await waitUntil("its connection is closed") { Self.openSockets <= before }
    }
}
