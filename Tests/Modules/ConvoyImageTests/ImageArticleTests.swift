#if Images
import ConvoyCache
import ConvoySupport
import ConvoyImage
import ConvoyOperations
import ConvoyTestServer
import ConvoyTestSupport
import Dispatch
import Foundation
import FoundationNetworking
import Synchronization
import Testing

/// The code of the module's article, compiled, run and compared with the article.
@Suite struct ImageArticleTests {
    private let server: TestServer
    private let queue = DispatchQueue(label: "handlers")

    init() throws {
        server = try TestServer()
        for name in ["1.png", "2.png", "3.png"] {
            server.route("/images/\(name)", .bytes(try Samples.plain("png", width: 400, height: 300), type: "image/png"))
        }
    }

    @Test func `the code of the article matches the code tested here`() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let source = try String(contentsOf: URL(fileURLWithPath: #filePath), encoding: .utf8)
        let article = try String(
            contentsOf: root.appendingPathComponent("Sources/ConvoyImage/ConvoyImage.docc/ConvoyImage.md"), encoding: .utf8)
        let written = article.components(separatedBy: "```swift\n").dropFirst().compactMap {
            $0.components(separatedBy: "\n```").first
        }
        let begin = "// Article " + "begins\n"
        let tested = source.components(separatedBy: begin).dropFirst().map { part in
            let lines =
                part.components(separatedBy: "// Article " + "ends").first?.split(
                    separator: "\n", omittingEmptySubsequences: false
                ) ?? []
            let indent = lines.first?.prefix { $0 == " " }.count ?? 0
            return lines.dropLast().map { $0.dropFirst(min(indent, $0.prefix { $0 == " " }.count)) }.joined(separator: "\n")
        }
        // The first block is part of a package manifest.
        #expect(Array(written.dropFirst()) == tested)
        #expect(tested.count == 7)
    }

    @Test func `an image can be loaded with a closure or awaited`() async throws {
        let shown = Locked<[Image]>([])
        let show: @Sendable (Image) -> Void = { image in shown.withLock { $0.append(image) } }
        let (url, queue) = (server.url("/images/1.png"), queue)
        let directory = try TemporaryDirectory(prefix: "convoy-article")
        defer { directory.remove() }
        // Article begins
        let downloader = ImageDownloader(manager: HTTPRequestOperationManager())
        let request = ImageRequest(url, size: ImageSize(width: 200, height: 200))

        let receipt = downloader.load(request, on: queue) { result in
            switch result {
            case .success(let image): show(image)
            case .failure(let error): print("no image:", error.localizedDescription)
            }
        }
        receipt.priority = .high
        let image = try await downloader.image(for: request)
        // Article ends
        #expect(image.size == ImageSize(width: 200, height: 150))
        try await waitUntil("a shown image") { shown.withLock { $0.count } == 1 }
        #expect(server.requests.count == 1)

        // Article begins
        if let image = downloader.cachedImage(for: request) {
            show(image)
        }
        // A reused cell cancels the load that it no longer needs.
        receipt.cancel()
        // Article ends
        #expect(shown.withLock { $0.count } == 2)
    }

    @Test func `a downloader uses the cache and settings of its manager`() async throws {
        let directory = try TemporaryDirectory(prefix: "convoy-article")
        defer { directory.remove() }
        let (folder, base) = (directory.file("images"), server.url(""))
        // Article begins
        let manager = HTTPRequestOperationManager(baseURL: base)
        manager.cache = try HTTPCache(directory: folder, diskCapacity: 512 << 20)
        manager.retryPolicy = RetryPolicy()
        manager.requestSerializer.setAuthorizationHeader(bearerToken: "t0ken")

        var configuration = ImageDownloader.Configuration()
        configuration.maximumActiveDownloads = 4
        configuration.prioritization = .lifo
        configuration.maximumBodySize = 20 << 20
        configuration.imageLimits.maximumPixelCount = 30_000_000
        let downloader = ImageDownloader(
            manager: manager, cache: ImageCache(memoryCapacity: 200 << 20, preferredMemoryUsageAfterPurge: 120 << 20),
            configuration: configuration)
        // Article ends
        _ = try await downloader.image(for: ImageRequest(server.url("/images/1.png")))
        #expect(server.requests.first?.headers["Authorization"] == "Bearer t0ken")
    }

    // Article begins
    struct Grey: ImageProcessor {
        var identifier: String { "grey" }

        func process(_ image: Image) throws -> Image {
            var pixels = image.pixels
            for pixel in stride(from: 0, to: pixels.count, by: image.channels) {
                let sum = Int(pixels[pixel]) + Int(pixels[pixel + 1]) + Int(pixels[pixel + 2])
                for channel in 0..<3 { pixels[pixel + channel] = UInt8(sum / 3) }
            }
            return try image.replacingPixels(pixels)
        }
    }
    // Article ends

    @Test func `processors transform an image`() async throws {
        let downloader = ImageDownloader(manager: HTTPRequestOperationManager())
        let url = server.url("/images/1.png")
        // Article begins
        let avatar = ImageRequest(
            url, size: ImageSize(width: 96, height: 96), contentMode: .fill, processors: [Grey(), ImageFilter.circle])
        let image = try await downloader.image(for: avatar)
        // Article ends
        #expect(image.size == ImageSize(width: 96, height: 96) && image.hasAlpha)
        // The centre has the colour 0x20, 0x40 and 0x80, and the corner is transparent.
        let middle = (48 * 96 + 48) * 4
        #expect(image.pixels[middle..<(middle + 4)] == Data([74, 74, 74, 255]) && image.pixels[3] == 0)
    }

    @Test func `images are prefetched`() async throws {
        let downloader = ImageDownloader(manager: HTTPRequestOperationManager())
        let next = ["1", "2", "3"].map { ImageRequest(server.url("/images/\($0).png")) }
        // Article begins
        let prefetcher = ImagePrefetcher(downloader: downloader)
        prefetcher.startPrefetching(next)
        // Article ends
        try await waitUntil("all images") { prefetcher.count == 0 }
        #expect(next.allSatisfy { downloader.cachedImage(for: $0) != nil })
        prefetcher.stopAll()
    }

    @Test func `an operation decodes an image`() async throws {
        let manager = HTTPRequestOperationManager(baseURL: server.url(""), completionQueue: queue)
        // Article begins
        let operation = try manager.makeOperation(.get, "images/1.png")
        operation.responseSerializer = ImageResponseSerializer()
        operation.setCompletionHandler(
            success: { _, object in
                guard let image = object as? Image else { return }
                print(image.width, image.height, image.hasAlpha, image.pixels.count)  // RGB or RGBA, 8 bits, no padding
            },
            failure: { _, error in print("no image:", error) })
        manager.enqueue([operation])
        // Article ends
        try await operation.finished()
        #expect((operation.responseObject as? Image)?.width == 400)
    }
}
#endif
