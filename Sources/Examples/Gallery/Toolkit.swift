#if GTK
import CGTK
import ConvoyGTK

// Helpers that a GTK binding would provide: closures for signals, and casts.

typealias WidgetPointer = UnsafeMutablePointer<GtkWidget>

extension UnsafeMutablePointer<GtkWidget> {
    /// Returns the pointer cast to a class, for the functions of that class.
    func of<Class>(_ type: Class.Type = Class.self) -> UnsafeMutablePointer<Class> {
        UnsafeMutableRawPointer(self).assumingMemoryBound(to: type)
    }
    /// The pointer as an opaque pointer, for a class whose type is incomplete in C.
    var opaque: OpaquePointer { OpaquePointer(self) }
    /// The widget, for image requests.
    var bound: Widget { Widget(self) }

    @MainActor func show(_ isVisible: Bool) { gtk_widget_set_visible(self, isVisible ? 1 : 0) }

    @MainActor func add(_ children: WidgetPointer...) -> WidgetPointer {
        for child in children { gtk_box_append(of(GtkBox.self), child) }
        return self
    }

    @MainActor func expanding() -> WidgetPointer {
        gtk_widget_set_hexpand(self, 1)
        gtk_widget_set_vexpand(self, 1)
        return self
    }
}

@MainActor enum Toolkit {
    /// A closure that is called before each frame until it returns true.
    private final class FrameHandler: Sendable {
        let body: @MainActor () -> Bool
        init(_ body: @escaping @MainActor () -> Bool) { self.body = body }
    }

    /// Calls a closure before each frame of a widget until it returns true.
    static func poll(_ widget: WidgetPointer, _ body: @escaping @MainActor () -> Bool) {
        _ = convoy_add_tick(
            widget,
            { _, _, context in
                let handler = Unmanaged<FrameHandler>.fromOpaque(context!).takeUnretainedValue()
                return MainActor.assumeIsolated { handler.body() ? 0 : 1 }
            }, Unmanaged.passRetained(FrameHandler(body)).toOpaque(),
            { Unmanaged<FrameHandler>.fromOpaque($0!).release() })
    }

    private final class Handler: Sendable {
        let body: @MainActor (UInt) -> Void
        init(_ body: @escaping @MainActor (UInt) -> Void) { self.body = body }
    }

    /// Calls a closure for each signal, with the first argument of the signal.
    static func connect(_ instance: UnsafeMutableRawPointer, _ signal: String, _ body: @escaping @MainActor (UInt) -> Void) {
        _ = convoy_connect(
            instance, signal,
            { context, argument in
                let handler = Unmanaged<Handler>.fromOpaque(context!).takeUnretainedValue()
                let argument = UInt(bitPattern: argument)
                MainActor.assumeIsolated { handler.body(argument) }
                return 0
            }, Unmanaged.passRetained(Handler(body)).toOpaque(), { Unmanaged<Handler>.fromOpaque($0!).release() })
    }

    /// Returns a button with an icon. Its name is read by assistive technologies and shown as its tooltip.
    static func button(_ icon: String, _ name: String, _ action: (@MainActor () -> Void)? = nil) -> WidgetPointer {
        let button = gtk_button_new()!
        set(button, icon: icon, name)
        gtk_widget_add_css_class(button, "flat")
        if let action { connect(button, "clicked") { _ in action() } }
        return button
    }

    static func set(_ button: WidgetPointer, icon: String, _ name: String) {
        gtk_button_set_icon_name(button.of(), icon)
        gtk_widget_set_tooltip_text(button, name)
        convoy_set_label(button, name)
    }

    /// Returns a text without NUL characters, which C strings cannot contain.
    static func printable(_ text: String) -> String { text.replacingOccurrences(of: "\0", with: "\u{FFFD}") }

    static func box(_ orientation: GtkOrientation, margin: Int32 = 0, spacing: Int32 = 6) -> WidgetPointer {
        let box = gtk_box_new(orientation, spacing)!
        let sides = [gtk_widget_set_margin_start, gtk_widget_set_margin_end]
        for set in sides + [gtk_widget_set_margin_top, gtk_widget_set_margin_bottom] { set(box, margin) }
        return box
    }

    /// Returns a label of one line, which is shortened in the middle if it does not fit.
    static func label(_ text: String) -> WidgetPointer {
        let label = gtk_label_new(printable(text))!
        gtk_label_set_ellipsize(label.opaque, PANGO_ELLIPSIZE_MIDDLE)
        gtk_label_set_xalign(label.opaque, 0)
        return label
    }

    /// Returns a container that slides in and out.
    static func revealer(_ child: WidgetPointer, _ transition: GtkRevealerTransitionType) -> WidgetPointer {
        let revealer = gtk_revealer_new()!
        gtk_revealer_set_transition_type(revealer.opaque, transition)
        gtk_revealer_set_child(revealer.opaque, child)
        return revealer
    }
}
#endif
