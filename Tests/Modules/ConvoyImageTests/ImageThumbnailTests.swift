#if Images
import ConvoyCache
import ConvoyOperations
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyImage

@Suite struct ImageThumbnailTests {
    private let directory: TemporaryDirectory
    private let server: TestServer
    private let size = ImageSize(width: 3, height: 3)

    init() throws {
        directory = try TemporaryDirectory(prefix: "convoy-thumbnails")
        server = try TestServer()
    }

    private func downloader(capacity: Int = 1 << 20) throws -> ImageDownloader {
        ImageDownloader(
            manager: HTTPRequestOperationManager(), cache: ImageCache(respondsToMemoryPressure: false),
            thumbnails: try ImageThumbnailCache(directory: directory.file("thumbnails"), capacity: capacity))
    }

    private func serve(_ path: String, _ number: Int, lifetime: String? = "max-age=600") throws {
        let response = TestServer.Response.bytes(try ImageRig.numbered(number), type: "image/png")
        server.route(path, lifetime.map { response.header("Cache-Control", $0) } ?? response)
    }

    private func load(_ downloader: ImageDownloader, _ request: ImageRequest) async throws -> Image {
        let image = try await downloader.image(for: request)
        try await waitUntil("an idle downloader") { downloader.jobs.withLock { $0.isIdle } }
        return image
    }

    @Test func `the next run shows a reduced image without its original`() async throws {
        try serve("/one", 12)
        let request = ImageRequest(server.url("/one"), size: size, processors: [ImageRounding.circle])
        let first = try downloader()
        let image = try await load(first, request)
        try await waitUntil("a file") { first.thumbnails?.count == 1 }
        let second = try downloader()
        #expect(try await load(second, request) == image)
        #expect(second.cachedImage(for: request) == image && server.requests.count == 1)
        // Another form needs the original.
        _ = try await load(second, ImageRequest(server.url("/one"), size: size))
        #expect(server.requests.count == 2)
        try await waitUntil("a second file") { second.thumbnails?.count == 2 }
        #expect(second.thumbnails?.removeImages(for: server.url("/one")) == 2 && second.thumbnails?.usage == 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.file("thumbnails").path).isEmpty)
        // A reload ignores what is stored.
        var reload = request
        reload.urlRequest.cachePolicy = .reloadIgnoringLocalCacheData
        for count in 3...4 {
            _ = try await load(second, reload)
            #expect(server.requests.count == count)
        }
    }

    @Test func `only reduced images with a lifetime and without a user are stored`() async throws {
        try serve("/unstated", 1, lifetime: nil)
        try serve("/never", 2, lifetime: "no-store")
        try serve("/whole", 3)
        try serve("/mine", 4)
        let downloader = try downloader()
        for name in ["unstated", "never"] {
            _ = try await load(downloader, ImageRequest(server.url("/\(name)"), size: size))
        }
        _ = try await load(downloader, ImageRequest(server.url("/whole")))
        var mine = ImageRequest(server.url("/mine"), size: size)
        mine.urlRequest.setValue("ada", forHTTPHeaderField: "Authorization")
        _ = try await load(downloader, mine)
        // A later image is stored after those.
        try serve("/last", 5)
        _ = try await load(downloader, ImageRequest(server.url("/last"), size: size))
        try await waitUntil("the last image") { downloader.thumbnails?.count ?? 0 > 0 }
        #expect(downloader.thumbnails?.count == 1)
    }

    @Test func `the images of a user whom the server asks for a credential are neither stored nor shown to others`()
        async throws
    {
        try serve("/shared", 7)
        let everyone = try downloader()
        _ = try await load(everyone, ImageRequest(server.url("/shared"), size: size))
        try await waitUntil("a file") { everyone.thumbnails?.count == 1 }
        // The key of such a request does not name the user, because the server asks for the credential.
        try serve("/mine", 4)
        for kind in ["credential", "authenticator", "storage"] {
            let user = try downloader()
            let credential = URLCredential(user: "ada", password: "x", persistence: .forSession)
            switch kind {
            case "credential": user.manager.credential = credential
            case "authenticator": user.manager.authenticator = Authenticator { _ in AccessToken("t") }
            default: #expect(user.manager.credentialStore.set(credential, forOriginOf: server.url("/")))
            }
            let count = server.requests.count
            _ = try await load(user, ImageRequest(server.url("/shared"), size: size))
            #expect(server.requests.count == count + 1, "\(kind): the image of another user is shown")
            _ = try await load(user, ImageRequest(server.url("/mine"), size: size))
            try await waitForWorkers()
            #expect(user.thumbnails?.count == 1, "\(kind): the image of a user is stored")
        }
    }

    /// Waits until everything that the decoding threads had to do is done: each of them is held.
    private func waitForWorkers() async throws {
        let count = max(1, ProcessInfo.processInfo.activeProcessorCount)
        let held = Atomic<Int>(0)
        let release = DispatchSemaphore(value: 0)
        for _ in 0..<count {
            ImageDownloader.workers.perform {
                held.add(1, ordering: .relaxed)
                release.wait()
            }
        }
        defer { for _ in 0..<count { release.signal() } }
        try await waitUntil("all threads") { held.load(ordering: .relaxed) == count }
    }

    @Test func `a reload without a lifetime removes the earlier image, and files are private`() async throws {
        try serve("/avatar", 1)
        let downloader = try downloader()
        _ = try await load(downloader, ImageRequest(server.url("/avatar"), size: size))
        try await waitUntil("a file") { downloader.thumbnails?.count == 1 }
        let folder = directory.file("thumbnails")
        let name = try #require(try FileManager.default.contentsOfDirectory(atPath: folder.path).first)
        let attributes = try FileManager.default.attributesOfItem(atPath: folder.appendingPathComponent(name).path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        try serve("/avatar", 2, lifetime: "no-store")
        var reload = ImageRequest(server.url("/avatar"), size: size)
        reload.urlRequest.cachePolicy = .reloadIgnoringLocalCacheData
        _ = try await load(downloader, reload)
        try await waitUntil("its removal") { downloader.thumbnails?.count == 0 }
    }

    @Test func `the least recently used files are removed beyond the capacity`() async throws {
        let file = 32 + 3 * 2 * 3
        let downloader = try downloader(capacity: 3 * file)
        for number in 0..<3 { try serve("/\(number)", number) }
        try serve("/3", 3)
        for number in [0, 1, 2] {
            _ = try await load(downloader, ImageRequest(server.url("/\(number)"), size: size))
            try await waitUntil("a file") { downloader.thumbnails?.count == number + 1 }
        }
        downloader.cache?.removeAll()
        _ = try await load(downloader, ImageRequest(server.url("/0"), size: size))
        #expect(server.requests.count == 3)
        _ = try await load(downloader, ImageRequest(server.url("/3"), size: size))
        try await waitUntil("an eviction") {
            downloader.thumbnails?.usage == 3 * file && downloader.thumbnails?.removeImages(for: server.url("/1")) == 0
        }
        downloader.cache?.removeAll()
        _ = try await load(downloader, ImageRequest(server.url("/0"), size: size))
        #expect(server.requests.count == 4)
        // A smaller capacity applies at once.
        #expect(try ImageThumbnailCache(directory: directory.file("thumbnails"), capacity: file).count == 1)
    }

    @Test func `an expired or damaged file is removed, and its image is loaded again`() async throws {
        let cache = try ImageThumbnailCache(directory: directory.file("thumbnails"))
        let image = try Image(size: size, hasAlpha: true, pixels: Data(0..<36))
        cache.insert(image, "a", lifetime: 100)
        cache.insert(image, "b", lifetime: -100)
        #expect(cache.image("a")?.image == image && cache.image("a").map { (90...100).contains($0.lifetime) } == true)
        #expect(cache.image("b") == nil && !cache.contains("b"))
        let file = directory.file("thumbnails").appendingPathComponent("a.thumbnail")
        let whole = try Data(contentsOf: file)
        for (place, value) in [(0, 0), (8, 200), (16, 9), (20, 99)] as [(Int, UInt8)] {
            var damaged = whole
            damaged[place] = value
            try damaged.write(to: file)
            #expect(cache.image("a") == nil, "byte \(place)")
            cache.insert(image, "a", lifetime: 100)
        }
        for length in [0, 8, 31, 32, 40, whole.count - 1] {
            try whole.prefix(length).write(to: file)
            #expect(cache.image("a") == nil)
            cache.insert(image, "a", lifetime: 100)
        }
        // An incomplete file of a process that ended is removed.
        let part = directory.file("thumbnails").appendingPathComponent("\(UUID().uuidString).part")
        let foreign = directory.file("thumbnails").appendingPathComponent("c.part")
        for file in [part, foreign] { try Data("x".utf8).write(to: file) }
        #expect(try ImageThumbnailCache(directory: directory.file("thumbnails")).count == 1)
        #expect(!FileManager.default.fileExists(atPath: part.path))
        #expect(FileManager.default.fileExists(atPath: foreign.path), "the file of another program stays")
        cache.removeAll()
        #expect(cache.count == 0 && cache.usage == 0 && !FileManager.default.fileExists(atPath: file.path))
        #expect(throws: HTTPCacheError.self) { try ImageThumbnailCache(directory: URL(fileURLWithPath: "/dev/null/x")) }
    }
}
#endif
