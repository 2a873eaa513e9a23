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

/// Coarse images of a progressive JPEG while it arrives.
@Suite struct ImagePreviewTests {
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
}
#endif
