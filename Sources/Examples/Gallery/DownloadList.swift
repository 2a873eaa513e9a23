#if GTK
import CGTK
import Convoy
import ConvoyGTK
import Foundation

/// The panel with the downloads, which resume when the program is started again.
@MainActor final class DownloadList {
    private struct Row {
        let row: WidgetPointer
        let status: WidgetPointer
        let bar: WidgetPointer
        let action: WidgetPointer
        let remove: WidgetPointer
        var progress: ViewBinding?
    }

    private let directory: URL
    private let queue: Result<DownloadQueue, any Error>
    private let list = gtk_list_box_new()!
    private let scroller = gtk_scrolled_window_new()!
    private var rows: [UUID: Row] = [:]
    private var updates: Task<Void, Never>?
    let revealer: WidgetPointer

    init(in directory: URL, _ manager: HTTPRequestOperationManager) {
        self.directory = directory
        queue = Result {
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            return try DownloadQueue(directory: directory.appendingPathComponent(".gallery-downloads"), manager: manager)
        }
        let panel = Toolkit.box(GTK_ORIENTATION_VERTICAL, spacing: 0)
        revealer = Toolkit.revealer(panel, GTK_REVEALER_TRANSITION_TYPE_SLIDE_UP)
        fill(panel)
        guard let queue = try? queue.get() else { return }
        for entry in queue.entries { show(entry) }
        updates = Task { [weak self] in
            for await entry in queue.updates { self?.show(entry) }
        }
        queue.start()
    }

    private func fill(_ panel: WidgetPointer) {
        let title = Toolkit.label("Downloads")
        gtk_widget_add_css_class(title, "heading")
        gtk_widget_set_hexpand(title, 1)
        let folder = Toolkit.button("folder-open-symbolic", "Open Folder") { [unowned self] in open(directory) }
        let clear = Toolkit.button("edit-clear-all-symbolic", "Remove Finished Downloads") { [unowned self] in
            removeFinished()
        }
        let close = Toolkit.button("window-close-symbolic", "Close (Control-D)") { [unowned self] in toggle() }
        let header = Toolkit.box(GTK_ORIENTATION_HORIZONTAL, margin: 6).add(title, folder, clear, close)
        gtk_widget_set_margin_start(header, 12)

        let placeholder = gtk_label_new("No downloads yet. Press Control-S to download a picture.")!
        gtk_label_set_wrap(placeholder.opaque, 1)
        gtk_label_set_justify(placeholder.opaque, GTK_JUSTIFY_CENTER)
        gtk_widget_add_css_class(placeholder, "dim-label")
        for set in [gtk_widget_set_margin_top, gtk_widget_set_margin_bottom] { set(placeholder, 24) }
        gtk_list_box_set_placeholder(list.opaque, placeholder)
        gtk_list_box_set_selection_mode(list.opaque, GTK_SELECTION_NONE)
        gtk_list_box_set_show_separators(list.opaque, 1)
        convoy_set_label(list, "Downloads")
        gtk_scrolled_window_set_policy(scroller.opaque, GTK_POLICY_NEVER, GTK_POLICY_AUTOMATIC)
        gtk_scrolled_window_set_propagate_natural_height(scroller.opaque, 1)
        gtk_scrolled_window_set_child(scroller.opaque, list)
        let edges = [gtk_separator_new(GTK_ORIENTATION_HORIZONTAL)!, gtk_separator_new(GTK_ORIENTATION_HORIZONTAL)!]
        _ = panel.add(edges[0], header, edges[1], scroller)
    }

    func toggle() { gtk_revealer_set_reveal_child(revealer.opaque, 1 - gtk_revealer_get_reveal_child(revealer.opaque)) }

    func add(_ url: URL) throws {
        let queue = try queue.get()
        try queue.enqueue(DownloadRequest(url, directory: directory))
        gtk_revealer_set_reveal_child(revealer.opaque, 1)
    }

    // MARK: Rows

    private func show(_ entry: DownloadQueue.Entry) {
        guard let queue = try? queue.get() else { return }
        // The entry may have been removed since it was reported.
        guard entry.state != .cancelled, queue.entry(entry.id) != nil else { return removeRow(entry.id) }
        var row = rows[entry.id] ?? makeRow(entry.url.lastPathComponent)
        if rows[entry.id] == nil {
            Toolkit.connect(row.action, "clicked") { [weak self] _ in self?.act(on: entry.id) }
            Toolkit.connect(row.remove, "clicked") { [weak self] _ in self?.remove(entry.id) }
        }
        let sentence = Toolkit.printable(Explanation.sentence(for: entry))
        gtk_label_set_text(row.status.opaque, sentence)
        gtk_widget_set_tooltip_text(row.status, sentence)
        let (icon, tip) =
            switch entry.state {
            case .paused: ("media-playback-start-symbolic", "Resume")
            case .failed, .cancelled, .outcomeUnknown: ("view-refresh-symbolic", "Retry")
            case .finished: ("document-open-symbolic", "Open")
            case .waiting, .blocked, .running: ("media-playback-pause-symbolic", "Pause")
            }
        Toolkit.set(row.action, icon: icon, tip)
        Toolkit.set(row.remove, icon: "list-remove-symbolic", entry.state == .running ? "Cancel" : "Remove from List")
        row.progress?.invalidate()
        row.progress = nil
        if entry.state == .running, let operation = queue.operation(for: entry.id) {
            row.progress = row.bar.bound.setProgressWithDownloadProgress(of: operation)
        } else {
            let total = Double(max(1, entry.bytesExpected ?? 1))
            let fraction = entry.state == .finished ? 1 : min(1, Double(entry.bytesCompleted) / total)
            gtk_progress_bar_set_fraction(row.bar.opaque, entry.bytesExpected == nil && fraction < 1 ? 0 : fraction)
        }
        rows[entry.id] = row
    }

    private func makeRow(_ name: String) -> Row {
        let label = Toolkit.label(name)
        let status = Toolkit.label("")
        for style in ["caption", "dim-label"] { gtk_widget_add_css_class(status, style) }
        let bar = gtk_progress_bar_new()!
        convoy_set_label(bar, "Progress of \(Toolkit.printable(name))")
        let text = Toolkit.box(GTK_ORIENTATION_VERTICAL).add(label, bar, status)
        gtk_widget_set_hexpand(text, 1)
        let buttons = [
            Toolkit.button("media-playback-pause-symbolic", "Pause"), Toolkit.button("list-remove-symbolic", "Remove"),
        ]
        for button in buttons { gtk_widget_set_valign(button, GTK_ALIGN_CENTER) }
        let content = Toolkit.box(GTK_ORIENTATION_HORIZONTAL, margin: 6).add(text, buttons[0], buttons[1])
        gtk_widget_set_margin_start(content, 12)
        let row = gtk_list_box_row_new()!
        gtk_list_box_row_set_child(row.of(), content)
        gtk_list_box_row_set_activatable(row.of(), 0)
        convoy_set_label(row, Toolkit.printable(name))
        gtk_list_box_insert(list.opaque, row, 0)
        // The list shows complete rows.
        var height: Int32 = 0
        gtk_widget_measure(row, GTK_ORIENTATION_VERTICAL, -1, nil, &height, nil, nil)
        gtk_scrolled_window_set_max_content_height(scroller.opaque, 3 * height)
        return Row(row: row, status: status, bar: bar, action: buttons[0], remove: buttons[1])
    }

    private func removeRow(_ id: UUID) {
        guard let row = rows.removeValue(forKey: id) else { return }
        row.progress?.invalidate()
        gtk_list_box_remove(list.opaque, row.row)
    }

    // MARK: Actions

    private func act(on id: UUID) {
        perform(id) { queue, entry in
            switch entry.state {
            case .paused: try queue.resume(id)
            case .failed, .cancelled, .outcomeUnknown: try queue.retry(id)
            case .finished: self.open(entry.file ?? self.directory)
            case .waiting, .blocked, .running: try queue.pause(id)
            }
        }
    }

    private func remove(_ id: UUID) {
        perform(id) { queue, _ in
            try queue.cancel(id)
            self.removeRow(id)
        }
    }

    private func perform(_ id: UUID, _ action: @MainActor (DownloadQueue, DownloadQueue.Entry) throws -> Void) {
        guard let queue = try? queue.get(), let entry = queue.entry(id) else { return }
        do {
            try action(queue, entry)
        } catch {
            gtk_label_set_text(rows[id]?.status.opaque, Toolkit.printable(Explanation.sentence(for: error)))
        }
    }

    private func removeFinished() {
        guard let queue = try? queue.get() else { return }
        queue.removeFinished()
        for id in Array(rows.keys) where queue.entry(id) == nil { removeRow(id) }
    }

    /// Opens a file or a folder in the program that the desktop chooses.
    private func open(_ file: URL) {
        let window = gtk_widget_get_root(revealer).map {
            UnsafeMutableRawPointer($0).assumingMemoryBound(to: GtkWindow.self)
        }
        gtk_show_uri(window, file.absoluteString, 0)
    }
}
#endif
