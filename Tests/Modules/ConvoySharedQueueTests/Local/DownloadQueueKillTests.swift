import ConvoyDownloads
import ConvoySharedQueue
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Queues in processes that are killed.
@Suite struct DownloadQueueKillTests {
    private let fixture: QueueFixture

    init() throws { fixture = try QueueFixture() }

    private static func program() throws -> String {
        let tests = URL(fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
        return tests.deletingLastPathComponent().appendingPathComponent("StoreProgram").path
    }

    private func start(_ arguments: String..., log: String) throws -> ChildProcess {
        try ChildProcess(
            Self.program(), ["queue", fixture.home.path] + arguments, directory: fixture.directory.url,
            log: fixture.file(log))
    }

    @Test func `opening a queue in use reports the process that uses it`() async throws {
        let process = try start("hold", log: "log")
        try await waitUntil("the other process") { process.output == "open\n" }
        #expect(throws: DownloadQueueError.inUse(fixture.home, process: process.id)) { try fixture.open() }
        kill(process.id, SIGKILL)
        process.stop()
        _ = try fixture.open()
    }

    @Test func `requests are rejected on a full disk, and none is lost`() async throws {
        let result = try ProcessRunner.run(Self.program(), ["queue", fixture.home.path, "full"])
        #expect(result.status == 0, "\(result.errorText)")
        let lines = result.text.split(separator: "\n").map { $0.split(separator: " ", maxSplits: 1).map(String.init) }
        try #require(lines.count == 5, "\(result.text)")
        #expect(lines[0] == ["1", "full"])
        #expect(lines[1...2].allSatisfy { $0.last == "full" }, "\(result.text)")
        #expect(lines[3] == [lines[2][0], "not begun"])
        #expect(lines[4].last == "written")
        let queue = try fixture.open()
        #expect(queue.entries.count == Int(lines[4][0]))
        #expect(queue.states.allSatisfy { $0 == .waiting })
        #expect(queue.isPaused)
        #expect(fixture.bodies.count == queue.entries.count)
    }

    /// The combined output of the processes.
    private struct Story {
        var enqueued = -1
        var finished: Set<Int> = []
        var begun: Set<Int> = []

        /// Follows the output of a process, whose requests have numbers.
        mutating func follow(_ output: String) {
            for line in output.split(separator: "\n") {
                let words = line.split(separator: " ")
                guard words.count >= 2, let number = Int(words[1]) else { continue }
                switch words[0] {
                case "found": #expect(number > enqueued, "\(enqueued) was enqueued, and \(number) were found")
                case "enqueued": enqueued = number
                case "begun":
                    #expect(!finished.contains(number), "\(number) was begun again")
                    begun.insert(number)
                case "finished", "kept": finished.insert(number)
                case "failed": Issue.record("\(line)")
                default: break
                }
            }
        }
    }

    @Test("after a kill at any time, the next process sends the remaining requests in order, and no finished one again")
    func kills() async throws {
        let rounds = ProcessInfo.processInfo.environment["CONVOY_STORE_KILLS"].flatMap { Int($0) } ?? 25
        let bytes = PatternBytes.data(count: 300_000)
        fixture.server.serve(bytes, at: "/file/*", etag: "\"1\"") { _, response in
            response.bandwidth(bytesPerSecond: 10_000_000)
        }
        let posts = Locked<[(number: Int, key: String?)]>([])
        fixture.server.route("POST", "/post") { request in
            posts.withLock { $0.append((Int(request.text) ?? -1, request.headers["Idempotency-Key"])) }
            return .text("thanks").delayed(0.002)
        }
        var random = SplitMix64.printingSeed()
        var (story, count, kills) = (Story(), 20, 0)
        let server = fixture.server.url("/").absoluteString
        var round = 0
        while true {
            let process = try start("work", server, "\(count)", log: "log-\(round)")
            let isLast = round >= rounds
            if !isLast {
                let moment = Int.random(in: 5_000..<250_000, using: &random)
                await withCheckedContinuation { continuation in
                    DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(moment)) {
                        kill(process.id, SIGKILL)
                        continuation.resume()
                    }
                }
            } else {
                try await waitUntil(timeout: 120, "the last process") { !process.isRunning }
            }
            process.stop()
            story.follow(process.output)
            if process.exitStatus == 0 {
                #expect(process.output.contains("done \(count) finished\n"), "\(process.output)")
                if isLast { break }
                count += 10
            } else {
                #expect(process.exitStatus == 128 + SIGKILL, "\(process.output)")
                kills += 1
            }
            round += 1
        }
        // The test is meaningful only if a process was killed.
        #expect(kills > 0)
        print("\(kills) kills, \(count) requests, \(posts.withLock { $0.count }) posts")
        for number in stride(from: 0, to: count, by: 2) { #expect(fixture.contents("\(number)") == bytes, "\(number)") }
        let left = try FileManager.default.contentsOfDirectory(atPath: fixture.directory.url.path)
        #expect(left.allSatisfy { !$0.contains("convoy") }, "\(left)")
        try expectInOrder(posts.withLock { $0 }, count)
        #expect(fixture.bodies.isEmpty)
    }

    /// Checks that all requests arrive in order, and that repeated ones have the same key and arrive before the next
    /// one.
    private func expectInOrder(_ posts: [(number: Int, key: String?)], _ count: Int) throws {
        var keys: [Int: String?] = [:], last = -1
        for (number, key) in posts {
            if let known = keys[number] {
                #expect(known == key)
                #expect(number == last, "\(number) after \(last)")
            } else {
                #expect(number == (last < 0 ? 1 : last + 2))
                keys[number] = key
                last = number
            }
        }
        #expect(keys.count == count / 2)
        #expect(Set(keys.values.map { $0 ?? "" }).count == keys.count)
    }
}
