#if GTK
import CGTK
import ConvoyGTK
import ConvoyImage
import Foundation

/// The grid of pictures. A cell shows a picture and its name, or the reason why it cannot be shown.
@MainActor final class PictureGrid {
    let widget: WidgetPointer
    private(set) var pictures: [URL] = []
    private let model = gtk_string_list_new(nil)!
    private let selection: OpaquePointer
    private let view: WidgetPointer
    /// The cells that have a picture, by its position.
    private var cells: [Int: WidgetPointer] = [:]
    /// Whether the selected picture will get the focus, when its cell exists.
    private var isFocusing = false

    init(_ downloader: ImageDownloader, onActivate activate: @escaping @MainActor (Int) -> Void) {
        let factory = gtk_signal_list_item_factory_new()!
        selection = gtk_single_selection_new(model)
        view = gtk_grid_view_new(selection, factory)!
        gtk_grid_view_set_max_columns(view.opaque, 8)  // GTK creates 30 rows of this many cells.
        gtk_grid_view_set_min_columns(view.opaque, 2)
        convoy_set_label(view, "Pictures")
        widget = gtk_scrolled_window_new()!.expanding()
        gtk_scrolled_window_set_child(widget.opaque, view)
        Toolkit.connect(view, "activate") { [unowned self] position in
            activate(isFocusing ? selected : Int(UInt32(truncatingIfNeeded: position)))
        }
        let signals = UnsafeMutableRawPointer(factory)
        Toolkit.connect(signals, "setup") { item in
            gtk_list_item_set_child(OpaquePointer(bitPattern: item), Cell.make().box)
        }
        // Cells are reused: the next call replaces the cell's image and cancels its download.
        Toolkit.connect(signals, "bind") { [unowned self] item in
            guard let box = gtk_list_item_get_child(OpaquePointer(bitPattern: item)), let cell = Cell(box) else { return }
            let position = Int(gtk_list_item_get_position(OpaquePointer(bitPattern: item)))
            cells[position] = box
            let url = pictures[position]
            cell.show(url.lastPathComponent)
            cell.picture.bound.setImage(
                from: url, placeholder: .icon("image-x-generic-symbolic"), failure: .icon("dialog-warning-symbolic"),
                transition: .crossFade(), by: downloader
            ) { result in
                if case .failure(let error) = result { cell.show(url.lastPathComponent, error) }
            }
        }
        Toolkit.connect(signals, "unbind") { [unowned self] item in
            guard let box = gtk_list_item_get_child(OpaquePointer(bitPattern: item)) else { return }
            cells = cells.filter { $0.value != box }
            Cell(box)?.picture.bound.clearImage()
        }
    }

    var selected: Int { Int(gtk_single_selection_get_selected(selection)) }

    func show(_ pictures: [URL]) {
        self.pictures = pictures
        var names: [UnsafePointer<CChar>?] = pictures.map { UnsafePointer(strdup($0.lastPathComponent)) } + [nil]
        gtk_string_list_splice(model, 0, g_list_model_get_n_items(model), &names)
        for name in names { free(UnsafeMutableRawPointer(mutating: name)) }
    }

    /// Selects a picture.
    func select(_ position: Int) { gtk_single_selection_set_selected(selection, UInt32(position)) }

    /// Scrolls to the selected picture and gives it the focus.
    func focus() {
        gtk_widget_grab_focus(view)
        let position = selected
        guard pictures.indices.contains(position) else { return }
        gtk_widget_activate_action_variant(view, "list.scroll-to-item", g_variant_new_uint32(UInt32(position)))
        // The cell may exist only after the next layout.
        var frames = 0
        isFocusing = true
        Toolkit.poll(view) { [weak self] in
            frames += 1
            guard let self else { return true }
            let item = cells[position].flatMap { gtk_widget_get_parent($0) }
            let isShown = item.map { gtk_widget_get_mapped($0) != 0 } ?? false
            guard isShown || selected != position || frames >= 30 else { return false }
            if let item, isShown, selected == position { gtk_widget_grab_focus(item) }
            isFocusing = false
            return true
        }
    }
}

/// The widgets of a cell.
@MainActor private struct Cell {
    let box: WidgetPointer
    let picture: WidgetPointer
    let caption: WidgetPointer

    static func make() -> Cell {
        let picture = gtk_picture_new()!
        gtk_picture_set_content_fit(picture.opaque, GTK_CONTENT_FIT_COVER)
        gtk_widget_set_size_request(picture, 144, 144)
        let caption = Toolkit.label("")
        gtk_label_set_xalign(caption.opaque, 0.5)
        gtk_label_set_max_width_chars(caption.opaque, 14)
        gtk_widget_add_css_class(caption, "caption")
        return Cell(box: Toolkit.box(GTK_ORIENTATION_VERTICAL).add(picture, caption), picture: picture, caption: caption)
    }

    private init(box: WidgetPointer, picture: WidgetPointer, caption: WidgetPointer) {
        self.box = box
        self.picture = picture
        self.caption = caption
    }

    /// Returns the cell with a box.
    init?(_ box: WidgetPointer) {
        guard let picture = gtk_widget_get_first_child(box), let caption = gtk_widget_get_next_sibling(picture) else {
            return nil
        }
        self.init(box: box, picture: picture, caption: caption)
    }

    /// Shows the name, or the reason why the picture cannot be shown.
    func show(_ name: String, _ error: (any Error)? = nil) {
        let name = Toolkit.printable(name)
        let text = error.map { "\(name): \(Toolkit.printable(Explanation.sentence(for: $0)))" } ?? name
        gtk_label_set_text(caption.opaque, error.map(Explanation.words) ?? name)
        gtk_widget_set_tooltip_text(box, text)
        convoy_set_label(picture, name)
        // The item of the list has the focus, so its name is read.
        if let item = gtk_widget_get_parent(box) { convoy_set_label(item, text) }
    }
}
#endif
