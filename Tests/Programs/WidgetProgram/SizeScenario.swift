#if GTK
import CGTK
import ConvoyGTK
import ConvoyImage
import ConvoyOperations
import ConvoyTestServer
import Dispatch
import Foundation

/// Widgets whose size changes, requests that are repeated, and animations on a busy main loop.
@MainActor enum SizeScenario {
    static func run() async throws -> [String: Any] {
        var result: [String: Any] = [:]
        try await growth(&result)
        try await prefetching(&result)
        try await naturalSize(&result)
        try await repetition(&result)
        return result
    }

    private static func makeDownloader() -> ImageDownloader {
        ImageDownloader(manager: HTTPRequestOperationManager(), cache: ImageCache())
    }

    private static func pointer(_ widget: Widget) -> UnsafeMutablePointer<GtkWidget> {
        widget.pointer.assumingMemoryBound(to: GtkWidget.self)
    }

    private static func allocation(of widget: Widget) -> [Int32] {
        [gtk_widget_get_width(pointer(widget)), gtk_widget_get_height(pointer(widget))]
    }

    private static func shownWidth(_ widget: Widget) -> Int {
        guard NumberedPicture.hasPaintable(widget) else { return 0 }
        return Int(gdk_paintable_get_intrinsic_width(gtk_picture_get_paintable(OpaquePointer(widget.pointer))))
    }

    private static func growth(_ result: inout [String: Any]) async throws {
        let (server, downloader) = (try TestServer(), makeDownloader())
        server.route("/1.bmp", .bytes(NumberedPicture.bitmap(1, side: 1200), type: "image/bmp"))
        let window = TestWindow()
        let picture = window.add(gtk_picture_new()!)
        gtk_widget_set_size_request(pointer(picture), 100, 100)
        gtk_widget_set_halign(pointer(picture), GTK_ALIGN_START)
        try await window.show()
        var calls = 0
        picture.setImage(from: server.url("/1.bmp"), by: downloader) { _ in calls += 1 }
        try await Scenario.wait("the picture") { NumberedPicture.number(shownBy: picture) == 1 }
        try await Scenario.wait("the small picture") { shownWidth(picture) == 128 }
        gtk_widget_set_size_request(pointer(picture), 500, 500)
        do {
            try await Scenario.wait("the large picture", seconds: 8) { shownWidth(picture) >= 500 }
        } catch {}
        result["grownWidth"] = shownWidth(picture)
        result["grownCalls"] = calls
        window.destroy()
    }

    private static func prefetching(_ result: inout [String: Any]) async throws {
        let (server, downloader) = (try TestServer(), makeDownloader())
        // The first picture does not change the size of the widget.
        for (number, side) in [(1, 80), (2, 900)] {
            server.route("/\(number).bmp", .bytes(NumberedPicture.bitmap(number, side: side), type: "image/bmp"))
        }
        let window = TestWindow()
        let picture = window.add(gtk_picture_new()!)
        gtk_widget_set_size_request(pointer(picture), 150, 90)
        gtk_widget_set_halign(pointer(picture), GTK_ALIGN_START)
        gtk_picture_set_content_fit(OpaquePointer(picture.pointer), GTK_CONTENT_FIT_COVER)
        try await window.show()
        picture.setImage(from: server.url("/1.bmp"), by: downloader)
        try await Scenario.wait("the picture") { NumberedPicture.number(shownBy: picture) == 1 }
        // The window gets its final size some frames after it is shown.
        var (size, since) = (allocation(of: picture), ContinuousClock.now)
        try await Scenario.wait("a size that has not changed for half a second") {
            if allocation(of: picture) != size { (size, since) = (allocation(of: picture), .now) }
            return ContinuousClock.now - since > .milliseconds(500)
        }
        let request = Widget.imageRequest(for: ImageRequest(server.url("/2.bmp")), in: picture)
        result["isFill"] = request.contentMode == .fill
        let prefetcher = ImagePrefetcher(downloader: downloader)
        prefetcher.startPrefetching([request])
        try await Scenario.wait("the prefetched picture") { downloader.cachedImage(for: request) != nil }
        var isComplete = false
        picture.setImage(from: server.url("/2.bmp"), by: downloader) { _ in isComplete = true }
        result["prefetchHit"] = isComplete && NumberedPicture.number(shownBy: picture) == 2
        // A square picture that covers the widget has its longer side.
        result["prefetchWidth"] = shownWidth(picture)
        result["longerSide"] = request.size.map { max($0.width, $0.height) } ?? 0
        result["prefetchRequests"] = server.requests.count
        let own = ImageRequest(server.url("/2.bmp"), size: ImageSize(width: 7, height: 7))
        result["keepsOwnSize"] = Widget.imageRequest(for: own, in: picture).size == own.size
        window.destroy()
    }

    /// A widget whose height is that of its picture.
    private static func naturalSize(_ result: inout [String: Any]) async throws {
        let (server, downloader) = (try TestServer(), makeDownloader())
        for number in 1...2 {
            server.route("/\(number).bmp", .bytes(NumberedPicture.bitmap(number, side: 600), type: "image/bmp"))
        }
        let window = TestWindow(width: 400, height: 300)
        let picture = window.add(gtk_picture_new()!)
        try await window.show()
        for number in 1...2 {
            picture.setImage(from: server.url("/\(number).bmp"), by: downloader)
            try await Scenario.wait("the picture \(number)") { NumberedPicture.number(shownBy: picture) == number }
            try await Scenario.wait("a height") { gtk_widget_get_height(pointer(picture)) > 0 }
        }
        var hits = 0
        for number in [1, 2, 1] {
            picture.setImage(from: server.url("/\(number).bmp"), by: downloader)
            if NumberedPicture.number(shownBy: picture) == number { hits += 1 }
            try await Scenario.wait("the picture \(number)") { NumberedPicture.number(shownBy: picture) == number }
        }
        result["naturalHits"] = hits
        result["naturalRequests"] = server.requests.count
        window.destroy()
    }

    /// A request that is set again while it is loading, directly or after the cell was cleared.
    private static func repetition(_ result: inout [String: Any]) async throws {
        let (server, downloader) = (try TestServer(), makeDownloader())
        let gate = TestServer.Gate()
        server.route("/1.bmp", TestServer.Response.bytes(NumberedPicture.bitmap(1), type: "image/bmp").held(by: gate))
        let window = TestWindow()
        let picture = window.add(gtk_picture_new()!)
        gtk_widget_set_size_request(pointer(picture), 64, 64)
        try await window.show()
        var calls: [Int] = []
        func shown() -> OpaquePointer? { gtk_picture_get_paintable(OpaquePointer(picture.pointer)) }
        // A repeated request does not draw its placeholder again.
        picture.setImage(from: server.url("/1.bmp"), placeholder: .icon("image-missing"), by: downloader)
        let placeholder = shown()
        picture.setImage(from: server.url("/1.bmp"), placeholder: .icon("image-missing"), by: downloader)
        result["keepsPlaceholder"] = placeholder != nil && shown() == placeholder
        for call in 0..<10 {
            if call % 2 == 1 { picture.clearImage() }
            picture.setImage(from: server.url("/1.bmp"), by: downloader) { _ in calls.append(call) }
            try await Scenario.wait("the request") { !server.requests.isEmpty }
        }
        gate.open()
        try await Scenario.wait("the picture") { NumberedPicture.number(shownBy: picture) == 1 }
        result["repeatedRequests"] = server.requests.count
        result["repeatedCalls"] = calls

        // A cell that is cleared and not used again cancels its request.
        server.route("/2.bmp", TestServer.Response.bytes(Data("x".utf8)).held(by: TestServer.Gate()))
        picture.setImage(from: server.url("/2.bmp"), by: downloader)
        try await Scenario.wait("the second request") { server.requests("/2.bmp").count == 1 }
        picture.clearImage()
        try await Scenario.wait("the cancellation") { downloader.activeDownloadCount == 0 }
        window.destroy()
    }

    // MARK: Animations

    /// Plays an animation of two seconds while the main loop is busy four fifths of the time.
    static func clock() async throws -> [String: Any] {
        let (server, downloader) = (try TestServer(), makeDownloader())
        server.route("/moving.gif", .bytes(movingGIF(frames: 100), type: "image/gif"))
        let window = TestWindow()
        let picture = window.add(gtk_picture_new()!)
        gtk_widget_set_size_request(pointer(picture), 64, 64)
        try await window.show()
        var frames = 0
        picture.setImage(from: server.url("/moving.gif"), by: downloader) { result in
            frames = (try? result.get())?.animation?.frames.count ?? 1
        }
        try await Scenario.wait("the animation") { frames > 0 }
        let start = ContinuousClock.now
        let work = LoopTimer.start(after: 0.1, repeats: true) {
            let end = DispatchTime.now().uptimeNanoseconds + 80_000_000
            while DispatchTime.now().uptimeNanoseconds < end {}
        }
        try await Scenario.wait("the last frame", seconds: 30) { NumberedPicture.number(shownBy: picture) == 99 }
        work.cancel()
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        window.destroy()
        return ["frames": frames, "seconds": seconds]
    }

    /// Returns an animation that is played once, with 20 ms for each frame. The colours number the frames.
    private static func movingGIF(frames: Int) -> Data {
        var data = Data("GIF89a".utf8)
        data.append(contentsOf: [2, 0, 2, 0, 0xF6, 0, 0])
        for number in 0..<128 { data.append(contentsOf: [UInt8(number), 0, 0x5A]) }
        for number in 0..<frames {
            data.append(contentsOf: [0x21, 0xF9, 4, 0, 2, 0, 0, 0])
            data.append(contentsOf: [0x2C, 0, 0, 0, 0, 2, 0, 2, 0, 0, 7])
            // The codes have eight bits: clear, four pixels, end.
            let pixel = UInt8(number)
            data.append(contentsOf: [6, 0x80, pixel, pixel, pixel, pixel, 0x81, 0])
        }
        data.append(0x3B)
        return data
    }
}
#endif
