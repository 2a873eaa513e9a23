#if Images
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyImage

@Suite struct ImageCacheTests {
    private func image(_ bytes: Int) throws -> Image {
        try Image(size: ImageSize(width: bytes / 3, height: 1), hasAlpha: false, pixels: Data(count: bytes / 3 * 3))
    }

    private func request(_ number: Int, size: Int? = nil, tag: String? = nil) throws -> ImageRequest {
        let url = try #require(URL(string: "http://127.0.0.1/\(number)"))
        var request = ImageRequest(url, size: size.map { ImageSize(width: $0, height: $0) })
        request.cacheTag = tag
        return request
    }

    private func cache(_ capacity: Int, _ preferred: Int) -> ImageCache {
        ImageCache(memoryCapacity: capacity, preferredMemoryUsageAfterPurge: preferred, respondsToMemoryPressure: false)
    }

    @Test func `a purge removes the least recently used images down to the preferred size`() throws {
        let cache = cache(1000, 600)
        for number in 0..<10 { cache.insert(try image(99), for: try request(number)) }
        #expect(cache.memoryUsage == 990 && cache.count == 10)
        #expect(cache.image(for: try request(0)) != nil)
        cache.insert(try image(99), for: try request(10))
        // The eleven images took 1,089 bytes, so five of them had to be removed.
        #expect(cache.memoryUsage == 594)
        for number in 1...5 { #expect(cache.image(for: try request(number)) == nil, "\(number)") }
        for number in [0, 6, 7, 8, 9, 10] { #expect(cache.image(for: try request(number)) != nil, "\(number)") }
    }

    @Test func `an image is cached unless it exceeds the capacity`() throws {
        let cache = cache(1000, 600)
        cache.insert(try image(99), for: try request(1))
        cache.insert(try image(1002), for: try request(2))
        #expect(try cache.count == 1 && cache.image(for: request(2)) == nil)
        cache.insert(try image(990), for: try request(3))
        #expect(try cache.memoryUsage == 990 && cache.image(for: request(3)) != nil)
        // A rejected image also removes the earlier one with the same key.
        cache.insert(try image(1002), for: try request(3))
        #expect(cache.memoryUsage == 0 && cache.count == 0)
    }

    @Test func `variants are stored separately and can be removed by URL, by tag or individually`() throws {
        let cache = cache(1000, 600)
        cache.insert(try image(30), for: try request(1))
        cache.insert(try image(60), for: try request(1, size: 2, tag: "small"))
        cache.insert(try image(90), for: try request(2, size: 2, tag: "small"))
        #expect(cache.memoryUsage == 180)
        #expect(cache.image(for: try request(1))?.byteCount == 30)
        #expect(cache.image(for: try request(1, size: 2))?.byteCount == 60)
        #expect(cache.removeImages(taggedWith: "small") == 2 && cache.removeImages(taggedWith: "small") == 0)
        #expect(cache.memoryUsage == 30)
        cache.insert(try image(60), for: try request(1, size: 2))
        #expect(cache.removeImage(for: try request(1, size: 2)))
        #expect(try !cache.removeImage(for: request(1, size: 2)))
        cache.insert(try image(60), for: try request(1, size: 2))
        #expect(cache.removeImages(for: try request(1).urlRequest.url ?? exampleURL) == 2)
        #expect(cache.memoryUsage == 0 && cache.count == 0)
    }

    @Test func `canonically equivalent header values belong to different images`() throws {
        let cache = cache(1000, 600)
        var one = try request(1)
        var other = one
        one.urlRequest.setValue("e\u{301}", forHTTPHeaderField: "X-Name")
        other.urlRequest.setValue("\u{E9}", forHTTPHeaderField: "X-Name")
        cache.insert(try image(30), for: one)
        #expect(cache.image(for: one) != nil && cache.image(for: other) == nil)
    }

    @Test func `the cache policy of a request determines whether cached or stale images are used`() throws {
        let cache = cache(1000, 600)
        var request = try request(1)
        cache.insert(try image(30), for: ImageCacheKey(request), tag: nil, lifetime: 0)
        #expect(cache.image(for: request) == nil)
        request.urlRequest.cachePolicy = .returnCacheDataElseLoad
        #expect(cache.image(for: request) != nil)
        cache.insert(try image(30), for: request)
        for policy: URLRequest.CachePolicy in [
            .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData, .reloadRevalidatingCacheData,
        ] {
            request.urlRequest.cachePolicy = policy
            #expect(cache.image(for: request) == nil)
        }
    }

    @Test func `100,000 random changes match a model based on a plain list`() throws {
        let seed = UInt64.random(in: 0...999_999_999)
        print("ImageCacheTests: seed \(seed)")
        var generator = SplitMix64(seed: seed)
        let (capacity, preferred) = (3_000, 1_700)
        let cache = cache(capacity, preferred)
        var model: [(number: Int, tag: String?, bytes: Int)] = []
        let requests = try (0..<40).map { try request($0 / 2, size: $0 % 2 == 0 ? nil : 5) }
        let images = try (0...130).map { try image($0 * 30 + 3) }
        func usage() -> Int { model.reduce(0) { $0 + $1.bytes } }
        for step in 0..<100_000 {
            let number = Int.random(in: 0..<40, using: &generator)
            switch Int.random(in: 0..<100, using: &generator) {
            case 0..<45:
                let hit = cache.image(for: requests[number])
                let place = model.firstIndex { $0.number == number }
                #expect(hit?.byteCount == place.map { model[$0].bytes }, "seed \(seed), step \(step)")
                if let place { model.append(model.remove(at: place)) }
            case 45..<90:
                var request = requests[number]
                request.cacheTag = [nil, "a", "b"][Int.random(in: 0..<3, using: &generator)]
                let image = images[Int.random(in: 0..<(step % 500 == 0 ? 131 : 12), using: &generator)]
                cache.insert(image, for: request)
                model.removeAll { $0.number == number }
                if image.byteCount <= capacity {
                    model.append((number, request.cacheTag, image.byteCount))
                    if usage() > capacity {
                        while usage() > preferred, model.count > 1 { model.removeFirst() }
                    }
                }
            case 90..<94:
                let isThere = model.contains { $0.number == number }
                #expect(cache.removeImage(for: requests[number]) == isThere)
                model.removeAll { $0.number == number }
            case 94..<97:
                let url = try #require(requests[number].urlRequest.url)
                #expect(cache.removeImages(for: url) == model.count { $0.number / 2 == number / 2 })
                model.removeAll { $0.number / 2 == number / 2 }
            case 97..<99:
                let tag = ["a", "b"].randomElement(using: &generator) ?? ""
                #expect(cache.removeImages(taggedWith: tag) == model.count { $0.tag == tag })
                model.removeAll { $0.tag == tag }
            default:
                guard step % 7 == 0 else { continue }
                cache.removeAll()
                model = []
            }
            guard cache.memoryUsage == usage(), cache.count == model.count else {
                Issue.record("seed \(seed), step \(step): \(cache.memoryUsage) bytes for \(usage())")
                return
            }
        }
    }

    // MARK: Memory pressure

    @Test func `a growing control group counter empties the cache`() async throws {
        let directory = try TemporaryDirectory(prefix: "convoy-pressure")
        defer { directory.remove() }
        let file = try directory.write(Data("low 0\nhigh 0\nmax 0\n".utf8), to: "memory.events")
        let pressure = MemoryPressure { [.events(path: "/nowhere/memory.events"), .events(path: file.path)] }
        do {
            let cache = ImageCache(memoryCapacity: 1000, preferredMemoryUsageAfterPurge: 600, pressure: pressure)
            #expect(cache.memoryPressureWatch == .watching(path: file.path))
            let other = ImageCache(memoryCapacity: 1000, preferredMemoryUsageAfterPurge: 600, pressure: pressure)
            #expect(other.memoryPressureWatch == cache.memoryPressureWatch)
            for text in ["low 5\nhigh 0\nmax 0\n", "low 5\nhigh 3\nmax 0\n"] {
                cache.insert(try image(99), for: try request(1))
                other.insert(try image(99), for: try request(1))
                try write(text, to: file)
                if text.contains("high 3") {
                    try await waitUntil("an empty cache") { cache.count == 0 && other.count == 0 }
                }
            }
            #expect(pressure.isWatching)
        }
        // The last cache was released, and its thread has ended.
        try await waitUntil("the end of the watch") { !pressure.isWatching }
    }

    /// Writes in place, like the kernel.
    private func write(_ text: String, to file: URL) throws {
        let handle = try FileHandle(forWritingTo: file)
        try handle.write(contentsOf: Data(text.utf8))
        try handle.close()
    }

    @Test func `a cache reports why memory pressure cannot be watched`() {
        let pressure = MemoryPressure { [.stalls(path: "/nowhere/memory.pressure"), .events(path: "/nowhere/events")] }
        let cache = ImageCache(memoryCapacity: 1000, preferredMemoryUsageAfterPurge: 600, pressure: pressure)
        guard case .unavailable(let reason) = cache.memoryPressureWatch else {
            Issue.record("\(cache.memoryPressureWatch)")
            return
        }
        #expect(reason.contains("/nowhere/memory.pressure: No such file or directory"))
        #expect(!pressure.isWatching)
        #expect(ImageCache(respondsToMemoryPressure: false).memoryPressureWatch == .off)
    }

    @Test func `the default cache watches memory pressure or reports why it cannot`() {
        switch ImageCache().memoryPressureWatch {
        case .watching(let path): #expect(path.contains("memory"))
        case .unavailable(let reason): print("ImageCacheTests: no memory pressure here: \(reason)")
        case .off: Issue.record("memory pressure is not watched")
        }
    }
}
#endif
