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

    /// Serves an image of 300 kB with ranges. The first response stops after half of it.
    private func serveHalf(_ rig: ImageRig, _ path: String, _ gate: TestServer.Gate) throws -> Data {
        var generator = SplitMix64(seed: 5)
        let body = try Samples.saved("bmp", width: 320, height: 320) + generator.data(count: 10)
        let isFirst = Locked(true)
        rig.server.route(nil, path) { request in
            let start = request.headers["Range"].flatMap { Int($0.dropFirst(6).prefix { $0 != "-" }) }
            let part = body.dropFirst(start ?? 0)
            var response = TestServer.Response.bytes(Data(part), type: "image/bmp").header("ETag", "\"1\"")
                .header("Accept-Ranges", "bytes")
            if let start {
                response = response.status(206).header(
                    "Content-Range", "bytes \(start)-\(body.count - 1)/\(body.count)")
            }
            let isHeld = isFirst.withLock { first in
                defer { first = false }
                return first
            }
            return isHeld ? response.heldBody(by: gate, afterBytes: 150_000) : response
        }
        return body
    }

    @Test(arguments: [true, false])
    func `a load after a cancelled one requests only the rest`(isKept: Bool) async throws {
        let rig = try ImageRig { $0.resumesCancelledLoads = isKept }
        let gate = TestServer.Gate()
        defer { gate.open() }
        let body = try serveHalf(rig, "/one", gate)
        let half = LoadLog<Int64>()
        let receipt = rig.downloader.load(
            rig.request("/one"), on: rig.queue, progress: { half.add($0.bytesReceived) }
        ) { _ in Issue.record("a cancelled load completes") }
        try await waitUntil("half of the image") { half.entries.last ?? 0 >= 150_000 }
        #expect(receipt.cancel())
        try await rig.waitUntilIdle()
        #expect(rig.downloader.activeDownloadCount == 0)
        let image = try await rig.downloader.image(for: rig.request("/one"))
        #expect(image == (try decode(body)))
        let ranges = rig.server.requests.map { $0.headers["Range"] }
        #expect(ranges == (isKept ? [nil, "bytes=150000-"] : [nil, nil]), "\(ranges)")
        #expect(isKept == (rig.server.requests.last?.headers["If-Range"] != nil))
    }

    @Test func `cancelled loads are kept up to a limit, and can be cancelled again while they resume`() async throws {
        let rig = try ImageRig(limit: 20)
        let gate = TestServer.Gate()
        defer { gate.open() }
        var bodies: [Data] = []
        for number in 0..<12 { bodies.append(try serveHalf(rig, "/\(number)", gate)) }
        let counts = LoadLog<Int>()
        let receipts = (0..<12).map { number in
            rig.downloader.load(
                rig.request("/\(number)"), on: rig.queue,
                progress: { if $0.bytesReceived >= 150_000 { counts.add(number) } }
            ) { _ in }
        }
        try await waitUntil("all halves") { Set(counts.entries).count == 12 }
        for receipt in receipts { receipt.cancel() }
        try await rig.waitUntilIdle()
        // Loads that are cancelled and begun at once end in one transfer each.
        for number in 0..<12 {
            for _ in 0..<5 { rig.downloader.load(rig.request("/\(number)"), on: rig.queue) { _ in }.cancel() }
            #expect(try await rig.downloader.image(for: rig.request("/\(number)")) == decode(bodies[number]))
        }
        try await rig.waitUntilIdle()
        // The bytes of the last eight images were kept.
        let ranged = Set(rig.server.requests.filter { $0.headers["Range"] != nil }.map(\.path))
        #expect(!ranged.isEmpty && ranged.isSubset(of: Set((4..<12).map { "/\($0)" })), "\(ranged)")
        #expect(rig.downloader.activeDownloadCount == 0 && rig.downloader.waitingDownloadCount == 0)
    }

    // MARK: Order

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

    // MARK: Bad images

    @Test func `a bad image fails only its own load`() async throws {
        let rig = try ImageRig(limit: 2) {
            $0.maximumBodySize = 100_000
            $0.imageLimits = ImageLimits(maximumPixelCount: 1_000_000)
        }
        let good = try ImageRig.numbered(3)
        let responses: [String: TestServer.Response] = [
            "/corrupt": .bytes(Data("\u{89}PNG\r\n\u{1A}\n not at all".utf8), type: "image/png"),
            "/text": .text("hello"),
            "/huge": .bytes(Samples.pngBomb(width: 30_000, height: 30_000), type: "image/png"),
            "/cut": .bytes(good.dropLast(15), type: "image/png"),
            "/short": TestServer.Response.bytes(good, type: "image/png").truncated(afterBytes: 20),
            "/reset": TestServer.Response.bytes(good, type: "image/png").resets(afterBytes: 20),
            "/missing": .status(404), "/empty": .status(204),
            "/endless": TestServer.Response.chunked(
                Array(repeating: "GIF89a" + String(repeating: "a", count: 10_000), count: 1_000), type: "image/gif"),
            "/announced": TestServer.Response.bytes(Data(count: 200_000), type: "image/png"),
        ]
        for (path, response) in responses { rig.server.route(path, response) }
        for number in 0..<10 { try rig.serve("/\(number)", number) }
        let log = LoadLog<(String, Result<Image, any Error>)>()
        let paths = responses.keys.sorted()
        for (number, path) in paths.enumerated() {
            rig.downloader.load(rig.request(path), on: rig.queue) { log.add((path, $0)) }
            rig.downloader.load(rig.request("/\(number)"), on: rig.queue) { log.add(("/\(number)", $0)) }
        }
        try await waitUntil("20 ends") { log.entries.count == 20 }
        for (path, result) in log.entries {
            switch result {
            case .success(let image):
                #expect(responses[path] == nil && ImageRig.number(image) == Int(path.dropFirst()), "\(path)")
            case .failure(let error):
                #expect(responses[path] != nil, "\(path): \(error)")
                let code = (error as NSError).code
                let expected: [String: [Int]] = [
                    "/missing": [NSURLErrorBadServerResponse], "/huge": [NSURLErrorDataLengthExceedsMaximum],
                    "/endless": [NSURLErrorDataLengthExceedsMaximum], "/announced": [NSURLErrorDataLengthExceedsMaximum],
                    "/short": [NSURLErrorNetworkConnectionLost], "/reset": [NSURLErrorNetworkConnectionLost],
                ]
                #expect(expected[path, default: [NSURLErrorCannotDecodeContentData]].contains(code), "\(path): \(error)")
            }
        }
        try await rig.waitUntilIdle()
    }

    @Test(arguments: [
        "image/jpg", "image/pjpeg", "image/x-png", "image/apng", "image/vnd.microsoft.icon", "text/plain", "",
    ])
    func `the bytes determine the format, not the content type`(type: String) async throws {
        let rig = try ImageRig()
        rig.server.route("/one", .bytes(try ImageRig.numbered(6), type: type))
        #expect(ImageRig.number(try await rig.downloader.image(for: rig.request("/one"))) == 6)
        // The serializer with AFNetworking's types is strict.
        #expect(ImageResponseSerializer.contentTypes.contains(type) == false)
        var strict = ImageDownloader.Configuration()
        strict.acceptableContentTypes = ImageResponseSerializer.contentTypes
        let downloader = ImageDownloader(manager: HTTPRequestOperationManager(), configuration: strict)
        // A missing type is accepted.
        guard !type.isEmpty else { return }
        await #expect(throws: NSError.self) { try await downloader.image(for: rig.request("/one")) }
    }

    @Test(arguments: ["", "<html>Try again later</html>", "\u{89}PNG\r\n\u{1A}\n and nothing"])
    func `a body that is not an image does not stay in the HTTP cache`(body: String) async throws {
        let rig = try ImageRig()
        rig.downloader.manager.cache = HTTPCache()
        rig.server.route(
            "/one", TestServer.Response.bytes(Data(body.utf8), type: "image/png").header("Cache-Control", "max-age=3600"))
        await #expect(throws: NSError.self) { try await rig.downloader.image(for: rig.request("/one")) }
        try await rig.waitUntilIdle()
        try rig.serve("/one", 8, headers: ["Cache-Control": "max-age=3600"])
        #expect(ImageRig.number(try await rig.downloader.image(for: rig.request("/one"))) == 8)
        #expect(rig.server.requests.count == 2)
        // An image does stay there.
        rig.downloader.cache?.removeAll()
        #expect(ImageRig.number(try await rig.downloader.image(for: rig.request("/one"))) == 8)
        #expect(rig.server.requests.count == 2)
    }

    @Test func `an image that lacks only its end marker is loaded unless the setting forbids it`() async throws {
        for isRequired in [false, true] {
            let rig = try ImageRig { $0.requiresEndMarker = isRequired }
            rig.server.route("/one", .bytes(try ImageRig.numbered(6).dropLast(12), type: "image/png"))
            let image = try? await rig.downloader.image(for: rig.request("/one"))
            #expect((image == nil) == isRequired)
        }
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
        _ = try await rig.downloader.image(for: rig.request("/one"))
        #expect(covering(500, 500) == 600)
    }

    @Test func `an image that never completes times out`() async throws {
        let rig = try ImageRig { $0.totalTimeout = 0.3 }
        rig.server.route(
            "/slow", TestServer.Response.bytes(try ImageRig.numbered(1), type: "image/png").stalls(afterBytes: 20))
        let error = await #expect(throws: URLError.self) { try await rig.downloader.image(for: rig.request("/slow")) }
        #expect(error?.code == .timedOut)
        try await rig.waitUntilIdle()
    }

    @Test func `an error in a processor fails only the variant that uses it`() async throws {
        struct Failing: ImageProcessor {
            struct Failure: Error {}
            var identifier: String { "failing" }
            func process(_ image: Image) throws -> Image { throw Failure() }
        }
        let rig = try ImageRig()
        let gate = TestServer.Gate()
        try rig.serve("/one", 5, gate: gate)
        async let failed: Image = rig.downloader.image(for: rig.request("/one", processors: [Failing()]))
        async let whole = rig.downloader.image(for: rig.request("/one"))
        try await waitUntil("two forms") { rig.downloader.jobs.withLock { $0.shared.first?.value.variants.count == 2 } }
        gate.open()
        #expect(ImageRig.number(try await whole) == 5)
        do {
            _ = try await failed
            Issue.record("a failing processor must fail its load")
        } catch {
            #expect(error is Failing.Failure)
        }
        #expect(rig.server.requests.count == 1)
    }

    // MARK: Previews

    @Test func `previews of a progressive JPEG are delivered only to loads that request them`() async throws {
        let rig = try ImageRig { $0.previewInterval = 0 }
        var response = TestServer.Response.drip(Samples.progressive, chunk: 64, interval: 0.01)
        response.headers["Content-Type"] = "image/jpeg"
        rig.server.route("/coarse", response)
        let previews = LoadLog<Image>()
        let progress = LoadLog<TransferProgress>()
        let ends = LoadLog<Image?>()
        let processor = CountingProcessor()
        rig.downloader.load(rig.request("/coarse", processors: [processor]), on: rig.queue) { ends.add(try? $0.get()) }
        rig.downloader.load(
            rig.request("/coarse"), on: rig.queue, progress: { progress.add($0) },
            preview: { preview in
                if !ends.entries.isEmpty, ends.entries.count == 2 { Issue.record("a preview after the end") }
                previews.add(preview)
            }
        ) { ends.add(try? $0.get()) }
        try await waitUntil("both ends") { ends.entries.count == 2 }
        #expect(processor.count == 1, "a load without previews is decoded only once")
        let images = previews.entries
        #expect(images.count >= 2 && images.allSatisfy { $0.size == ImageSize(width: 96, height: 64) })
        let whole = try #require(ends.entries.last ?? nil)
        #expect(images.first?.pixels != whole.pixels)
        #expect(progress.entries.last.map { $0.bytesReceived > 0 } == true)
        #expect(rig.server.requests.count == 1)
    }

    @Test func `a prefix of a progressive JPEG contains its complete scans`() throws {
        let body = Samples.progressive
        var last = 0
        for count in 0...body.count {
            let whole = body.prefix(count).withUnsafeBytes { ImageLayout.wholeScans(ofProgressive: ImageBytes($0)) }
            guard let whole else {
                #expect(last == 0)
                continue
            }
            #expect(whole.end <= count && whole.count >= last)
            if whole.count > last {
                #expect(try decode(body.prefix(whole.end) + [0xFF, 0xD9])?.size == ImageSize(width: 96, height: 64))
            }
            last = whole.count
        }
        #expect(last == 10)
        let baseline = try Samples.saved("jpeg")
        #expect(baseline.withUnsafeBytes { ImageLayout.wholeScans(ofProgressive: ImageBytes($0)) } == nil)
        #expect(Samples.gif.withUnsafeBytes { ImageLayout.wholeScans(ofProgressive: ImageBytes($0)) } == nil)
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
}
#endif
