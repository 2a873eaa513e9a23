#if GTK
import CGTK
import ConvoyGTK
import ConvoyImage
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking

/// Single pictures: placeholders, memory, sizes, transitions, animations and buttons.
@MainActor enum PictureScenario {
    static func run() async throws -> [String: Any] {
        let server = try TestServer()
        let downloader = ImageDownloader(manager: HTTPRequestOperationManager(), cache: ImageCache())
        let window = TestWindow()
        try await window.show()
        var result: [String: Any] = [:]
        try await placeholders(server, downloader, window, &result)
        try await transitions(server, downloader, window, &result)
        try await growth(server, downloader, window, &result)
        try await animation(server, downloader, window, &result)
        try await button(server, downloader, window, &result)
        try await release(server, downloader, window, &result)
        return result
    }

    private static func picture(_ window: TestWindow) -> Widget {
        let picture = gtk_picture_new()!
        gtk_widget_set_size_request(picture, 40, 40)
        return window.add(picture)
    }

    private static func placeholders(
        _ server: TestServer, _ downloader: ImageDownloader, _ window: TestWindow, _ result: inout [String: Any]
    ) async throws {
        let gate = TestServer.Gate()
        server.route(
            "/1.bmp",
            TestServer.Response.bytes(NumberedPicture.bitmap(1, side: 600), type: "image/bmp").header(
                "Cache-Control", "max-age=600"
            ).held(by: gate))
        let cell = picture(window)
        cell.setImage(from: server.url("/1.bmp"), placeholder: .icon("image-missing"), by: downloader)
        result["hasIcon"] = NumberedPicture.hasPaintable(cell)
        result["isLoading"] = cell.isLoadingImage
        gate.open()
        try await Scenario.wait("the picture") { NumberedPicture.number(shownBy: cell) == 1 }
        // For a widget of 40 pixels, the picture of 600 pixels is decoded with 64.
        result["decodedWidth"] = Int(gdk_texture_get_width(gtk_picture_get_paintable(OpaquePointer(cell.pointer))))

        // Another cell of the same size shows the picture immediately and calls its completion.
        let other = picture(window)
        var isComplete = false
        other.setImage(from: server.url("/1.bmp"), placeholder: .icon("image-missing"), by: downloader) { _ in
            isComplete = true
        }
        result["memoryHit"] = NumberedPicture.number(shownBy: other) == 1 && isComplete
        result["requests"] = server.requests.count

        // Load a missing picture into an icon widget.
        server.route("/missing", TestServer.Response(status: 404))
        let icon = window.add(gtk_image_new())
        var message = ""
        icon.setImage(from: server.url("/missing"), failure: .icon("image-missing"), by: downloader) { result in
            if case .failure(let error) = result { message = error.localizedDescription }
        }
        try await Scenario.wait("the failure") { !message.isEmpty }
        result["failureIcon"] = gtk_image_get_icon_name(OpaquePointer(icon.pointer)).map { String(cString: $0) } ?? ""
    }

    private static func transitions(
        _ server: TestServer, _ downloader: ImageDownloader, _ window: TestWindow, _ result: inout [String: Any]
    ) async throws {
        server.route("/2.bmp", .bytes(NumberedPicture.bitmap(2), type: "image/bmp"))
        let cell = picture(window)
        try await Scenario.wait("the cell") {
            gtk_widget_get_mapped(cell.pointer.assumingMemoryBound(to: GtkWidget.self)) != 0
        }
        var isComplete = false
        cell.setImage(from: server.url("/2.bmp"), transition: .crossFade(0.15), by: downloader) { _ in isComplete = true }
        try await Scenario.wait("the answer") { isComplete }
        result["isFading"] = NumberedPicture.number(shownBy: cell) == nil
        var mixtures = 0
        try await Scenario.wait("the end of the transition") {
            if NumberedPicture.hasPaintable(cell), NumberedPicture.number(shownBy: cell) == nil { mixtures += 1 }
            return NumberedPicture.number(shownBy: cell) == 2
        }
        result["mixtures"] = mixtures
    }

    /// Enlarges a widget while its picture fades in.
    private static func growth(
        _ server: TestServer, _ downloader: ImageDownloader, _ window: TestWindow, _ result: inout [String: Any]
    ) async throws {
        let gate = TestServer.Gate()
        let whole = TestServer.Response.bytes(NumberedPicture.bitmap(4, side: 900), type: "image/bmp")
        let isFirst = Locked(true)
        server.route(nil, "/4.bmp") { _ in
            isFirst.withLock { first in
                defer { first = false }
                return first ? whole : whole.held(by: gate)
            }
        }
        let cell = picture(window)
        let widget = cell.pointer.assumingMemoryBound(to: GtkWidget.self)
        gtk_widget_set_halign(widget, GTK_ALIGN_START)
        try await Scenario.wait("the cell") { gtk_widget_get_mapped(widget) != 0 }
        var isComplete = false
        cell.setImage(from: server.url("/4.bmp"), transition: .crossFade(0.5), by: downloader) { _ in isComplete = true }
        try await Scenario.wait("the answer") { isComplete }
        gtk_widget_set_size_request(widget, 500, 500)
        // The larger picture has not arrived.
        do {
            try await Scenario.wait("the end of the transition", seconds: 8) { NumberedPicture.number(shownBy: cell) == 4 }
            result["fadesWhileGrowing"] = true
        } catch {}
        gate.open()
        func width() -> Int {
            Int(gdk_paintable_get_intrinsic_width(gtk_picture_get_paintable(OpaquePointer(cell.pointer))))
        }
        do { try await Scenario.wait("the larger picture", seconds: 8) { width() >= 500 } } catch {}
        result["grownWidth"] = width()
        window.remove(cell)
    }

    private static func animation(
        _ server: TestServer, _ downloader: ImageDownloader, _ window: TestWindow, _ result: inout [String: Any]
    ) async throws {
        server.route("/moving.gif", .bytes(movingGIF, type: "image/gif"))
        let cell = picture(window)
        var frames = 1
        var isComplete = false
        cell.setImage(ImageRequest(server.url("/moving.gif")), by: downloader) { result in
            isComplete = true
            if case .success(let image) = result { frames = image.animation?.frames.count ?? 1 }
        }
        try await Scenario.wait("the animation") { isComplete }
        result["frames"] = frames
        guard frames > 1 else { return }
        func shown() -> OpaquePointer? { gtk_picture_get_paintable(OpaquePointer(cell.pointer)) }
        let first = shown()
        try await Scenario.wait("the second frame") { shown() != first }
        let widget = cell.pointer.assumingMemoryBound(to: GtkWidget.self)
        gtk_widget_set_visible(widget, 0)
        try await Task.sleep(for: .milliseconds(30))
        let paused = shown()
        try await Task.sleep(for: .milliseconds(200))
        result["restsWhileHidden"] = shown() == paused
        gtk_widget_set_visible(widget, 1)
        try await Scenario.wait("the animation to go on") { shown() != paused }
    }

    /// An endless animation of two frames of 2 x 2 pixels, each shown for 0.05 s.
    private static let movingGIF: Data = {
        var data = Data("GIF89a".utf8)
        data.append(contentsOf: [2, 0, 2, 0, 0x91, 0, 0])
        data.append(contentsOf: [0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 255])
        data.append(contentsOf: [0x21, 0xFF, 11] + Array("NETSCAPE2.0".utf8) + [3, 1, 0, 0, 0])
        for code: UInt8 in [0x84, 0x1C] {
            data.append(contentsOf: [0x21, 0xF9, 4, 0, 5, 0, 0, 0])
            // The codes are clear, four pixels of one colour (the table does not grow in between), and end.
            _ = code
            data.append(contentsOf: [0x2C, 0, 0, 0, 0, 2, 0, 2, 0, 0, 2, 3])
            data.append(contentsOf: pixels(code == 0x84 ? [0, 1, 2, 3] : [3, 2, 1, 0]))
            data.append(0)
        }
        data.append(0x3B)
        return data
    }()

    private static func pixels(_ colors: [Int]) -> [UInt8] {
        var (bits, count) = (0, 0)
        for (value, length) in [(4, 3), (colors[0], 3), (colors[1], 3), (colors[2], 3), (colors[3], 4), (5, 4)] {
            bits |= value << count
            count += length
        }
        return (0..<((count + 7) / 8)).map { UInt8(bits >> ($0 * 8) & 255) }
    }

    private static func button(
        _ server: TestServer, _ downloader: ImageDownloader, _ window: TestWindow, _ result: inout [String: Any]
    ) async throws {
        for number in 10...14 { server.route("/\(number).bmp", .bytes(NumberedPicture.bitmap(number), type: "image/bmp")) }
        let button = window.add(gtk_toggle_button_new())
        let widget = button.pointer.assumingMemoryBound(to: GtkWidget.self)
        let states: [ButtonState] = [.normal, .hovered, .pressed, .checked, .disabled]
        for (index, state) in states.enumerated() {
            button.setImage(from: server.url("/\(10 + index).bmp"), for: state, by: downloader)
        }
        func number() -> Int? {
            guard let child = gtk_button_get_child(button.pointer.assumingMemoryBound(to: GtkButton.self)),
                let paintable = gtk_image_get_paintable(OpaquePointer(child)),
                convoy_is_a(UnsafeMutableRawPointer(paintable), gdk_texture_get_type()) != 0
            else { return nil }
            let width = Int(gdk_texture_get_width(paintable))
            var pixels = [UInt8](repeating: 0, count: width * Int(gdk_texture_get_height(paintable)) * 4)
            gdk_texture_download(paintable, &pixels, gsize(width * 4))
            return Int(pixels[2])
        }
        var seen: [Int] = []
        func expect(_ expected: Int) async throws {
            try await Scenario.wait("the picture \(expected) of a button, not \(number() ?? -1)") { number() == expected }
            seen.append(expected)
        }
        try await expect(10)
        gtk_widget_set_state_flags(widget, GTK_STATE_FLAG_PRELIGHT, 0)
        try await expect(11)
        gtk_toggle_button_set_active(button.pointer.assumingMemoryBound(to: GtkToggleButton.self), 1)
        try await expect(13)
        gtk_widget_set_state_flags(widget, GTK_STATE_FLAG_ACTIVE, 0)
        try await expect(12)
        gtk_widget_set_sensitive(widget, 0)
        try await expect(14)
        result["buttonPictures"] = seen
    }

    /// Releases a widget while its picture is being loaded.
    private static func release(
        _ server: TestServer, _ downloader: ImageDownloader, _ window: TestWindow, _ result: inout [String: Any]
    ) async throws {
        server.route(
            "/held.bmp", TestServer.Response.bytes(NumberedPicture.bitmap(3), type: "image/bmp").held(by: TestServer.Gate()))
        let living = LivingWidgets()
        var calls = 0
        for _ in 0..<20 {
            let cell = picture(window)
            living.watch(cell)
            cell.setImage(from: server.url("/held.bmp"), by: downloader) { _ in calls += 1 }
            window.remove(cell)
        }
        result["livingPictures"] = living.count
        try await Scenario.wait("the loads to be released") { PictureLoads.count == 0 }
        result["callsAfterRelease"] = calls
    }
}
#endif
