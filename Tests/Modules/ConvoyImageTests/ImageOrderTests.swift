#if Images
import ConvoyCache
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyImage

/// The order and the number of downloads.
@Suite struct ImageOrderTests {
    /// Returns the order in which waiting downloads start after one that holds the only slot.
    private func order(
        _ prioritization: ImageDownloader.Prioritization,
        _ arrange: (ImageRig, (String, Operation.QueuePriority) -> ImageDownloadReceipt) throws -> Void
    ) async throws -> [String] {
        let rig = try ImageRig(limit: 1) { $0.prioritization = prioritization }
        let gate = TestServer.Gate()
        try rig.serve("/first", gate: gate)
        for name in ["a", "b", "c", "d", "e"] { try rig.serve("/\(name)") }
        let log = LoadLog<String>()
        func load(_ path: String, _ priority: Operation.QueuePriority) -> ImageDownloadReceipt {
            var request = rig.request(path)
            request.priority = priority
            return rig.downloader.load(request, on: rig.queue) { _ in log.add(path) }
        }
        _ = load("/first", .normal)
        _ = try await rig.server.waitForRequests(count: 1)
        try arrange(rig, load)
        gate.open()
        try await rig.waitUntilIdle()
        return rig.server.requests.dropFirst().map(\.path)
    }

    @Test func `waiting downloads start in FIFO or LIFO order`() async throws {
        let names = ["/a", "/b", "/c", "/d"]
        let first = try await order(.fifo) { _, load in for name in names { _ = load(name, .normal) } }
        #expect(first == names)
        let last = try await order(.lifo) { _, load in for name in names { _ = load(name, .normal) } }
        #expect(last == names.reversed())
        // An image that is requested again moves to the front; with `fifo`, it keeps its position.
        let again = try await order(.lifo) { _, load in for name in names + ["/b"] { _ = load(name, .normal) } }
        #expect(again == ["/b", "/d", "/c", "/a"])
        let kept = try await order(.fifo) { _, load in for name in names + ["/b"] { _ = load(name, .normal) } }
        #expect(kept == names)
    }

    @Test func `a download has the highest priority of its loads, and changes reorder the queue`() async throws {
        let order = try await order(.fifo) { rig, load in
            let low = load("/a", .veryLow)
            _ = load("/b", .low)
            let normal = load("/c", .normal)
            let other = load("/d", .low)
            let joined = load("/d", .veryHigh)
            _ = load("/e", .high)
            #expect(rig.downloader.waitingDownloadCount == 5)
            // `/d` falls back to the priority of the remaining load.
            #expect(joined.cancel() && other.priority == .low)
            normal.priority = .veryLow
            low.priority = .veryHigh
            #expect(low.priority == .veryHigh)
        }
        #expect(order == ["/a", "/e", "/b", "/d", "/c"])
    }

    @Test func `the number of parallel downloads is limited`() async throws {
        let rig = try ImageRig(limit: 3)
        let gate = TestServer.Gate()
        for number in 0..<20 { try rig.serve("/\(number)", number, gate: gate) }
        let log = LoadLog<Int>()
        for number in 0..<20 {
            rig.downloader.load(rig.request("/\(number)"), on: rig.queue) {
                log.add((try? $0.get()).map(ImageRig.number) ?? -1)
            }
        }
        _ = try await rig.server.waitForRequests(count: 3)
        #expect(rig.downloader.activeDownloadCount == 3 && rig.downloader.waitingDownloadCount == 17)
        gate.open()
        try await waitUntil("20 images") { log.entries.count == 20 }
        #expect(rig.server.peakActiveRequestCount <= 3 && Set(log.entries) == Set(0..<20))
    }

    @Test func `a prefetch yields to loads, and a load of the same image promotes it`() async throws {
        let rig = try ImageRig(limit: 1)
        let gate = TestServer.Gate()
        try rig.serve("/first", gate: gate)
        for name in ["a", "b", "c"] { try rig.serve("/\(name)") }
        rig.downloader.load(rig.request("/first"), on: rig.queue) { _ in }
        _ = try await rig.server.waitForRequests(count: 1)
        let prefetcher = ImagePrefetcher(downloader: rig.downloader, maximumActiveDownloads: 5)
        prefetcher.startPrefetching(["/a", "/b", "/a"].map { rig.request($0) })
        #expect(prefetcher.count == 2)
        rig.downloader.load(rig.request("/c"), on: rig.queue) { _ in }
        var urgent = rig.request("/b")
        urgent.priority = .high
        rig.downloader.load(urgent, on: rig.queue) { _ in }
        gate.open()
        try await rig.waitUntilIdle()
        #expect(rig.server.requests.map(\.path) == ["/first", "/b", "/c", "/a"])
        #expect(rig.downloader.cachedImage(for: rig.request("/a")) != nil)
        try await waitUntil("an idle prefetcher") { prefetcher.count == 0 }
        prefetcher.startPrefetching([rig.request("/a")])
        #expect(prefetcher.count == 0, "the image is in memory")
    }

    @Test func `a prefetcher stops individual requests, and all when it is released`() async throws {
        let rig = try ImageRig()
        let gate = TestServer.Gate()
        defer { gate.open() }
        for name in ["a", "b", "c", "d"] { try rig.serve("/\(name)", gate: gate) }
        let requests = ["/a", "/b", "/c", "/d"].map { rig.request($0) }
        do {
            let prefetcher = ImagePrefetcher(downloader: rig.downloader, maximumActiveDownloads: 1)
            prefetcher.startPrefetching(requests)
            _ = try await rig.server.waitForRequests(count: 1)
            prefetcher.stopPrefetching([requests[0], requests[2]])
            #expect(prefetcher.count == 2)
            _ = try await rig.server.waitForRequests(count: 2)
            #expect(rig.server.requests.map(\.path) == ["/a", "/b"])
        }
        try await rig.waitUntilIdle()
        #expect(rig.server.requests.count == 2)
    }
}
#endif
