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
}
#endif
