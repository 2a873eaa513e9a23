#if GTK
import CGTK
import ConvoyImage

/// A widget that shows a single picture.
@MainActor struct PictureSurface {
    let widget: Widget
    private let isPicture: Bool

    init(_ widget: Widget) {
        self.widget = widget
        isPicture = widget.isA(gtk_picture_get_type())
    }

    func show(_ paintable: ObjectReference?) {
        if isPicture {
            gtk_picture_set_paintable(widget.opaque, paintable?.opaque)
        } else if let paintable {
            gtk_image_set_from_paintable(widget.opaque, paintable.opaque)
        } else {
            gtk_image_clear(widget.opaque)
        }
    }

    func show(_ placeholder: PlaceholderImage) {
        switch placeholder.content {
        case .empty: show(nil)
        case .unchanged: break
        case .icon(let name) where !isPicture: gtk_image_set_from_icon_name(widget.opaque, name)
        case .icon(let name):
            let (width, height) = size
            show(Paintables.icon(name, of: widget, width: width ?? 96, height: height ?? 96))
        case .image(let image): show(Paintables.texture(of: image))
        case .paintable(let paintable): show(paintable)
        }
    }

    /// The paintable that the widget shows; nil if a `GtkImage` shows a named icon.
    var shown: ObjectReference? {
        let paintable = isPicture ? gtk_picture_get_paintable(widget.opaque) : gtk_image_get_paintable(widget.opaque)
        return paintable.map { ObjectReference(retaining: UnsafeMutableRawPointer($0)) }
    }

    /// Whether the picture covers the entire widget.
    var isCovered: Bool { isPicture && gtk_picture_get_content_fit(widget.opaque) == GTK_CONTENT_FIT_COVER }

    /// The width and the height, if they are known before the widget appears on the screen.
    private var size: (width: Int?, height: Int?) {
        if !isPicture, gtk_image_get_pixel_size(widget.opaque) > 0 {
            let length = Int(gtk_image_get_pixel_size(widget.opaque))
            return (length, length)
        }
        var (width, height): (Int32, Int32) = (0, 0)
        gtk_widget_get_size_request(widget.widget, &width, &height)
        width = max(width, gtk_widget_get_width(widget.widget))
        height = max(height, gtk_widget_get_height(widget.widget))
        return (width > 0 ? Int(width) : nil, height > 0 ? Int(height) : nil)
    }

    /// The size, in pixels, for which a picture is decoded.
    var pixelSize: ImageSize {
        let scale = Int(max(1, gtk_widget_get_scale_factor(widget.widget)))
        let (width, height) = size
        let screen = screenSize
        func rounded(_ length: Int?, most: Int) -> Int { length.map { min(most, ($0 * scale + 63) / 64 * 64) } ?? most }
        return ImageSize(width: rounded(width, most: screen.width), height: rounded(height, most: screen.height))
    }

    /// The size of the largest screen, in pixels.
    private var screenSize: ImageSize {
        var size = ImageSize(width: 0, height: 0)
        if let monitors = gdk_display_get_monitors(gtk_widget_get_display(widget.widget)) {
            for index in 0..<g_list_model_get_n_items(monitors) {
                guard let monitor = g_list_model_get_item(monitors, index) else { continue }
                defer { convoy_unref(monitor) }
                var area = GdkRectangle()
                gdk_monitor_get_geometry(OpaquePointer(monitor), &area)
                let scale = max(1, gdk_monitor_get_scale_factor(OpaquePointer(monitor)))
                size.width = max(size.width, Int(area.width * scale))
                size.height = max(size.height, Int(area.height * scale))
            }
        }
        return size.width > 0 && size.height > 0 ? size : ImageSize(width: 3840, height: 2160)
    }
}
#endif
