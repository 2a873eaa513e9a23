#if GTK
import CGTK
import Convoy
import ConvoyGTK
import Foundation

/// The downloads, which resume when the program is started again.
@MainActor final class DownloadList {
    private struct Row {
        let label: WidgetPointer
        let bar: WidgetPointer
        let toggle: WidgetPointer
    }

    private let directory: URL
    private let queue: Result<DownloadQueue, any Error>
    private let box = gtk_list_box_new()!
    private var rows: [UUID: Row] = [:]
    private var updates: Task<Void, Never>?
    let revealer: WidgetPointer

    init(in directory: URL, _ manager: HTTPRequestOperationManager) {
        self.directory = directory
        queue = Result {
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            return try DownloadQueue(directory: directory.appendingPathComponent(".gallery-downloads"), manager: manager)
        }
        let scroller = gtk_scrolled_window_new()!
        gtk_widget_set_size_request(scroller, -1, 180)
        gtk_scrolled_window_set_child(scroller.opaque, box)
        gtk_list_box_set_selection_mode(box.opaque, GTK_SELECTION_NONE)
        gtk_list_box_set_placeholder(box.opaque, Toolkit.label("No downloads yet: press Control-S to download a picture."))
        revealer = Toolkit.revealer(scroller, GTK_REVEALER_TRANSITION_TYPE_SLIDE_UP)
        guard let queue = try? queue.get() else { return }
        for entry in queue.entries { show(entry) }
        updates = Task { [weak self] in
            for await entry in queue.updates { self?.show(entry) }
        }
        queue.start()
    }

    func toggle() { gtk_revealer_set_reveal_child(revealer.opaque, 1 - gtk_revealer_get_reveal_child(revealer.opaque)) }

    func add(_ url: URL) throws {
        let queue = try queue.get()
        try queue.enqueue(DownloadRequest(url, directory: directory))
        gtk_revealer_set_reveal_child(revealer.opaque, 1)
    }

    private func show(_ entry: DownloadQueue.Entry) {
        guard let queue = try? queue.get() else { return }
        let row = rows[entry.id] ?? makeRow(entry.id)
        var text = "\(entry.url.lastPathComponent) · \(entry.state.rawValue)"
        if let error = entry.errorDescription, entry.state == .failed { text += ": \(error)" }
        gtk_label_set_text(row.label.opaque, text.replacingOccurrences(of: "\0", with: ""))
        let (icon, tip) =
            switch entry.state {
            case .paused: ("media-playback-start-symbolic", "Resume")
            case .failed, .cancelled: ("view-refresh-symbolic", "Retry")
            default: ("media-playback-pause-symbolic", "Pause")
            }
        gtk_button_set_icon_name(row.toggle.of(), icon)
        gtk_widget_set_tooltip_text(row.toggle, tip)
        row.toggle.show(entry.state != .finished)
        if entry.state == .finished {
            gtk_progress_bar_set_fraction(row.bar.opaque, 1)
        } else if let operation = queue.operation(for: entry.id) {
            row.bar.bound.setProgressWithDownloadProgress(of: operation)
        }
    }

    private func makeRow(_ id: UUID) -> Row {
        let label = Toolkit.label("")
        gtk_widget_set_hexpand(label, 1)
        let bar = gtk_progress_bar_new()!
        gtk_widget_set_valign(bar, GTK_ALIGN_CENTER)
        let toggle = Toolkit.button("media-playback-pause-symbolic", "Pause") { [weak self] in self?.toggle(id) }
        let widget = Toolkit.box(GTK_ORIENTATION_HORIZONTAL, margin: 6).add(label, bar, toggle)
        gtk_list_box_insert(box.opaque, widget, 0)
        rows[id] = Row(label: label, bar: bar, toggle: toggle)
        return rows[id]!
    }

    private func toggle(_ id: UUID) {
        guard let queue = try? queue.get(), let entry = queue.entry(id) else { return }
        do {
            switch entry.state {
            case .paused: try queue.resume(id)
            case .failed, .cancelled: try queue.retry(id)
            default: try queue.pause(id)
            }
        } catch {
            gtk_label_set_text(rows[id]?.label.opaque, error.localizedDescription)
        }
    }
}
#endif
