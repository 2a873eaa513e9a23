#if Images
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyImage

/// Images in files and in `data:` URLs.
@Suite struct LocalImageTests {
    private func code(_ rig: ImageRig, _ url: URL) async -> Int? {
        do {
            _ = try await rig.downloader.image(for: ImageRequest(url))
            return nil
        } catch {
            return (error as NSError).code
        }
    }

    @Test func `a file is loaded into memory, and again after it has changed`() async throws {
        let directory = try TemporaryDirectory(prefix: "convoy-local")
        let file = try directory.write(try ImageRig.numbered(5), to: "a b.png")
        let rig = try ImageRig()
        let request = ImageRequest(file, size: ImageSize(width: 3, height: 3))
        let image = try await rig.downloader.image(for: request)
        #expect(ImageRig.number(image) == 5 && image.width == 3)
        #expect(rig.downloader.cachedImage(for: request) == image)
        try await rig.waitUntilIdle()
        try directory.write(try Samples.plain("png", width: 9, height: 9, color: 0x0000_07FF), to: "a b.png")
        #expect(rig.downloader.cachedImage(for: request) == nil)
        #expect(ImageRig.number(try await rig.downloader.image(for: request)) == 7)
        #expect(rig.server.requests.isEmpty)
    }

    @Test func `a file that cannot be read fails with its reason`() async throws {
        let directory = try TemporaryDirectory(prefix: "convoy-local")
        let rig = try ImageRig { $0.maximumBodySize = 1000 }
        #expect(await code(rig, directory.file("missing.png")) == URLError.Code.fileDoesNotExist.rawValue)
        #expect(await code(rig, directory.url) == URLError.Code.cannotOpenFile.rawValue)
        // Reading a pipe without a writer would block the thread.
        let pipe = directory.file("pipe")
        try #require(mkfifo(pipe.path, 0o600) == 0)
        #expect(await code(rig, pipe) == URLError.Code.cannotOpenFile.rawValue)
        let large = try directory.write(Data(count: 1001), to: "large.png")
        #expect(await code(rig, large) == NSURLErrorDataLengthExceedsMaximum)
        let text = try directory.write(Data("text".utf8), to: "text.png")
        #expect(await code(rig, text) == NSURLErrorCannotDecodeContentData)
        let strict = try ImageRig { $0.allowsFileURLs = false }
        #expect(await code(strict, text) == URLError.Code.unsupportedURL.rawValue)
        try await rig.waitUntilIdle()
    }

    @Test func `a data URL contains its image`() async throws {
        let rig = try ImageRig { $0.maximumBodySize = 4000 }
        let body = try ImageRig.numbered(9)
        let escaped = body.map { "%" + String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        let base64 = body.base64EncodedString()
        for text in ["data:image/png;base64,\(base64)", "data:,\(escaped)", "DATA:image/png;charset=x,\(escaped)"] {
            let url = try #require(URL(string: text))
            #expect(ImageRig.number(try await rig.downloader.image(for: ImageRequest(url))) == 9)
            #expect(rig.downloader.cachedImage(for: ImageRequest(url)) != nil)
        }
        let wrong: [(String, Int)] = [
            ("data:image/png", URLError.Code.badURL.rawValue),
            ("data:image/png;base64,%", URLError.Code.cannotDecodeRawData.rawValue),
            ("data:,text", NSURLErrorCannotDecodeContentData),
            ("data:;base64,\(Data(count: 4001).base64EncodedString())", NSURLErrorDataLengthExceedsMaximum),
        ]
        for (text, expected) in wrong {
            guard let url = URL(string: text) else { continue }
            #expect(await code(rig, url) == expected, "\(text.prefix(60))")
        }
        try await rig.waitUntilIdle()
    }

    @Test func `cancelling loads of files releases them`() async throws {
        let directory = try TemporaryDirectory(prefix: "convoy-local")
        let rig = try ImageRig(limit: 2)
        let calls = LoadLog<Int>()
        for number in 0..<200 {
            let file = try directory.write(try ImageRig.numbered(number), to: "\(number).png")
            let receipt = rig.downloader.load(ImageRequest(file), on: rig.queue) { _ in calls.add(number) }
            if number % 2 == 0, receipt.cancel() { calls.add(number) }
        }
        try await waitUntil("200 ends") { calls.entries.count == 200 }
        try await rig.waitUntilIdle()
        #expect(Set(calls.entries).count == 200)
    }
}
#endif
