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

/// Transfers that loads share, and the images that they keep.
@Suite struct ImageDownloaderTests {
    @Test func `a hundred loads of an image share one transfer and one decoding`() async throws {
        let rig = try ImageRig()
        let gate = TestServer.Gate()
        try rig.serve("/one", 77, gate: gate)
        let processor = CountingProcessor()
        let log = LoadLog<(load: Int, number: Int)>()
        for load in 0..<100 {
            rig.downloader.load(rig.request("/one", processors: [processor]), on: rig.queue) { result in
                log.add((load, (try? result.get()).map(ImageRig.number) ?? -1))
            }
        }
        _ = try await rig.server.waitForRequests(count: 1)
        gate.open()
        try await waitUntil("100 completions") { log.entries.count == 100 }
        #expect(log.entries.map(\.number) == Array(repeating: 77, count: 100))
        #expect(log.entries.map(\.load) == Array(0..<100), "completions follow the order of the loads")
        #expect(rig.server.requests("/one").count == 1 && processor.count == 1)
        let accept = try #require(rig.server.requests("/one").first?.headers["Accept"])
        #expect(accept.contains("image/*") && accept.contains("image/webp") == Samples.formats.contains(.webp))
        #expect(rig.server.requests("/one").first?.headers["User-Agent"] != nil)
        // The image is served from memory, without a request, after `load` has returned.
        try await rig.waitUntilIdle()
        let isBefore = Atomic<Bool>(true)
        let late = LoadLog<Bool>()
        rig.queue.sync {
            _ = rig.downloader.load(rig.request("/one", processors: [processor]), on: rig.queue) { _ in
                late.add(isBefore.load(ordering: .relaxed))
            }
            isBefore.store(false, ordering: .relaxed)
        }
        try await waitUntil("a completion") { late.entries.count == 1 }
        #expect(late.entries == [false] && rig.server.requests("/one").count == 1 && processor.count == 1)
        #expect(rig.downloader.cachedImage(for: rig.request("/one", processors: [processor])).map(ImageRig.number) == 77)
        #expect(rig.downloader.cachedImage(for: rig.request("/one")) == nil)
    }

    @Test func `several variants of an image share one transfer`() async throws {
        let rig = try ImageRig()
        let gate = TestServer.Gate()
        try rig.serve("/one", gate: gate)
        async let whole = rig.downloader.image(for: rig.request("/one"))
        async let small = rig.downloader.image(for: rig.request("/one", size: ImageSize(width: 3, height: 3)))
        async let round = rig.downloader.image(for: rig.request("/one", processors: [ImageRounding.circle]))
        try await waitUntil("three forms") { rig.downloader.jobs.withLock { $0.shared.first?.value.variants.count == 3 } }
        gate.open()
        let sizes = try await [whole.size, small.size, round.size]
        #expect(sizes == [ImageSize(width: 6, height: 4), ImageSize(width: 3, height: 2), ImageSize(width: 4, height: 4)])
        #expect(rig.server.requests.count == 1)
    }

    @Test func `a transfer is cancelled only when its last load is cancelled`() async throws {
        let rig = try ImageRig()
        let gate = TestServer.Gate()
        defer { gate.open() }
        try rig.serve("/one", gate: gate)
        let log = LoadLog<Int>()
        var receipts = (0..<10).map { number in
            rig.downloader.load(rig.request("/one"), on: rig.queue) { _ in log.add(number) }
        }
        _ = try await rig.server.waitForRequests(count: 1)
        for number in 0..<10 where number != 4 { #expect(receipts[number].cancel()) }
        #expect(!receipts[0].cancel() && receipts[0].isEnded && !receipts[4].isEnded)
        #expect(rig.downloader.activeDownloadCount == 1)
        gate.open()
        try await waitUntil("a completion") { log.entries == [4] }
        #expect(!receipts[4].cancel())

        let held = TestServer.Gate()
        defer { held.open() }
        try rig.serve("/two", gate: held)
        receipts = (0..<3).map { number in
            rig.downloader.load(rig.request("/two"), on: rig.queue) { _ in log.add(number + 100) }
        }
        _ = try await rig.server.waitForRequests(count: 2)
        for receipt in receipts { receipt.cancel() }
        try await rig.waitUntilIdle()
        try await waitUntil("an abandoned request") { rig.server.statistics.abandonedRequestCount == 1 }
        #expect(log.entries == [4])
        // A new load does not join a cancelled one.
        held.open()
        #expect(ImageRig.number(try await rig.downloader.image(for: rig.request("/two"))) == 1)
        #expect(rig.server.requests("/two").count == 2)
    }

    @Test func `no handler is called after a cancellation on its queue`() async throws {
        let rig = try ImageRig()
        try rig.serve("/one")
        let violations = Atomic<Int>(0)
        let ended = Atomic<Int>(0)
        for round in 0..<300 {
            let path = "/\(round)"
            try rig.serve(path, round)
            let flag = LoadLog<Bool>()
            let receipt = rig.downloader.load(
                rig.request(path), on: rig.queue,
                progress: { _ in if !flag.entries.isEmpty { violations.add(1, ordering: .relaxed) } }
            ) { _ in
                if !flag.entries.isEmpty { violations.add(1, ordering: .relaxed) }
                ended.add(1, ordering: .relaxed)
            }
            rig.queue.asyncAfter(deadline: .now() + .microseconds(round * 20)) {
                if receipt.cancel() { ended.add(1, ordering: .relaxed) }
                flag.add(true)
            }
        }
        try await waitUntil("300 ends") { ended.load(ordering: .relaxed) == 300 }
        try await rig.waitUntilIdle()
        rig.queue.sync {}
        #expect(violations.load(ordering: .relaxed) == 0 && ended.load(ordering: .relaxed) == 300)
    }

    @Test func `cancelling a task ends its load with URLError.cancelled`() async throws {
        let rig = try ImageRig()
        let gate = TestServer.Gate()
        defer { gate.open() }
        try rig.serve("/one", gate: gate)
        let task = Task { try await rig.downloader.image(for: rig.request("/one")) }
        _ = try await rig.server.waitForRequests(count: 1)
        task.cancel()
        let error = await #expect(throws: URLError.self) { try await task.value }
        #expect(error?.code == .cancelled)
        #expect(error?.localizedDescription == "Loading the image was cancelled.")
        try await rig.waitUntilIdle()
        let early = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await rig.downloader.image(for: rig.request("/one"))
        }
        #expect(await #expect(throws: URLError.self) { try await early.value }?.code == .cancelled)
        try await rig.waitUntilIdle()
    }

    @Test func `five thousand waiting loads can be added and cancelled`() async throws {
        let rig = try ImageRig(limit: 1)
        let gate = TestServer.Gate()
        defer { gate.open() }
        try rig.serve("/first", gate: gate)
        let first = rig.downloader.load(rig.request("/first"), on: rig.queue) { _ in }
        _ = try await rig.server.waitForRequests(count: 1)
        let count = 5_000
        let receipts = (0..<count).map { number in rig.downloader.load(rig.request("/\(number)"), on: rig.queue) { _ in } }
        #expect(rig.downloader.waitingDownloadCount == count)
        for receipt in receipts { receipt.priority = .high }
        for receipt in receipts { #expect(receipt.cancel()) }
        #expect(rig.downloader.waitingDownloadCount == 0)
        first.cancel()
        try await rig.waitUntilIdle()
        #expect(rig.server.requests.count == 1)
    }

    // MARK: Users

    @Test func `requests with different credentials share neither transfers nor images`() async throws {
        let rig = try ImageRig()
        let gate = TestServer.Gate()
        let numbers = ["ada": 1, "grace": 2]
        let bodies = try numbers.mapValues { try ImageRig.numbered($0) }
        rig.server.route("GET", "/me") { request in
            let name = request.headers["Authorization"] ?? ""
            return TestServer.Response.bytes(bodies[name] ?? Data(), type: "image/png").held(by: gate)
        }
        func request(_ name: String) -> ImageRequest {
            var request = rig.request("/me")
            request.urlRequest.setValue(name, forHTTPHeaderField: "Authorization")
            return request
        }
        async let ada = rig.downloader.image(for: request("ada"))
        async let grace = rig.downloader.image(for: request("grace"))
        async let again = rig.downloader.image(for: request("ada"))
        try await waitUntil("two transfers") { rig.server.requests.count == 2 }
        gate.open()
        let seen = try await [ada, grace, again].map(ImageRig.number)
        #expect(seen == [1, 2, 1] && rig.server.requests.count == 2)
        #expect(rig.downloader.cachedImage(for: request("grace")).map(ImageRig.number) == 2)
        #expect(
            rig.downloader.cachedImage(for: request("eve")) == nil
                && rig.downloader.cachedImage(for: rig.request("/me")) == nil)
        #expect(rig.downloader.cache?.removeImages(for: rig.server.url("/me")) == 2)
    }

    // MARK: Freshness

    @Test func `an image stays in memory as long as its response is fresh`() async throws {
        let rig = try ImageRig()
        for (name, value) in [
            ("no-store", "no-store"), ("no-cache", "no-cache"), ("zero", "max-age=0"), ("hour", "max-age=3600"),
        ] {
            try rig.serve("/\(name)", headers: ["Cache-Control": value])
        }
        try rig.serve("/old", headers: ["Cache-Control": "max-age=60", "Age": "61"])
        try rig.serve("/unstated")
        try rig.serve("/second", headers: ["Cache-Control": "max-age=1"])
        for name in ["no-store", "no-cache", "zero", "hour", "old", "unstated"] {
            _ = try await rig.downloader.image(for: rig.request("/\(name)"))
            let isKept = rig.downloader.cachedImage(for: rig.request("/\(name)")) != nil
            #expect(isKept == ["hour", "unstated"].contains(name), "\(name)")
        }
        _ = try await rig.downloader.image(for: rig.request("/second"))
        try await waitUntil("a stale image") { rig.downloader.cachedImage(for: rig.request("/second")) == nil }
        var reload = rig.request("/hour")
        reload.urlRequest.cachePolicy = .reloadIgnoringLocalCacheData
        _ = try await rig.downloader.image(for: reload)
        #expect(rig.server.requests("/hour").count == 2 && rig.downloader.cachedImage(for: reload) == nil)
        var tagged = rig.request("/hour", size: ImageSize(width: 2, height: 2))
        tagged.cacheTag = "list"
        _ = try await rig.downloader.image(for: tagged)
        #expect(rig.downloader.cache?.removeImages(taggedWith: "list") == 1)
    }

    @Test func `the next run of a program loads its images from disk`() async throws {
        let directory = try TemporaryDirectory(prefix: "convoy-images")
        defer { directory.remove() }
        let server = try TestServer()
        server.route(
            "/one", .bytes(try ImageRig.numbered(9), type: "image/png").header("Cache-Control", "max-age=600"))
        for run in 0..<2 {
            let manager = HTTPRequestOperationManager()
            let cache = try HTTPCache(directory: directory.file("images"))
            manager.updateSettings { $0.cache = cache }
            let downloader = ImageDownloader(manager: manager, cache: ImageCache(respondsToMemoryPressure: false))
            let image = try await downloader.image(for: ImageRequest(server.url("/one")))
            #expect(ImageRig.number(image) == 9 && cache.hits == run)
            try cache.flush()
        }
        #expect(server.requests.count == 1)
    }

    @Test func `an image in memory covers a request for slightly fewer pixels`() async throws {
        let rig = try ImageRig()
        rig.server.route("/one", .bytes(try Samples.plain("png", width: 600, height: 400), type: "image/png"))
        func covering(_ width: Int, _ height: Int, processors: [any ImageProcessor] = []) -> Int? {
            rig.downloader.cachedImage(
                covering: rig.request("/one", size: ImageSize(width: width, height: height), processors: processors))?
                .image.width
        }
        _ = try await rig.downloader.image(for: rig.request("/one", size: ImageSize(width: 300, height: 300)))
        #expect(covering(300, 300) == 300 && covering(150, 150) == 300 && covering(200, 300) == 300)
        #expect(covering(301, 300) == nil && covering(149, 149) == nil)
        #expect(covering(200, 200, processors: [ImageRounding.circle]) == nil)
        _ = try await rig.downloader.image(for: rig.request("/one", size: ImageSize(width: 200, height: 200)))
        #expect(covering(190, 190) == 200, "the smallest that suffices")
        #expect(rig.downloader.cachedImage(for: rig.request("/one", size: ImageSize(width: 190, height: 190))) == nil)
        // An image that was not reduced has all pixels for a larger size, too.
        #expect(covering(900, 900) == nil)
        _ = try await rig.downloader.image(for: rig.request("/one", size: ImageSize(width: 601, height: 500)))
        #expect(covering(601, 500) == 600 && covering(900, 900) == 600)
        rig.downloader.cache?.removeAll()
        for (width, height, mode) in [(600, 401, ImageContentMode.fit), (700, 400, .fit), (600, 300, .fill)] {
            var request = rig.request("/one", size: ImageSize(width: width, height: height))
            request.contentMode = mode
            _ = try await rig.downloader.image(for: request)
            request.size = ImageSize(width: 900, height: 900)
            #expect(rig.downloader.cachedImage(covering: request) == nil, "the image may have been reduced")
        }
        _ = try await rig.downloader.image(for: rig.request("/one"))
        #expect(covering(500, 500) == 600)
    }
}
#endif
