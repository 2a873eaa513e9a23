#if GTK
import CGTK
import ConvoyRealtime
import ConvoySupport
import Foundation

extension Widget {
    /// Appends the events of a source to a `GtkTextView`, one paragraph per event, and keeps the
    /// most recent lines.
    ///
    /// The view scrolls to the end as events arrive, unless the user has scrolled away from it. The
    /// binding ends when the source ends or the view is destroyed; destroying the view does not
    /// close the source.
    ///
    /// - Parameters:
    ///   - source: The source of the events. They arrive on its `completionQueue`, where `text` is also called.
    ///   - maximumLineCount: The maximum number of lines that the view keeps.
    ///   - text: A closure that returns the text to show for an event, or nil to skip the event. By default, the
    ///     event's data is shown. A line of more than 2,000 characters is truncated.
    @MainActor public func showEvents(
        of source: EventSource, maximumLineCount: Int = 1000, text: (@Sendable (ServerSentEvent) -> String?)? = nil
    ) {
        require(gtk_text_view_get_type())
        bind(EventsBinding(self, source, max(1, min(maximumLineCount, 1_000_000)), text), as: "events")
    }
}

/// The lines that have arrived but are not in the view yet, limited to what the view would keep.
private final class EventLines: Sendable {
    private struct State {
        var lines: [String] = []
        var isPosted = false
        var isOver = false
    }

    /// The maximum length of a line. GTK lays out each paragraph in one pass, regardless of its
    /// length.
    static let maximumLength = 2000

    private let limit: Int
    private let state = Locked(State())

    init(limit: Int) { self.limit = limit }

    /// Appends lines. Returns whether the view must be scheduled to fetch them.
    func append(_ text: String) -> Bool {
        let lines = text.split(omittingEmptySubsequences: false) { $0.isNewline }.suffix(limit).map(Self.line)
        return state.withLock { state in
            guard !state.isOver else { return false }
            state.lines += lines
            // Trim rarely, because removing the first lines moves all others.
            if state.lines.count >= 2 * limit { state.lines.removeFirst(state.lines.count - limit) }
            defer { state.isPosted = true }
            return !state.isPosted
        }
    }

    func take() -> [String] {
        state.withLock { state in
            defer {
                state.lines = []
                state.isPosted = false
            }
            return state.lines.count > limit ? Array(state.lines.suffix(limit)) : state.lines
        }
    }

    func close() { state.withLock { $0 = State(isOver: true) } }

    private static func line(_ text: Substring) -> String {
        var line = String(text.prefix(maximumLength))
        if line.endIndex != text.endIndex, line.utf8.count < text.utf8.count { line += "…" }
        // GTK text cannot contain NUL. A character may have any number of combining marks, so limit
        // the number of bytes as well.
        if line.utf8.contains(0) { line = line.replacingOccurrences(of: "\0", with: "\u{FFFD}") }
        if line.utf8.count > 8 * maximumLength {
            line = String(String.UnicodeScalarView(line.unicodeScalars.prefix(maximumLength))) + "…"
        }
        return line
    }
}

@MainActor private final class EventsBinding: WidgetBinding {
    private let lines: EventLines
    private let limit: Int
    private weak var source: EventSource?
    private let observer: Int
    private var following: FrameTicks?
    private var controller: ObjectReference?

    init(_ widget: Widget, _ source: EventSource, _ limit: Int, _ text: (@Sendable (ServerSentEvent) -> String?)?) {
        self.limit = limit
        self.source = source
        let lines = EventLines(limit: limit)
        self.lines = lines
        let place = EventsPlace()
        observer = source.addObserver { event in
            guard let text = text.map({ $0(event) }) ?? event.data, lines.append(text) else { return }
            MainInbox.post { place.binding?.show() }
        }
        super.init(widget)
        place.binding = self
        // Stop following when the user scrolls or moves the cursor, so that arriving lines do not
        // pull the view to the end.
        if let scrolling = gtk_event_controller_scroll_new(GTK_EVENT_CONTROLLER_SCROLL_VERTICAL) {
            Signal.connect(UnsafeMutableRawPointer(scrolling), "scroll") { [weak self] _ in self?.stopFollowing() }
            controller = ObjectReference(retaining: UnsafeMutableRawPointer(scrolling))
            gtk_widget_add_controller(widget.widget, scrolling)
        }
        connect("move-cursor") { [weak self] in self?.stopFollowing() }
    }

    private func stopFollowing() {
        following?.cancel()
        following = nil
    }

    private func show() {
        let new = lines.take()
        guard !new.isEmpty, let buffer = gtk_text_view_get_buffer(view) else { return }
        let follows = isAtEnd || following != nil
        var end = GtkTextIter()
        gtk_text_buffer_get_end_iter(buffer, &end)
        let isEmpty = gtk_text_buffer_get_char_count(buffer) == 0
        let text = (isEmpty ? "" : "\n") + new.joined(separator: "\n")
        gtk_text_buffer_insert(buffer, &end, text, -1)
        let excess = Int(gtk_text_buffer_get_line_count(buffer)) - limit
        if excess > 0 {
            var (begin, keep) = (GtkTextIter(), GtkTextIter())
            gtk_text_buffer_get_start_iter(buffer, &begin)
            gtk_text_buffer_get_iter_at_line(buffer, &keep, Int32(excess))
            gtk_text_buffer_delete(buffer, &begin, &keep)
        }
        if follows { follow() }
    }

    private var view: UnsafeMutablePointer<GtkTextView> { widget.pointer.assumingMemoryBound(to: GtkTextView.self) }

    /// Whether the last line is visible, or no line has been shown yet. In both cases, the view
    /// follows new lines.
    private var isAtEnd: Bool {
        guard let adjustment = gtk_scrollable_get_vadjustment(widget.opaque) else { return true }
        let visible = gtk_adjustment_get_value(adjustment) + gtk_adjustment_get_page_size(adjustment)
        return visible >= gtk_adjustment_get_upper(adjustment) - 8
    }

    /// Scrolls with each frame until the end is in view, because GTK lays out new lines
    /// incrementally.
    private func follow() {
        guard following == nil else { return }
        var frames = 0
        following = FrameTicks.start(widget) { [weak self] _ in
            guard let self else { return false }
            frames += 1
            // The first frame may arrive before the new lines have a height.
            if frames > 1, isAtEnd || frames > 60 {
                following = nil
                return false
            }
            scrollToEnd()
            return true
        }
    }

    private func scrollToEnd() {
        guard let buffer = gtk_text_view_get_buffer(view) else { return }
        var end = GtkTextIter()
        gtk_text_buffer_get_end_iter(buffer, &end)
        let mark: UnsafeMutablePointer<GtkTextMark>
        if let existing = gtk_text_buffer_get_mark(buffer, "convoy-end") {
            mark = existing
            gtk_text_buffer_move_mark(buffer, mark, &end)
        } else if let made = gtk_text_buffer_create_mark(buffer, "convoy-end", &end, 0) {
            mark = made
        } else {
            return
        }
        gtk_text_view_scroll_to_mark(view, mark, 0, 0, 0, 1)
    }

    override func end() {
        stopFollowing()
        // A widget that is being destroyed has already removed its controllers.
        if let controller, gtk_event_controller_get_widget(controller.opaque) == widget.widget {
            gtk_widget_remove_controller(widget.widget, controller.opaque)
        }
        controller = nil
        source?.removeObserver(observer)
        lines.close()
        super.end()
    }
}

/// A weak reference to the binding of a view, so that the source does not retain the view.
private final class EventsPlace: @unchecked Sendable {
    // The binding is used only on the main actor.
    weak var binding: EventsBinding?
}
#endif
