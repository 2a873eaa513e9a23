import ConvoySharedQueue
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Workers whose system clock is set forward or back while they run.
@Suite struct ClockJumpTests {
    /// The tests mostly wait, so both directions are tested concurrently.
    @Test(arguments: QueueGround.Store.available)
    func `setting the clock of a worker affects neither its leases nor those of others`(
        _ store: QueueGround.Store
    ) async throws {
        async let back: Void = setClock(by: -3600, store)
        try await setClock(by: 3600, store)
        try await back
    }

    private func setClock(by seconds: Int64, _ store: QueueGround.Store) async throws {
        let ground = try QueueGround(store), bench = ground.bench
        bench.server.route("GET", "/slow", .text("late").delayed(6))
        bench.server.route("GET", "/next", .text("next"))
        _ = try await ground.add(bench.url("/slow"))
        let clock = try JumpingClock(in: bench.scratch.url)
        let arguments = ["work", "--lease", "2"] + ground.arguments
        let worker = try ToolProcess(arguments, in: bench.scratch.url, environment: clock.environment)
        var processes = [worker]
        try await waitUntil("the request") { bench.server.requests.count == 1 }
        // A clock set back would prolong the waits of a worker that no other one wakes, and a clock set forward would end
        // the leases of others.
        if seconds > 0 { processes.append(try ToolProcess(arguments, in: bench.scratch.url)) }
        try clock.jump(by: seconds)
        try await waitUntil("the end of the request") { try await ground.queue.counts() == [.done: 1] }
        #expect(bench.server.requests("GET", "/slow").count == 1)
        // An idle worker also finds new entries.
        try clock.jump(by: 0)
        _ = try await ground.add(bench.url("/next"))
        try await waitUntil("the end") { try await ground.queue.counts() == [.done: 2] }
        for process in processes {
            process.send(signal: SIGTERM)
            let result = try await process.finished()
            #expect(result.status == 0 && result.errors.isEmpty, "\(result.errors)")
        }
    }
}
