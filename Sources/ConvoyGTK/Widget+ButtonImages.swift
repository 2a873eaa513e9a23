#if GTK
import CGTK
import ConvoyImage
import Foundation

/// The button states that can have their own picture. The counterpart of `UIControlState`.
public enum ButtonState: Sendable, Hashable, CaseIterable {
    /// Any state for which no picture is set.
    case normal
    /// The pointer is over the button: `GTK_STATE_FLAG_PRELIGHT`.
    case hovered
    /// The button is pressed: `GTK_STATE_FLAG_ACTIVE`.
    case pressed
    /// The toggle button is on: `GTK_STATE_FLAG_CHECKED`.
    case checked
    /// The button is insensitive: `GTK_STATE_FLAG_INSENSITIVE`.
    case disabled

    /// The states in order of precedence, for a button that is in several states.
    fileprivate static let byPrecedence: [(state: ButtonState, flag: GtkStateFlags)] = [
        (.disabled, GTK_STATE_FLAG_INSENSITIVE), (.pressed, GTK_STATE_FLAG_ACTIVE), (.checked, GTK_STATE_FLAG_CHECKED),
        (.hovered, GTK_STATE_FLAG_PRELIGHT),
    ]
}

extension Widget {
    /// Loads the picture at a URL and shows it in a `GtkButton` while the button is in the given
    /// state. The counterpart of `setImageForState:withURL:` of `UIButton`.
    ///
    /// The button's child becomes a `GtkImage`. If the picture of a state has not arrived, the
    /// button shows that of ``ButtonState/normal``, or else the state's placeholder. A new call
    /// ends the previous load for the same state.
    ///
    /// - Parameters:
    ///   - url: The URL of the picture.
    ///   - state: The state in which the picture is shown.
    ///   - size: The width and height in the button, in GTK's pixels. It applies to all states; the
    ///     last call wins.
    ///   - placeholder: The content shown until a picture is available.
    ///   - downloader: The downloader that loads the picture.
    ///   - completion: Called as for
    ///     ``setImage(_:placeholder:failure:transition:showsPreviews:by:completion:)``.
    @MainActor public func setImage(
        from url: URL, for state: ButtonState, size: Int = 32, placeholder: PlaceholderImage = .empty,
        by downloader: ImageDownloader = .default, completion: ImageCompletion? = nil
    ) {
        require(gtk_button_get_type())
        let existing: ButtonBinding? = bound("button-images")
        let binding = existing ?? ButtonBinding(self)
        if existing == nil { bind(binding, as: "button-images") }
        binding.set(url, state, max(1, min(size, 4096)), placeholder, downloader, completion)
    }

    /// Cancels the load for a button state without calling its completion. The button keeps its
    /// picture.
    @MainActor public func cancelImage(for state: ButtonState) {
        bound("button-images", as: ButtonBinding.self)?.cancel(state)
    }
}

/// The pictures of a button by state.
@MainActor private final class ButtonBinding: WidgetBinding {
    private struct Picture {
        var load: PictureLoad?
        var texture: ObjectReference?
        var placeholder: PlaceholderImage
    }

    private let image: ObjectReference
    private let surface: PictureSurface
    private var pictures: [ButtonState: Picture] = [:]

    override init(_ widget: Widget) {
        // Replace any other child of the button by an image.
        let child = UnsafeMutableRawPointer(gtk_image_new()!)
        image = ObjectReference(taking: convoy_ref_sink(child))
        surface = PictureSurface(Widget(child))
        super.init(widget)
        gtk_button_set_child(
            widget.pointer.assumingMemoryBound(to: GtkButton.self), child.assumingMemoryBound(to: GtkWidget.self))
        connect("state-flags-changed") { [weak self] in self?.show() }
    }

    func set(
        _ url: URL, _ state: ButtonState, _ size: Int, _ placeholder: PlaceholderImage, _ downloader: ImageDownloader,
        _ completion: Widget.ImageCompletion?
    ) {
        cancel(state)
        gtk_image_set_pixel_size(surface.widget.opaque, Int32(size))
        var request = ImageRequest(url)
        request.size = surface.pixelSize
        if let picture = downloader.cachedImage(for: request), let texture = Paintables.texture(of: picture) {
            pictures[state] = Picture(texture: texture, placeholder: placeholder)
            show()
            completion?(.success(picture))
            return
        }
        pictures[state] = Picture(placeholder: placeholder)
        show()
        convoy_set_busy(widget.widget, 1)
        pictures[state]?.load = PictureLoad(request, by: downloader) { [weak self] result in
            self?.finish(result, state)
            completion?(result)
        }
    }

    private func finish(_ result: Result<Image, any Error>, _ state: ButtonState) {
        pictures[state]?.load = nil
        if case .success(let picture) = result { pictures[state]?.texture = Paintables.texture(of: picture) }
        didEndLoad()
        show()
    }

    private func didEndLoad() {
        if !pictures.values.contains(where: { $0.load != nil }) { convoy_set_busy(widget.widget, 0) }
    }

    func cancel(_ state: ButtonState) {
        guard let load = pictures[state]?.load else { return }
        load.cancel()
        pictures[state]?.load = nil
        didEndLoad()
    }

    /// Shows the picture of the state that takes precedence.
    private func show() {
        let flags = gtk_widget_get_state_flags(widget.widget).rawValue
        let states = ButtonState.byPrecedence.filter { flags & $0.flag.rawValue != 0 }.map(\.state) + [.normal]
        if let texture = states.lazy.compactMap({ self.pictures[$0]?.texture }).first {
            surface.show(texture)
        } else if let placeholder = states.lazy.compactMap({ self.pictures[$0]?.placeholder }).first {
            surface.show(placeholder)
        }
    }

    override func end() {
        for picture in pictures.values { picture.load?.end() }
        pictures = [:]
        super.end()
    }
}
#endif
