#if Images
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyImage

/// Random loads, cancellations and priority changes from several threads, with random responses.
@Suite(.serialized) struct ImageStormTests {
    private final class Counts: Sendable {
        let completions = Atomic<Int>(0)
        let cancels = Atomic<Int>(0)
        let failures = Atomic<Int>(0)
        let wrong = Atomic<Int>(0)
        let live = Locked<[WeakReceipt]>([])
    }

    private struct WeakReceipt: Sendable {
        weak var receipt: ImageDownloadReceipt?
    }

    /// An object that is released together with the closure that retains it.
    private final class Witness: Sendable {
        static let count = Atomic<Int>(0)
        init() { Self.count.add(1, ordering: .relaxed) }
        deinit { Self.count.subtract(1, ordering: .relaxed) }
    }

    /// Starts loads, cancels some of them, and changes priorities.
    private func load(
        _ count: Int, _ rig: ImageRig, _ cache: ImageCache, _ queues: [DispatchQueue], _ counts: Counts,
        _ seeded: SplitMix64
    ) async {
        var generator = seeded
        var held: [ImageDownloadReceipt] = []
        for step in 0..<count {
            let number = Int.random(in: 0..<24, using: &generator)
            var request = rig.request("/\(number)")
            if Bool.random(using: &generator) { request.size = ImageSize(width: 3, height: 3) }
            if Int.random(in: 0..<4, using: &generator) == 0 { request.processors = [ImageRounding.circle] }
            request.priority = PriorityLevel.priority(.random(in: 0..<5, using: &generator))
            let receipt = load(
                request, number, rig, queues[step % 3], counts, Int.random(in: 0..<10, using: &generator) == 0)
            counts.live.withLock { $0.append(WeakReceipt(receipt: receipt)) }
            held.append(receipt)
            // Later cancellations may find a load that has already completed.
            if Int.random(in: 0..<6, using: &generator) == 0, receipt.cancel() { counts.cancels.add(1, ordering: .relaxed) }
            for _ in 0..<Int.random(in: 0..<3, using: &generator) {
                guard let other = held.randomElement(using: &generator) else { break }
                if Bool.random(using: &generator) {
                    if other.cancel() { counts.cancels.add(1, ordering: .relaxed) }
                } else {
                    other.priority = PriorityLevel.priority(.random(in: 0..<5, using: &generator))
                }
            }
            if held.count > 60 { held.removeFirst(30) }
            if step % 50 == 0 { cache.removeAll() }
            if step % 8 == 0 { try? await Task.sleep(for: .microseconds(500)) }
        }
    }

    private func load(
        _ request: ImageRequest, _ number: Int, _ rig: ImageRig, _ queue: DispatchQueue, _ counts: Counts,
        _ wantsPreview: Bool
    ) -> ImageDownloadReceipt {
        let witness = Witness()
        let progress: @Sendable (TransferProgress) -> Void = { _ in withExtendedLifetime(witness) {} }
        let preview: @Sendable (Image) -> Void = { _ in withExtendedLifetime(witness) {} }
        return rig.downloader.load(
            request, on: queue, progress: wantsPreview ? progress : nil, preview: wantsPreview ? preview : nil
        ) { result in
            withExtendedLifetime(witness) {}
            counts.completions.add(1, ordering: .relaxed)
            switch result {
            case .success(let image):
                if ImageRig.number(image) != number { counts.wrong.add(1, ordering: .relaxed) }
            case .failure: counts.failures.add(1, ordering: .relaxed)
            }
        }
    }

    @Test func `each of 10,000 loads completes or is cancelled exactly once, and nothing leaks`() async throws {
        let seed = UInt64.random(in: 0...999_999_999)
        print("ImageStormTests: seed \(seed)")
        // The small cache purges images, which are then loaded again.
        let cache = ImageCache(
            memoryCapacity: 1_500, preferredMemoryUsageAfterPurge: 700, respondsToMemoryPressure: false)
        let rig = try ImageRig(cache: cache, limit: 6) { $0.prioritization = .lifo }
        let bodies = try (0..<24).map { try ImageRig.numbered($0) }
        let random = Locked(SplitMix64(seed: seed))
        rig.server.route(nil, "/*") { request in
            let number = Int(request.path.dropFirst()) ?? 0
            let body = bodies[number % 24]
            let choice = random.withLock { Int.random(in: 0..<20, using: &$0) }
            switch choice {
            case 0: return .status(500)
            case 1: return TestServer.Response.bytes(body, type: "image/png").truncated(afterBytes: 30)
            case 2: return .bytes(body.dropLast(20), type: "image/png")
            case 3: return TestServer.Response.bytes(body, type: "image/png").delayed(0.004)
            case 4: return TestServer.Response.bytes(body, type: "image/png").resetBeforeHead()
            case 5: return TestServer.Response.bytes(body, type: "image/png").header("Cache-Control", "no-store")
            default: return .bytes(body, type: "image/png")
            }
        }
        // Load an image first, so that its permanent allocations do not count as a leak.
        _ = try? await rig.downloader.image(for: rig.request("/0"))
        try await rig.waitUntilIdle()
        rig.downloader.manager.cancelAllOperations()
        let descriptors = ProcessMeters.openDescriptors
        let counts = Counts()
        let queues = [rig.queue, DispatchQueue(label: "other"), DispatchQueue(label: "all", attributes: .concurrent)]
        let threads = 4
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<threads {
                group.addTask {
                    await load(
                        10_000 / threads, rig, cache, queues, counts, SplitMix64(seed: seed &+ UInt64(thread)))
                }
            }
        }
        try await waitUntil("all ends") {
            counts.completions.load(ordering: .relaxed) + counts.cancels.load(ordering: .relaxed) >= 10_000
        }
        try await rig.waitUntilIdle()
        for queue in queues { queue.sync(flags: .barrier) {} }
        let (completions, cancels) = (counts.completions.load(ordering: .relaxed), counts.cancels.load(ordering: .relaxed))
        let failures = counts.failures.load(ordering: .relaxed)
        print(
            "ImageStormTests: \(completions) completions, \(failures) of them failures, \(cancels) cancels, "
                + "\(rig.server.requests.count) requests")
        #expect(completions + cancels == 10_000 && counts.wrong.load(ordering: .relaxed) == 0, "seed \(seed)")
        #expect(completions - failures > 1_000 && failures > 100 && cancels > 1_000, "each kind of outcome occurs often")
        #expect(rig.downloader.activeDownloadCount == 0 && rig.downloader.waitingDownloadCount == 0)
        try await waitUntil("no receipt left") { counts.live.withLock { $0.allSatisfy { $0.receipt == nil } } }
        try await waitUntil("no closure left") { Witness.count.load(ordering: .relaxed) == 0 }
        // Idle connections to the server stay open, within their limit.
        rig.server.dropConnections()
        try await waitUntil("no more descriptors than before") { ProcessMeters.openDescriptors <= descriptors + 8 }
    }

    /// Serves an image of 230 kB in parts, slowly, and with the faults of servers.
    private static func answer(
        _ request: RecordedRequest, _ body: Data, _ generator: inout SplitMix64
    ) -> TestServer.Response {
        let version = Int.random(in: 0..<8, using: &generator) == 0 ? "\"2\"" : "\"1\""
        let start = request.headers["Range"].flatMap { Int($0.dropFirst(6).prefix { $0 != "-" }) }
        var response = TestServer.Response.bytes(body, type: "image/bmp")
        if let start, start < body.count, request.headers["If-Range"] == version,
            Int.random(in: 0..<8, using: &generator) > 0
        {
            response = TestServer.Response.bytes(body.dropFirst(start), type: "image/bmp", status: 206)
                .header("Content-Range", "bytes \(start)-\(body.count - 1)/\(body.count)")
        }
        response = response.header("ETag", version).header("Accept-Ranges", "bytes").bandwidth(bytesPerSecond: 8 << 20)
        switch Int.random(in: 0..<12, using: &generator) {
        case 0: return response.stalls(afterBytes: 100_000)
        case 1: return response.truncated(afterBytes: 120_000)
        case 2: return response.resets(afterBytes: 90_000)
        default: return response
        }
    }

    @Test func `each of 400 loads that are cancelled and resumed ends once, with its own image`() async throws {
        let seed = UInt64.random(in: 0...999_999_999)
        print("ImageStormTests: seed \(seed)")
        let rig = try ImageRig(cache: nil, limit: 5) { $0.totalTimeout = 0.7 }
        let bodies = try (0..<10).map {
            try Samples.plain("bmp", width: 320, height: 240, color: UInt32($0) << 8 | 0xFF)
        }
        let random = Locked(SplitMix64(seed: seed))
        rig.server.route(nil, "/*") { request in
            let body = bodies[(Int(request.path.dropFirst()) ?? 0) % bodies.count]
            return random.withLock { Self.answer(request, body, &$0) }
        }
        let counts = Counts()
        let loads = 400
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask {
                    var generator = SplitMix64(seed: seed &+ UInt64(thread))
                    for _ in 0..<(loads / 4) {
                        let number = Int.random(in: 0..<bodies.count, using: &generator)
                        var request = rig.request("/\(number)")
                        if Bool.random(using: &generator) { request.size = ImageSize(width: 30, height: 30) }
                        let receipt = load(request, number, rig, rig.queue, counts, false)
                        counts.live.withLock { $0.append(WeakReceipt(receipt: receipt)) }
                        try? await Task.sleep(for: .milliseconds(Int.random(in: 0..<30, using: &generator)))
                        if Int.random(in: 0..<3, using: &generator) > 0, receipt.cancel() {
                            counts.cancels.add(1, ordering: .relaxed)
                        }
                    }
                }
            }
        }
        try await waitUntil("all ends") {
            counts.completions.load(ordering: .relaxed) + counts.cancels.load(ordering: .relaxed) >= loads
        }
        try await rig.waitUntilIdle()
        // The bytes of cancelled loads are kept only until their time limits.
        try await waitUntil("the end of all transfers") { rig.downloader.jobs.withLock { $0.shared.isEmpty } }
        rig.queue.sync {}
        let (completions, cancels) = (counts.completions.load(ordering: .relaxed), counts.cancels.load(ordering: .relaxed))
        let failures = counts.failures.load(ordering: .relaxed)
        let resumed = rig.server.requests.count { $0.headers["Range"] != nil }
        print(
            "ImageStormTests: \(completions) completions, \(failures) of them failures, \(cancels) cancels, "
                + "\(resumed) resumed")
        #expect(completions + cancels == loads && counts.wrong.load(ordering: .relaxed) == 0, "seed \(seed)")
        #expect(completions - failures > 20 && cancels > 20 && resumed > 0)
        #expect(rig.downloader.activeDownloadCount == 0 && rig.downloader.waitingDownloadCount == 0)
        try await waitUntil("no receipt left") { counts.live.withLock { $0.allSatisfy { $0.receipt == nil } } }
    }
}
#endif
