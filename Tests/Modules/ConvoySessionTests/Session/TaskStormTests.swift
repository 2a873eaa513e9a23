import ConvoyDownloads
import ConvoyOperations
import ConvoyStorySupport
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySession

/// Thousands of tasks that several threads suspend, resume and cancel concurrently.
@Suite(.serialized) struct TaskStormTests {
    /// The result of a task: the number of handler calls and the arguments.
    private final class Outcome: Sendable {
        let calls = Locked(0)
        let isRight = Locked<Bool?>(nil)
    }

    private static let length = 40_000

    /// Returns a download whose successors each resume from the data of the previous one.
    private func download(
        _ fixture: SessionFixture, _ number: Int, _ outcome: Outcome, _ resumeData: ResumeData?
    ) -> SessionDownloadTask {
        let place = fixture.file("file-\(number)")
        let completion: @Sendable (HTTPURLResponse?, URL?, (any Error)?) -> Void = { _, file, error in
            outcome.calls.withLock { $0 += 1 }
            guard error == nil else { return }
            let data = file.flatMap { try? Data(contentsOf: $0) }
            outcome.isRight.withLock { $0 = data == PatternBytes.data(count: Self.length) }
        }
        if let resumeData {
            let task = try? fixture.manager.downloadTask(
                with: resumeData, destination: { _, _ in place }, completionHandler: completion)
            if let task { return task }
        }
        return fixture.manager.downloadTask(
            with: fixture.request("/file/\(number % 7)"), destination: { _, _ in place }, completionHandler: completion)
    }

    private func data(_ fixture: SessionFixture, _ number: Int, _ outcome: Outcome) -> SessionDataTask {
        fixture.manager.dataTask(with: fixture.request("/file/\(number % 7)")) { _, object, error in
            outcome.calls.withLock { $0 += 1 }
            guard error == nil else { return }
            outcome.isRight.withLock { $0 = object as? Data == PatternBytes.data(count: Self.length) }
        }
    }

    private final class Kinds: Sendable {
        let counts = Locked<[String: Int]>([:])
        func count(_ what: String) { counts.withLock { $0[what, default: 0] += 1 } }
    }

    /// The number of tasks of each thread.
    private static let count = PropertyBudget.rounds(50)

    /// Runs the tasks of one thread.
    private func run(_ thread: Int, _ seed: UInt64, _ fixture: SessionFixture, _ kinds: Kinds) async throws {
        var random = SplitMix64(seed: seed &* 8 &+ UInt64(thread))
        for turn in 0..<Self.count {
            let number = thread * Self.count + turn
            let note = Comment(rawValue: "task \(number), CONVOY_SEED=\(seed)")
            let outcome = Outcome()
            var task: SessionTask =
                number.isMultiple(of: 2) ? download(fixture, number, outcome, nil) : data(fixture, number, outcome)
            var ends = 1
            for _ in 0..<Int.random(in: 0...6, using: &random) {
                switch Int.random(in: 0..<5, using: &random) {
                case 0: task.suspend()
                case 1, 2: task.resume()
                case 3: if Int.random(in: 0..<4, using: &random) == 0 { task.cancel() }
                default:
                    guard let running = task as? SessionDownloadTask else { break }
                    // Sometimes wait until bytes have been received.
                    if Bool.random(using: &random) {
                        running.resume()
                        try await waitUntil("received bytes, or the end") {
                            running.countOfBytesReceived > 0 || running.state == .completed
                        }
                    }
                    let resumeData = await running.cancelProducingResumeData()
                    await running.end()
                    if running.error == nil { break }
                    kinds.count(resumeData == nil ? "restarted" : "passed on")
                    // Convert the resume data to bytes, as a program would to store it.
                    task = download(fixture, number, outcome, try resumeData.map { try ResumeData($0.data) })
                    ends += 1
                }
                if Bool.random(using: &random) { await Task.yield() }
            }
            task.resume()
            var error = await task.end()
            if error != nil, let left = (task as? SessionDownloadTask)?.resumeData {
                kinds.count("passed on")
                task = download(fixture, number, outcome, try ResumeData(left.data))
                ends += 1
                task.resume()
                error = await task.end()
            }
            kinds.count(error == nil ? "right" : (error as? URLError)?.code == .cancelled ? "cancelled" : "failed")
            #expect(outcome.calls.withLock { $0 } == ends, note)
            #expect(outcome.isRight.withLock { $0 } == (error == nil ? true : nil), note)
            // A task that was cancelled while its file was moved has left the file at its destination.
            let cause = (error as? DownloadMoveError)?.underlyingError as? DownloadError
            let isTaken = ends > 1 && cause.map { if case .fileExists = $0.reason { true } else { false } } == true
            if let error, !isTaken, (error as? URLError)?.code != .cancelled {
                #expect(number % 7 == 6, "\(note): \(error)")
            }
        }
    }

    @Test func `many tasks under load each end once, with the right bytes or an error`() async throws {
        let seed = UInt64(ProcessInfo.processInfo.environment["CONVOY_SEED"] ?? "") ?? .random(in: 1...9999)
        let fixture = try SessionFixture { $0.httpMaximumConnectionsPerHost = 32 }
        for kind in 0..<7 {
            fixture.server.servePattern(count: Self.length, at: "/file/\(kind)", etag: "\"1\"") { _, response in
                switch kind {
                case 0: response.delayedBody(0.002)
                case 1, 2: response.bandwidth(bytesPerSecond: 1_000_000)
                case 6: response.truncated(afterBytes: 25_000)
                default: response
                }
            }
        }
        let kinds = Kinds()
        let listener = StoryListener()
        fixture.manager.eventMonitors = [listener.monitor]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for thread in 0..<8 {
                group.addTask { [self] in try await run(thread, seed, fixture, kinds) }
            }
            try await group.waitForAll()
        }
        fixture.settle()
        try await waitUntil("all tasks have ended") { fixture.manager.tasks.isEmpty }
        #expect(fixture.manager.queuedOperationCount == 0)
        let faults = listener.faults()
        #expect(faults.isEmpty, "\(faults.first ?? ""), CONVOY_SEED=\(seed)")
        let seen = kinds.counts.withLock { $0 }
        #expect(seen["right", default: 0] > 2 * Self.count && seen["cancelled", default: 0] > 0, "\(seen)")
        #expect(seen["passed on", default: 0] > Self.count / 5, "\(seen)")
        print("tasks: \(seen.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", "))")
    }

    @Test func `a task controlled by many threads ends once`() async throws {
        let fixture = try SessionFixture()
        fixture.server.servePattern(count: 40_000, at: "/file", etag: "\"1\"")
        for round in 0..<60 {
            let outcome = Outcome()
            let task: SessionTask =
                round.isMultiple(of: 2)
                ? fixture.manager.downloadTask(with: fixture.request("/file")) { _, _, _ in
                    outcome.calls.withLock { $0 += 1 }
                }
                : fixture.manager.dataTask(with: fixture.request("/file")) { _, _, _ in outcome.calls.withLock { $0 += 1 } }
            await withTaskGroup(of: Void.self) { group in
                for thread in 0..<8 {
                    group.addTask {
                        for turn in 0..<10 {
                            switch (thread + turn) % 4 {
                            case 0: task.suspend()
                            case 1: if thread == 5, turn == 8 { task.cancel() }
                            default: task.resume()
                            }
                        }
                    }
                }
            }
            task.resume()
            await task.end()
            #expect(task.state == .completed && outcome.calls.withLock { $0 } == 1)
        }
    }
}
