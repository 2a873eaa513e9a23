import ConvoyDownloads
import ConvoyOperations
import ConvoySharedQueue
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Many threads that use one queue.
struct DownloadQueueStormTests {
    private let fixture: QueueFixture
    private let bytes = PatternBytes.data(count: 100_000)

    init() throws { fixture = try QueueFixture() }

    /// The requests that a thread has enqueued and not cancelled.
    private struct Left: Sendable {
        var downloads: [UUID: String] = [:]
        var posts: [UUID: String] = [:]
        var operations: [HTTPRequestOperation] = []
    }

    private func storm(_ queue: DownloadQueue, _ thread: Int, _ seed: SplitMix64) async throws -> Left {
        var (random, left, known) = (seed, Left(), [UUID]())
        for round in 0..<60 {
            let any = known.randomElement(using: &random)
            switch Int.random(in: 0..<12, using: &random) {
            case 0...3:
                var (new, names) = ([any DurableRequest](), [String]())
                for number in 0..<Int.random(in: 1...4, using: &random) {
                    let name = "\(thread)-\(round)-\(number)"
                    var request: any DurableRequest =
                        Bool.random(using: &random)
                        ? fixture.download("/file", to: name) : fixture.post("/post", name)
                    if let before = new.last, Bool.random(using: &random) { request.dependencies = [before.id] }
                    request.failedDependencyPolicy = .run
                    new.append(request)
                    names.append(name)
                }
                left.operations += try await queue.enqueue(new)
                for (request, name) in zip(new, names) {
                    known.append(request.id)
                    if request is DownloadRequest {
                        left.downloads[request.id] = name
                    } else {
                        left.posts[request.id] = name
                    }
                }
            case 4...5: if let any { try? queue.pause(any) }
            case 6...7: if let any { try? queue.resume(any) }
            case 8:
                guard let any else { break }
                try? queue.cancel(any)
                known.removeAll { $0 == any }
                (left.downloads[any], left.posts[any]) = (nil, nil)
            case 9: if let any { try? queue.setPriority(Bool.random(using: &random) ? .high : .low, of: any) }
            case 10: if let any { try? queue.retry(any) }
            default: if Bool.random(using: &random) { queue.pause() } else { queue.resume() }
            }
            _ = queue.entries.count
        }
        return left
    }

    @Test func `all remaining entries complete while many threads change the queue`() async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        fixture.server.route("POST", "/post", .text("thanks"))
        let rounds = ProcessInfo.processInfo.environment["CONVOY_QUEUE_STORMS"].flatMap { Int($0) } ?? 3
        var random = SplitMix64.printingSeed()
        for round in 0..<rounds {
            let home = fixture.directory.url.appendingPathComponent("storm-\(round)")
            for file in try FileManager.default.contentsOfDirectory(atPath: fixture.directory.url.path)
            where file.contains("-") && !file.hasPrefix("storm") {
                try FileManager.default.removeItem(at: fixture.file(file))
            }
            fixture.server.forgetRequests()
            let queue = try fixture.open(home)
            queue.start()
            let seeds = (0..<4).map { _ in random.fork() }
            let all = try await withThrowingTaskGroup(of: Left.self) { group in
                for (thread, seed) in seeds.enumerated() {
                    group.addTask { try await storm(queue, thread, seed) }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            // Run the rest in another queue, as after a restart.
            await queue.close()
            for operation in all.flatMap(\.operations) {
                try? await operation.finished()
                #expect(operation.isFinished)
            }
            let next = try fixture.open(home)
            next.resume()
            next.start()
            for entry in next.entries where entry.state == .paused { try next.resume(entry.id) }
            try await next.waitUntilAllFinished()
            for entry in next.entries where entry.state == .failed { Issue.record("\(entry)") }
            let downloads = all.reduce(into: [:]) { $0.merge($1.downloads) { one, _ in one } }
            let posts = all.reduce(into: [:]) { $0.merge($1.posts) { one, _ in one } }
            #expect(Set(next.entries.map(\.id)) == Set(downloads.keys).union(posts.keys))
            for name in downloads.values { #expect(fixture.contents(name) == bytes) }
            var keys: [String: Set<String?>] = [:]
            for request in fixture.server.requests("/post") {
                keys[request.text, default: []].insert(request.headers["Idempotency-Key"])
            }
            for name in posts.values { #expect(keys[name]?.count == 1, "\(name)") }
            #expect(keys.values.allSatisfy { $0.count == 1 })
            await next.close()
            #expect(!posts.isEmpty && !downloads.isEmpty)
        }
    }

    @Test func `many threads can enqueue requests concurrently`() async throws {
        let queue = try fixture.open()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for thread in 0..<8 {
                group.addTask {
                    for number in 0..<25 { try await queue.enqueue(fixture.post("/post", "\(thread) \(number)")) }
                }
            }
            try await group.waitForAll()
        }
        let before = queue.entries.map(\.id)
        #expect(before.count == 200)
        await queue.close()
        #expect(try fixture.open().entries.map(\.id) == before)
        #expect(fixture.bodies.count == 200)
    }
}
