#if GTK
import CGTK
import Foundation

/// A reference to a GTK widget, to which requests are bound.
///
/// The reference does not retain the widget, and provides only the functions of this module. Every Swift binding of GTK
/// exposes the pointer, as one of three types:
///
/// ```swift
/// Widget(gtk_picture_new())          // UnsafeMutablePointer<GtkWidget>, of whichever module
/// Widget(spinner.opaquePointer)      // OpaquePointer
/// Widget(button.ptr)                 // UnsafeMutableRawPointer
/// ```
///
/// Everything bound to a widget ends with the widget: a picture's transfer is cancelled, and
/// nothing is retained. A new binding replaces an earlier binding of the same kind.
///
/// Call all functions on the main thread. Each of them stops the program if the class of the widget is wrong, with a
/// message that names the required class.
public struct Widget: Hashable, @unchecked Sendable {
    // The type is Sendable because it is only an address, which is dereferenced on the main actor.

    /// The address of the `GtkWidget`.
    public let pointer: UnsafeMutableRawPointer

    /// Creates a reference from the address of a widget.
    public init(_ pointer: UnsafeMutableRawPointer) { self.pointer = pointer }
    /// Creates a reference from a pointer to an incomplete C type.
    public init(_ pointer: OpaquePointer) { self.pointer = UnsafeMutableRawPointer(pointer) }
    /// Creates a reference from a pointer to `GtkWidget`, or to the struct of a widget class.
    public init<Instance>(_ pointer: UnsafeMutablePointer<Instance>) { self.pointer = UnsafeMutableRawPointer(pointer) }
}

extension Widget {
    /// The pointer for functions that take a `GtkWidget`.
    package var widget: UnsafeMutablePointer<GtkWidget> { pointer.assumingMemoryBound(to: GtkWidget.self) }
    /// The pointer for functions of a class whose C type is incomplete.
    package var opaque: OpaquePointer { OpaquePointer(pointer) }

    package func isA(_ type: GType) -> Bool { convoy_is_a(pointer, type) != 0 }

    /// Stops the program if the widget is not an instance of one of the given classes. GTK would only log this
    /// programming error.
    @MainActor package func require(_ types: GType..., function: StaticString = #function) {
        MainLoop.install()
        precondition(
            types.contains { isA($0) },
            """
            \(function) needs a \(types.map { String(cString: g_type_name($0)) }.joined(separator: " or a ")), and this is a \
            \(convoy_type_name(pointer).map { String(cString: $0) } ?? "widget without a class").
            """)
    }

    /// Whether the widget and all its ancestors are visible, so that it has a frame clock.
    @MainActor var isMapped: Bool { gtk_widget_get_mapped(widget) != 0 }
}

/// An object bound to a widget under a name until it is replaced or the widget is destroyed.
@MainActor package class WidgetBinding {
    package let widget: Widget
    private var signals: [(object: Widget, handler: UInt)] = []

    private var endHandler: (@MainActor () -> Void)?

    package init(_ widget: Widget) { self.widget = widget }

    /// Creates a binding for another module. The closure is called when the binding ends.
    package convenience init(_ widget: Widget, onEnd: @escaping @MainActor () -> Void) {
        self.init(widget)
        endHandler = onEnd
    }

    /// Ends the binding. Called once; the widget may already be in the process of destruction.
    package func end() {
        endHandler?()
        endHandler = nil
        for signal in signals { convoy_disconnect(signal.object.pointer, signal.handler) }
        signals = []
    }

    /// Calls the closure on each emission of the signal until the binding ends.
    package final func connect(_ signal: String, _ body: @escaping @MainActor () -> Void) {
        connectArgument(signal) { _ in body() }
    }

    /// Calls the closure with the first argument of the signal, of any type.
    package final func connectArgument(
        _ signal: String, _ body: @escaping @MainActor (UnsafeMutableRawPointer?) -> Void
    ) {
        signals.append((widget, Signal.connect(widget.pointer, signal, body)))
    }
}

extension Widget {
    /// Binds an object under a name, ending the object previously bound under it.
    @MainActor package func bind(_ binding: WidgetBinding?, as name: String) {
        let context = binding.map { Unmanaged.passRetained($0).toOpaque() }
        convoy_set_data(pointer, "convoy-\(name)", context) { context in
            guard let context else { return }
            let binding = Unmanaged<WidgetBinding>.fromOpaque(context).takeRetainedValue()
            MainActor.assumeIsolated { binding.end() }
        }
    }

    /// Returns the object bound under a name.
    @MainActor package func bound<Binding: WidgetBinding>(_ name: String, as type: Binding.Type = Binding.self) -> Binding? {
        guard let context = convoy_get_data(pointer, "convoy-\(name)") else { return nil }
        return Unmanaged<WidgetBinding>.fromOpaque(context).takeUnretainedValue() as? Binding
    }
}

/// A closure that is connected to a GObject signal.
@MainActor package final class Signal {
    private let body: @MainActor (UnsafeMutableRawPointer?) -> Void

    private init(_ body: @escaping @MainActor (UnsafeMutableRawPointer?) -> Void) { self.body = body }

    private func call(_ argument: Widget?) { MainLoop.meter.measure { body(argument?.pointer) } }

    /// Calls the closure on each emission of the signal with its first argument, or with the instance for a signal
    /// without arguments, until the instance is destroyed. A signal with a return value continues to its next handler.
    /// With `afterOthers`, the closure is called after all other handlers.
    @discardableResult
    package static func connect(
        _ instance: UnsafeMutableRawPointer, _ signal: String, afterOthers isLast: Bool = false,
        _ body: @escaping @MainActor (UnsafeMutableRawPointer?) -> Void
    ) -> UInt {
        let context = Unmanaged.passRetained(Signal(body)).toOpaque()
        let connect = isLast ? convoy_connect_after : convoy_connect
        return connect(
            instance, signal,
            { context, argument in
                guard let context else { return 0 }
                let signal = Unmanaged<Signal>.fromOpaque(context).takeUnretainedValue()
                let argument = argument.map { Widget($0) }
                MainActor.assumeIsolated { signal.call(argument) }
                return 0
            }, context,
            { context in
                if let context { Unmanaged<Signal>.fromOpaque(context).release() }
            })
    }
}

/// A timer that runs its closure on the main loop, and can be cancelled.
@MainActor package final class LoopTimer {
    private var source: UInt32 = 0
    private let body: @MainActor () -> Void

    private init(_ body: @escaping @MainActor () -> Void) { self.body = body }

    /// Calls the closure once after a delay, or repeatedly, until the timer is cancelled.
    package static func start(
        after seconds: Double, repeats: Bool = false, _ body: @escaping @MainActor () -> Void
    ) -> LoopTimer {
        let timer = LoopTimer(body)
        let milliseconds = UInt32(max(0, min(seconds, 86_400)) * 1000)
        let context = Unmanaged.passRetained(timer).toOpaque()
        let release: @convention(c) @Sendable (UnsafeMutableRawPointer?) -> Void = { context in
            if let context { Unmanaged<LoopTimer>.fromOpaque(context).release() }
        }
        timer.source =
            repeats
            ? convoy_timeout(milliseconds, { LoopTimer.fire($0, repeats: true) }, context, release)
            : convoy_timeout(milliseconds, { LoopTimer.fire($0, repeats: false) }, context, release)
        return timer
    }

    private nonisolated static func fire(_ context: UnsafeMutableRawPointer?, repeats: Bool) -> gboolean {
        guard let context else { return 0 }
        let timer = Unmanaged<LoopTimer>.fromOpaque(context).takeUnretainedValue()
        return MainActor.assumeIsolated {
            if !repeats { timer.source = 0 }
            MainLoop.meter.measure { timer.body() }
            return repeats && timer.source != 0 ? 1 : 0
        }
    }

    /// Stops the timer.
    package func cancel() {
        guard source != 0 else { return }
        let old = source
        source = 0
        g_source_remove(old)
    }
}

/// A callback for each frame of a widget while it is mapped.
@MainActor package final class FrameTicks {
    private let widget: Widget
    private var identifier: UInt32 = 0
    private let body: @MainActor (_ time: Int64) -> Bool

    private init(_ widget: Widget, _ body: @escaping @MainActor (Int64) -> Bool) {
        self.widget = widget
        self.body = body
    }

    /// Calls the closure with the time of each frame, in microseconds, until it returns false.
    package static func start(_ widget: Widget, _ body: @escaping @MainActor (_ time: Int64) -> Bool) -> FrameTicks {
        let ticks = FrameTicks(widget, body)
        ticks.identifier = convoy_add_tick(
            widget.widget,
            { _, clock, context in
                guard let context else { return 0 }
                let ticks = Unmanaged<FrameTicks>.fromOpaque(context).takeUnretainedValue()
                let time = Int64(gdk_frame_clock_get_frame_time(clock))
                return MainActor.assumeIsolated { MainLoop.meter.measure { ticks.body(time) } ? 1 : 0 }
            }, Unmanaged.passRetained(ticks).toOpaque(),
            { context in
                guard let context else { return }
                let ticks = Unmanaged<FrameTicks>.fromOpaque(context).takeRetainedValue()
                // GTK has removed the callback, for example with the widget, so it must not be
                // removed again.
                MainActor.assumeIsolated { ticks.identifier = 0 }
            })
        return ticks
    }

    package func cancel() {
        guard identifier != 0 else { return }
        let old = identifier
        identifier = 0
        gtk_widget_remove_tick_callback(widget.widget, old)
    }
}
#endif
