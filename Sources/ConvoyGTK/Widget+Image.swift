#if GTK
import CGTK
import ConvoyImage
import ConvoyOperations
import Dispatch
import Foundation
import Synchronization

extension Widget {
    /// A closure that is called with the picture when it is shown, or with the error.
    public typealias ImageCompletion = @MainActor (_ result: Result<Image, any Error>) -> Void

    /// Loads the picture at a URL and shows it in a `GtkPicture` or a `GtkImage`. The counterpart
    /// of `setImageWithURL:placeholderImage:` of `UIImageView`. For more options, see
    /// ``setImage(_:placeholder:failure:transition:showsPreviews:by:completion:)``.
    @MainActor public func setImage(
        from url: URL, placeholder: PlaceholderImage = .empty, failure: PlaceholderImage? = nil,
        transition: ImageTransition = .none, by downloader: ImageDownloader = .default,
        completion: ImageCompletion? = nil
    ) {
        setImage(
            ImageRequest(url), placeholder: placeholder, failure: failure, transition: transition, by: downloader,
            completion: completion)
    }

    /// Loads a picture and shows it in a `GtkPicture` or a `GtkImage`.
    ///
    /// A new call ends the previous load of the widget without calling its completion, so that a
    /// reused cell shows only its own picture or placeholder. A picture in the memory cache is
    /// shown before this method returns. An animation plays while the widget is visible.
    ///
    /// - Parameters:
    ///   - request: The image to load. If the request has no size, the image is decoded for the
    ///     widget: in its allocated or requested size, in pixels of its screen, rounded up to a
    ///     multiple of 64 so that cells share their pictures, and never larger than the screen. It
    ///     is loaded again when the widget moves to a screen with a different scale factor.
    ///   - placeholder: The content shown while the picture loads.
    ///   - failure: The content shown after an error. Defaults to the placeholder.
    ///   - transition: The transition from the placeholder to a picture that was not in memory.
    ///   - showsPreviews: Whether to show coarse previews of a progressive JPEG as its bytes
    ///     arrive.
    ///   - downloader: The downloader that loads the image.
    ///   - completion: Called once, unless another call or ``cancelImage()`` ends this load or the
    ///     widget is destroyed. If the picture is in memory, it is called before this method
    ///     returns.
    @MainActor public func setImage(
        _ request: ImageRequest, placeholder: PlaceholderImage = .empty, failure: PlaceholderImage? = nil,
        transition: ImageTransition = .none, showsPreviews: Bool = false, by downloader: ImageDownloader = .default,
        completion: ImageCompletion? = nil
    ) {
        require(gtk_picture_get_type(), gtk_image_get_type())
        let binding = bound("image") ?? ImageBinding(self)
        if bound("image", as: ImageBinding.self) == nil { bind(binding, as: "image") }
        MainLoop.meter.measure {
            binding.set(
                ImageBinding.Job(
                    request: request, placeholder: placeholder, failure: failure ?? placeholder, transition: transition,
                    showsPreviews: showsPreviews, downloader: downloader), completion)
        }
    }

    /// Cancels the current load without calling its completion. The widget keeps its content. The
    /// counterpart of `cancelImageRequestOperation`.
    @MainActor public func cancelImage() {
        bound("image", as: ImageBinding.self)?.cancel()
    }

    /// Cancels the current load and clears the widget, for example when a cell scrolls out of view.
    @MainActor public func clearImage() {
        require(gtk_picture_get_type(), gtk_image_get_type())
        cancelImage()
        PictureSurface(self).show(nil)
    }

    /// Whether a picture is loading.
    @MainActor public var isLoadingImage: Bool { bound("image", as: ImageBinding.self)?.isLoading ?? false }
}

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

/// The number of picture loads in memory, for leak tests.
package enum PictureLoads {
    fileprivate static let living = Atomic(0)
    package static var count: Int { living.load(ordering: .relaxed) }
}

/// One picture being loaded, delivered on the main thread.
@MainActor final class PictureLoad {
    /// The queue of the downloader's handlers, which forward to the main thread in portions.
    private static let arrivals = DispatchQueue(label: "Convoy.GTK.images")

    private var receipt: ImageDownloadReceipt?
    private var handler: Widget.ImageCompletion?
    private var preview: (@MainActor (Image) -> Void)?

    init(
        _ request: ImageRequest, by downloader: ImageDownloader, preview: (@MainActor (Image) -> Void)? = nil,
        _ handler: @escaping Widget.ImageCompletion
    ) {
        PictureLoads.living.add(1, ordering: .relaxed)
        self.handler = handler
        self.preview = preview
        var previewHandler: (@Sendable (Image) -> Void)?
        if preview != nil {
            previewHandler = { [self] image in MainInbox.post { self.preview?(image) } }
        }
        receipt = downloader.load(request, on: Self.arrivals, preview: previewHandler) { [self] result in
            MainInbox.post { self.finish(result) }
        }
    }

    deinit { PictureLoads.living.subtract(1, ordering: .relaxed) }

    private func finish(_ result: Result<Image, any Error>) {
        let handler = handler
        (self.handler, preview, receipt) = (nil, nil, nil)
        handler?(result)
    }

    var priority: Operation.QueuePriority? {
        get { receipt?.priority }
        set { if let newValue { receipt?.priority = newValue } }
    }

    /// Cancels the load, so that no handler is called afterwards.
    func cancel() {
        let old = receipt
        (handler, preview, receipt) = (nil, nil, nil)
        _ = old?.cancel()
    }
}

/// The loading and display of pictures in an image widget.
@MainActor final class ImageBinding: WidgetBinding {
    struct Job {
        var request: ImageRequest
        var placeholder: PlaceholderImage
        var failure: PlaceholderImage
        var transition: ImageTransition
        var showsPreviews: Bool
        var downloader: ImageDownloader
    }

    private let surface: PictureSurface
    private var load: PictureLoad?
    private var fade: CrossFade?
    private var player: AnimationPlayer?
    /// The picture that is shown or loading, if the picture is decoded for the widget's size.
    private var job: Job?
    private var scale: Int32
    private var isBusy = false
    private var isDescribed = false

    override init(_ widget: Widget) {
        surface = PictureSurface(widget)
        scale = gtk_widget_get_scale_factor(widget.widget)
        super.init(widget)
        connect("map") { [weak self] in self?.player?.play() }
        connect("unmap") { [weak self] in self?.player?.pause() }
        connect("notify::scale-factor") { [weak self] in self?.scaleDidChange() }
    }

    var isLoading: Bool { load != nil }

    func set(_ job: Job, _ completion: Widget.ImageCompletion?) {
        cancel()
        var job = job
        self.job = job.request.size == nil ? job : nil
        if job.request.size == nil {
            job.request.size = surface.pixelSize
            job.request.contentMode = surface.isCovered ? .fill : .fit
        }
        if let image = job.downloader.cachedImage(for: job.request), let texture = Paintables.texture(of: image) {
            surface.show(texture)
            didEnd(nil)
            play(image)
            completion?(.success(image))
            return
        }
        surface.show(job.placeholder)
        setBusy(true)
        var preview: (@MainActor (Image) -> Void)?
        if job.showsPreviews {
            preview = { [weak self] image in
                guard let self, let texture = Paintables.texture(of: image) else { return }
                surface.show(texture)
            }
        }
        load = PictureLoad(job.request, by: job.downloader, preview: preview) { [weak self] result in
            self?.finish(result, job, completion)
        }
    }

    private func finish(_ result: Result<Image, any Error>, _ job: Job, _ completion: Widget.ImageCompletion?) {
        load = nil
        switch result {
        case .success(let image):
            guard let texture = Paintables.texture(of: image) else {
                return finish(.failure(URLError(.cannotDecodeContentData)), job, completion)
            }
            didEnd(nil)
            if job.transition.duration > 0, widget.isMapped, Animations.areOn {
                fade = CrossFade(
                    on: widget, from: surface.shown, to: texture, lasting: job.transition.duration
                ) { [weak self] mixture in
                    guard let self else { return }
                    surface.show(mixture)
                    if mixture === texture {
                        fade = nil
                        play(image)
                    }
                }
            } else {
                surface.show(texture)
                play(image)
            }
        case .failure(let error):
            self.job = nil
            surface.show(job.failure)
            didEnd(error)
        }
        completion?(result)
    }

    private func play(_ image: Image) {
        guard let animation = image.animation, Animations.areOn else { return }
        let surface = surface
        player = AnimationPlayer(animation) { surface.show($0) }
        if widget.isMapped { player?.play() }
    }

    private func scaleDidChange() {
        let new = gtk_widget_get_scale_factor(widget.widget)
        guard new != scale else { return }
        scale = new
        guard var job, load == nil else { return }
        (job.placeholder, job.failure, job.transition) = (.unchanged, .unchanged, .none)
        set(job, nil)
    }

    /// Cancels the load and stops all animations. The widget keeps its content.
    func cancel() {
        load?.cancel()
        fade?.cancel()
        player?.pause()
        (load, fade, player, job) = (nil, nil, nil, nil)
        setBusy(false)
    }

    override func end() {
        load?.cancel()
        fade?.cancel()
        player?.pause()
        (load, fade, player, job) = (nil, nil, nil, nil)
        super.end()
    }

    // MARK: Accessibility

    private func setBusy(_ busy: Bool) {
        guard isBusy != busy else { return }
        isBusy = busy
        convoy_set_busy(widget.widget, busy ? 1 : 0)
    }

    private func didEnd(_ error: (any Error)?) {
        setBusy(false)
        if let error {
            convoy_set_description(widget.widget, "The picture could not be loaded: \(error.localizedDescription)")
        } else if isDescribed {
            convoy_reset_description(widget.widget)
        }
        isDescribed = error != nil
    }
}

/// Whether the user has animations enabled.
@MainActor enum Animations {
    static var areOn: Bool { convoy_settings_flag("gtk-enable-animations") != 0 }
}
#endif
