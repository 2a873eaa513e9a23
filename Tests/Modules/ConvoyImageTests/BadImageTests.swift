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

/// Bodies that are not images, damaged images, and errors.
@Suite struct BadImageTests {
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
}
#endif
