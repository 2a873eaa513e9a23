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

/// A downloader with a test server.
struct ImageRig {
    let server: TestServer
    let downloader: ImageDownloader
    /// The queue of the handlers.
    let queue = DispatchQueue(label: "handlers")

    init(
        cache: ImageCache? = ImageCache(respondsToMemoryPressure: false), limit: Int = 8,
        _ configure: (inout ImageDownloader.Configuration) -> Void = { _ in }
    ) throws {
        server = try TestServer()
        var configuration = ImageDownloader.Configuration()
        configuration.maximumActiveDownloads = limit
        configure(&configuration)
        downloader = ImageDownloader(
            manager: HTTPRequestOperationManager(), cache: cache, configuration: configuration)
    }

    /// Serves an image in a single colour that encodes a number.
    func serve(_ path: String, _ number: Int = 1, gate: TestServer.Gate? = nil, headers: TestServer.Headers = [:]) throws {
        var response = TestServer.Response.bytes(try Self.numbered(number), type: "image/png")
        for field in headers.fields { response = response.header(field.name, field.value) }
        if let gate { response = response.held(by: gate) }
        server.route(path, response)
    }

    static func numbered(_ number: Int) throws -> Data {
        try Samples.plain("png", width: 6, height: 4, color: UInt32(number & 0xFFFFFF) << 8 | 0xFF)
    }

    static func number(_ image: Image) -> Int {
        image.pixels.prefix(3).reduce(0) { $0 << 8 | Int($1) }
    }

    func request(_ path: String, size: ImageSize? = nil, processors: [any ImageProcessor] = []) -> ImageRequest {
        ImageRequest(server.url(path), size: size, processors: processors)
    }

    /// Waits until no load is running or waiting.
    func waitUntilIdle() async throws {
        try await waitUntil("an idle downloader") { downloader.jobs.withLock { $0.isIdle } }
    }
}

/// A processor that counts how often it decodes an image.
final class CountingProcessor: ImageProcessor {
    let identifier: String
    private let calls = Atomic<Int>(0)
    init(_ identifier: String = "counting") { self.identifier = identifier }
    var count: Int { calls.load(ordering: .relaxed) }

    func process(_ image: Image) -> Image {
        calls.add(1, ordering: .relaxed)
        return image
    }
}

/// The arguments with which the handlers of several loads were called, in order.
final class LoadLog<Entry: Sendable>: Sendable {
    private let log = Locked<[Entry]>([])
    var entries: [Entry] { log.withLock { $0 } }
    func add(_ entry: Entry) { log.withLock { $0.append(entry) } }
}
#endif
