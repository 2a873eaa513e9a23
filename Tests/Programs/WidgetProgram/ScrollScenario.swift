#if GTK
import CGTK
import ConvoyGTK
import ConvoyImage
import ConvoyOperations
import ConvoyTestServer
import ConvoyTestSupport
import Foundation

/// A grid of pictures that is scrolled to its end and back. Some of the pictures are broken in different ways.
@MainActor enum ScrollScenario {
    static let broken: Set<Int> = [13, 77, 100, 200]
    private static let cacheCapacity = 16 << 20

    static func run(pictures count: Int) async throws -> [String: Any] {
        var configuration = TestServer.Configuration()
        configuration.recordingLimit = 0
        let server = try TestServer(configuration)
        server.route(nil, "/*") { request in
            let number = Int(request.path.dropFirst().prefix { $0 != "." }) ?? 0
            let picture = NumberedPicture.bitmap(number, side: 256)
            switch number {
            case 13: return .bytes(Data("BM and nothing that belongs to it".utf8), type: "image/bmp")
            case 77:
                // The header announces 60,000 x 60,000 pixels.
                var bomb = picture
                bomb.replaceSubrange(18..<26, with: [0x60, 0xEA, 0, 0, 0x60, 0xEA, 0, 0])
                return .bytes(bomb, type: "image/bmp")
            case 100: return .bytes(picture.dropLast(5000), type: "image/bmp")
            case 200:
                return TestServer.Response.bytes(picture, type: "image/bmp").contentLength(picture.count).failing(
                    .stall(afterBytes: 1000))
            default: return .bytes(picture, type: "image/bmp")
            }
        }
        let manager = HTTPRequestOperationManager()
        manager.maxConcurrentOperationCountPerHost = 8
        manager.retryPolicy = nil
        let cache = ImageCache(memoryCapacity: cacheCapacity, preferredMemoryUsageAfterPurge: cacheCapacity / 2)
        let downloader = ImageDownloader(manager: manager, cache: cache)

        let window = TestWindow(width: 900, height: 600)
        let names = gtk_string_list_new(nil)!
        for number in 0..<count { gtk_string_list_append(names, "\(number)") }
        let factory = gtk_signal_list_item_factory_new()!
        var (binds, wrong, failures) = (0, 0, 0)
        var finished: Set<Int> = []
        Signal.connect(UnsafeMutableRawPointer(factory), "setup") { item in
            let picture = gtk_picture_new()
            gtk_widget_set_size_request(picture, 128, 128)
            gtk_list_item_set_child(OpaquePointer(item), picture)
        }
        Signal.connect(UnsafeMutableRawPointer(factory), "bind") { item in
            guard let child = gtk_list_item_get_child(OpaquePointer(item)) else { return }
            let number = Int(gtk_list_item_get_position(OpaquePointer(item)))
            binds += 1
            let cell = Widget(child)
            cell.setImage(
                from: server.url("/\(number).bmp"), placeholder: .icon("image-missing"), by: downloader
            ) { result in
                finished.insert(number)
                switch result {
                // Check only every eighth picture, because reading pixels takes time that the meter counts.
                case .success: if number % 8 == 0, NumberedPicture.number(shownBy: cell) != number { wrong += 1 }
                case .failure: failures += 1
                }
            }
        }
        Signal.connect(UnsafeMutableRawPointer(factory), "unbind") { item in
            gtk_list_item_get_child(OpaquePointer(item)).map { Widget($0).clearImage() }
        }
        let grid = gtk_grid_view_new(gtk_no_selection_new(names), factory)!
        gtk_grid_view_set_max_columns(OpaquePointer(grid), 6)
        let scroller = gtk_scrolled_window_new()!
        gtk_widget_set_vexpand(scroller, 1)
        gtk_scrolled_window_set_child(OpaquePointer(scroller), grid)
        window.add(scroller)
        // The first icon loads the theme, which takes GTK some time once.
        let first = Widget(gtk_picture_new()!)
        _ = convoy_ref_sink(first.pointer)
        gtk_widget_set_size_request(first.pointer.assumingMemoryBound(to: GtkWidget.self), 128, 128)
        first.setImage(from: server.url("/1.bmp"), placeholder: .icon("image-missing"), by: downloader)
        first.clearImage()
        convoy_unref(first.pointer)
        MainLoop.meter.isOn = true
        MainLoop.meter.reset()
        _ = ProcessMeters.resetPeak()
        let before = ProcessMeters.residentKilobytes
        try await window.show()
        try await Scenario.wait("the first pictures") { finished.count >= 12 }

        // Scroll down by a row per frame, and back in larger steps.
        let adjustment = gtk_scrollable_get_vadjustment(OpaquePointer(grid))
        var (frames, direction, isDone) = (0, 1.0, false)
        let ticks = FrameTicks.start(Widget(grid)) { _ in
            frames += 1
            let value = gtk_adjustment_get_value(adjustment) + direction * 140
            gtk_adjustment_set_value(adjustment, value)
            let end = gtk_adjustment_get_upper(adjustment) - gtk_adjustment_get_page_size(adjustment)
            if direction > 0, value >= end { direction = -3 }
            if direction < 0, value <= 0 { isDone = true }
            return !isDone
        }
        try await Scenario.wait("the scrolling", seconds: 250) { isDone }
        ticks.cancel()
        let peak = ProcessMeters.peakResidentKilobytes

        // The pictures that are visible at the end must load.
        try await Scenario.wait("the pictures in view") {
            ((0..<24).allSatisfy { finished.contains($0) || broken.contains($0) })
        }
        var result: [String: Any] = [:]
        result["binds"] = binds
        result["frames"] = frames
        result["wrong"] = wrong
        result["failures"] = failures
        result["finished"] = finished.count
        result["callbacks"] = MainLoop.meter.count
        result["longestMilliseconds"] = Double(MainLoop.meter.longest) / 1e6
        result["longestByClock"] = Double(MainLoop.meter.longestByClock) / 1e6
        result["totalMilliseconds"] = Double(MainLoop.meter.total) / 1e6
        result["grownKilobytes"] = peak - before
        result["cacheKilobytes"] = cacheCapacity >> 10
        window.destroy()
        try await Scenario.wait("all loads to be released") { PictureLoads.count == 0 }
        return result
    }
}
#endif
