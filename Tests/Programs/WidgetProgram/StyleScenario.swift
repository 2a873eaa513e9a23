#if GTK
import CGTK
import ConvoyGTK
import ConvoyImage
import ConvoyOperations
import ConvoyTestServer
import Foundation

/// Placeholder icons while the style changes.
@MainActor enum StyleScenario {
    private static let darkTheme = "gtk-application-prefer-dark-theme"

    static func run() async throws -> [String: Any] {
        let server = try TestServer()
        server.route("/held", TestServer.Response.bytes(Data("x".utf8)).held(by: TestServer.Gate()))
        let downloader = ImageDownloader(manager: HTTPRequestOperationManager(), cache: ImageCache())
        convoy_set_settings_flag(darkTheme, 1)
        let window = TestWindow()
        // The usual order: the picture is requested before the widget is in a window.
        let picture = Widget(gtk_picture_new()!)
        gtk_widget_set_size_request(picture.pointer.assumingMemoryBound(to: GtkWidget.self), 96, 96)
        gtk_widget_set_halign(picture.pointer.assumingMemoryBound(to: GtkWidget.self), GTK_ALIGN_START)
        picture.setImage(from: server.url("/held"), placeholder: .icon("image-missing-symbolic"), by: downloader)
        window.add(picture.pointer.assumingMemoryBound(to: GtkWidget.self))
        try await window.show()
        var result: [String: Any] = [:]
        // The icon has the colour of text: light on dark, and dark on light.
        result["isLightInDark"] = try await isDrawn(picture, light: true)
        convoy_set_settings_flag(darkTheme, 0)
        result["isDarkInLight"] = try await isDrawn(picture, light: false)
        convoy_set_settings_flag(darkTheme, 1)
        result["isLightAgain"] = try await isDrawn(picture, light: true)
        // The icon stays in the centre of a widget that grows.
        gtk_widget_set_size_request(picture.pointer.assumingMemoryBound(to: GtkWidget.self), 200, 200)
        try await Scenario.wait("a larger icon") { icon(of: picture).map { $0.length > 50 } ?? false }
        result["centre"] = icon(of: picture)?.centre ?? []
        window.destroy()
        return result
    }

    private static func isDrawn(_ widget: Widget, light: Bool) async throws -> Bool {
        do {
            try await Scenario.wait("the icon", seconds: 5) {
                icon(of: widget).map { ($0.brightness > 128) == light } ?? false
            }
            return true
        } catch {
            return false
        }
    }

    /// Returns the brightness, the centre and the height of what a widget draws; nil if it draws nothing.
    private static func icon(of widget: Widget) -> (brightness: Int, centre: [Int], length: Int)? {
        let pointer = widget.pointer.assumingMemoryBound(to: GtkWidget.self)
        let (width, height) = (Int(gtk_widget_get_width(pointer)), Int(gtk_widget_get_height(pointer)))
        guard width > 0, height > 0, let paintable = gtk_widget_paintable_new(pointer), let snapshot = gtk_snapshot_new()
        else { return nil }
        defer { convoy_unref(UnsafeMutableRawPointer(paintable)) }
        gdk_paintable_snapshot(OpaquePointer(UnsafeMutableRawPointer(paintable)), snapshot, Double(width), Double(height))
        guard let node = gtk_snapshot_free_to_node(snapshot) else { return nil }
        defer { gsk_render_node_unref(node) }
        guard let native = gtk_widget_get_native(pointer), let renderer = gtk_native_get_renderer(native) else { return nil }
        var area = graphene_rect_t(
            origin: graphene_point_t(x: 0, y: 0), size: graphene_size_t(width: Float(width), height: Float(height)))
        guard let texture = gsk_renderer_render_texture(renderer, node, &area) else { return nil }
        defer { convoy_unref(UnsafeMutableRawPointer(texture)) }
        var pixels = [UInt8](repeating: 0, count: width * height * 4)
        gdk_texture_download(texture, &pixels, gsize(width * 4))
        var (brightest, alpha) = (0, 0)
        var rows: [Int] = []
        var columns: [Int] = []
        for y in 0..<height {
            for x in 0..<width {
                let pixel = (y * width + x) * 4
                guard pixels[pixel + 3] > 8 else { continue }
                rows.append(y)
                columns.append(x)
                if Int(pixels[pixel + 3]) > alpha {
                    alpha = Int(pixels[pixel + 3])
                    // Colours are premultiplied.
                    brightest = Int(pixels[pixel + 1]) * 255 / alpha
                }
            }
        }
        guard let top = rows.min(), let bottom = rows.max(), let left = columns.min(), let right = columns.max() else {
            return nil
        }
        return (brightest, [(left + right) / 2, (top + bottom) / 2], bottom - top + 1)
    }
}
#endif
