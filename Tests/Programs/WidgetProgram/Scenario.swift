#if GTK
import CGTK
import ConvoyGTK
import ConvoyTestServer
import Foundation

/// The scenarios that a test can run.
@MainActor enum Scenario {
    struct Unknown: Error { let name: String }
    struct Late: Error { let what: String }

    static func run(_ arguments: [String]) async throws -> [String: Any] {
        let number = arguments.dropFirst().first.flatMap { Int($0) }
        switch arguments.first {
        case "loop": return try await LoopScenario.run()
        case "bindings": return try await BindingScenario.run()
        case "accessibility": return try await BindingScenario.accessibility()
        case "pictures": return try await PictureScenario.run()
        case "style": return try await StyleScenario.run()
        case "sizes": return try await SizeScenario.run()
        case "clock": return try await SizeScenario.clock()
        case "reuse": return try await ReuseScenario.run(reuses: number ?? 10_000)
        case "scroll": return try await ScrollScenario.run(pictures: number ?? 1000)
        #if WebKit
        case "web": return try await WebScenario.run()
        #endif
        default: throw Unknown(name: arguments.joined(separator: " "))
        }
    }

    /// Lets the main loop run until the condition holds.
    static func wait(_ what: String, seconds: Double = 20, _ condition: () throws -> Bool) async throws {
        let end = ContinuousClock.now + .seconds(seconds)
        while try !condition() {
            guard ContinuousClock.now < end else { throw Late(what: what) }
            try await Task.sleep(for: .milliseconds(3))
        }
    }
}

/// A window on the display.
@MainActor struct TestWindow {
    let window: UnsafeMutablePointer<GtkWidget>
    let box: UnsafeMutablePointer<GtkWidget>

    init(width: Int32 = 400, height: Int32 = 300) {
        window = gtk_window_new()
        box = gtk_box_new(GTK_ORIENTATION_VERTICAL, 0)
        gtk_window_set_default_size(pointer, width, height)
        gtk_window_set_child(pointer, box)
    }

    var pointer: UnsafeMutablePointer<GtkWindow> { UnsafeMutableRawPointer(window).assumingMemoryBound(to: GtkWindow.self) }

    @discardableResult
    func add(_ child: UnsafeMutablePointer<GtkWidget>) -> Widget {
        gtk_box_append(UnsafeMutableRawPointer(box).assumingMemoryBound(to: GtkBox.self), child)
        return Widget(child)
    }

    func remove(_ child: Widget) {
        gtk_box_remove(
            UnsafeMutableRawPointer(box).assumingMemoryBound(to: GtkBox.self),
            child.pointer.assumingMemoryBound(to: GtkWidget.self))
    }

    func show() async throws {
        gtk_window_present(pointer)
        let widget = window
        try await Scenario.wait("the window to be shown") { gtk_widget_get_mapped(widget) != 0 }
    }

    func destroy() { gtk_window_destroy(pointer) }
}

/// Counts widgets that have not been freed.
@MainActor final class LivingWidgets {
    private(set) var count = 0

    func watch(_ widget: Widget) {
        count += 1
        convoy_set_data(widget.pointer, "test-living", Unmanaged.passRetained(self).toOpaque()) { context in
            guard let context else { return }
            let living = Unmanaged<LivingWidgets>.fromOpaque(context).takeRetainedValue()
            MainActor.assumeIsolated { living.count -= 1 }
        }
    }
}

/// Pictures whose colour encodes their number.
enum NumberedPicture {
    /// The number of the picture that represents a failure.
    static let failure = 0xFFFE
    static let placeholder = 0xFFFD

    /// Returns an uncompressed BMP of one colour.
    static func bitmap(_ number: Int, side: Int = 8) -> Data {
        let row = (side * 3 + 3) / 4 * 4
        var data = Data("BM".utf8)
        func append(_ value: Int, _ bytes: Int) { for index in 0..<bytes { data.append(UInt8(value >> (8 * index) & 255)) } }
        append(54 + row * side, 4)
        append(0, 4)
        append(54, 4)
        append(40, 4)
        append(side, 4)
        append(side, 4)
        append(1, 2)
        append(24, 2)
        for value in [0, row * side, 2835, 2835, 0, 0] { append(value, 4) }
        var line = Data()
        for _ in 0..<side { line.append(contentsOf: [0x5A, UInt8(number >> 8 & 255), UInt8(number & 255)]) }
        line.append(Data(count: row - side * 3))
        for _ in 0..<side { data.append(line) }
        return data
    }

    /// Returns the number of the picture that a widget shows; nil if it shows no picture, and -1 for a mixture of two.
    @MainActor static func number(shownBy widget: Widget) -> Int? {
        guard let paintable = gtk_picture_get_paintable(OpaquePointer(widget.pointer)),
            convoy_is_a(UnsafeMutableRawPointer(paintable), gdk_texture_get_type()) != 0
        else { return nil }
        let width = Int(gdk_texture_get_width(paintable)), height = Int(gdk_texture_get_height(paintable))
        var pixels = [UInt8](repeating: 0, count: width * height * 4)
        gdk_texture_download(paintable, &pixels, gsize(width * 4))
        // Cairo orders the bytes as blue, green, red and alpha.
        guard pixels[0] == 0x5A else { return -1 }
        return Int(pixels[2]) | Int(pixels[1]) << 8
    }

    @MainActor static func hasPaintable(_ widget: Widget) -> Bool {
        gtk_picture_get_paintable(OpaquePointer(widget.pointer)) != nil
    }
}
#endif
