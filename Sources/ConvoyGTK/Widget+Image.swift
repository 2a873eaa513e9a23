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
    /// reused cell shows only its own picture or placeholder. If the same request is still loading,
    /// its transfer continues. A picture in the memory cache is shown before this method returns.
    /// An animation plays while the widget is visible.
    ///
    /// - Parameters:
    ///   - request: The image to load. If the request has no size, the image is decoded as specified
    ///     by ``imageRequest(for:in:)``, and again when the widget grows or moves to a screen with
    ///     a larger scale factor.
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

    /// Returns the request that ``setImage(_:placeholder:failure:transition:showsPreviews:by:completion:)`` sends for a
    /// widget at this moment, for example to prefetch the pictures that the widget will show.
    ///
    /// If the request has no size, the result has the allocated or requested size of the widget, in pixels of its
    /// screen, rounded up to a multiple of 64 so that widgets share their pictures. A length that is not known yet is
    /// that of the largest screen, which also limits the size. The content mode is `fill` if the
    /// widget is a `GtkPicture` that its picture covers.
    ///
    /// - Parameters:
    ///   - request: A request. If it has a size, it is returned unchanged.
    ///   - widget: A `GtkPicture` or a `GtkImage`.
    @MainActor public static func imageRequest(for request: ImageRequest, in widget: Widget) -> ImageRequest {
        widget.require(gtk_picture_get_type(), gtk_image_get_type())
        guard request.size == nil else { return request }
        let surface = PictureSurface(widget)
        var request = request
        request.size = surface.pixelSize
        request.contentMode = surface.isCovered ? .fill : .fit
        return request
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

    /// Ends the load, so that no handler is called afterwards.
    ///
    /// The transfer is cancelled in the next iteration of the main loop. GTK unbinds and binds the cells of a list when
    /// the selection changes. A cell that requests the same picture again joins the transfer.
    func cancel() {
        guard let old = receipt else { return }
        (handler, preview, receipt) = (nil, nil, nil)
        MainInbox.post { old.cancel() }
    }

    /// Ends the load and cancels the transfer immediately, because its widget no longer exists.
    func end() {
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
        /// Whether the picture is already shown, and is decoded again for a larger widget.
        var isGrowth = false

        /// Returns whether a load of the other job also serves this one.
        func sharesLoad(with other: Job) -> Bool {
            !isGrowth && request.isSame(as: other.request) && showsPreviews == other.showsPreviews
                && downloader === other.downloader
        }
    }

    private let surface: PictureSurface
    private var load: PictureLoad?
    private var fade: CrossFade?
    private var player: AnimationPlayer?
    /// The picture that is shown or loading.
    private var job: Job?
    private var completion: Widget.ImageCompletion?
    /// The size for which the shown picture was decoded, and its own size.
    private var shown: (limit: ImageSize?, size: ImageSize)?
    private var isBusy = false
    private var hasFailed = false
    /// The frame clock, whose layout phase can change the size of the widget.
    private var clock: (object: ObjectReference, handler: UInt)?
    private var growth: LoopTimer?

    override init(_ widget: Widget) {
        surface = PictureSurface(widget)
        super.init(widget)
        connect("map") { [weak self] in self?.player?.play() }
        connect("unmap") { [weak self] in self?.player?.pause() }
        connect("notify::scale-factor") { [weak self] in self?.sizeDidChange() }
        connect("realize") { [weak self] in self?.watchLayout() }
        connect("unrealize") { [weak self] in self?.unwatchLayout() }
        watchLayout()
    }

    var isLoading: Bool { load != nil }

    func set(_ job: Job, _ completion: Widget.ImageCompletion?) {
        if load != nil, let current = self.job, current.sharesLoad(with: job) {
            (self.job, self.completion) = (job, completion)
            return
        }
        cancel()
        (self.job, self.completion) = (job, completion)
        let request = Widget.imageRequest(for: job.request, in: widget)
        if let cached = job.downloader.cachedImage(covering: request), let texture = Paintables.texture(of: cached.image) {
            surface.show(texture)
            didShow(cached.image, limit: cached.limit)
            play(cached.image)
            return complete(.success(cached.image))
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
        load = PictureLoad(request, by: job.downloader, preview: preview) { [weak self] result in
            self?.finish(result, request)
        }
    }

    private func complete(_ result: Result<Image, any Error>) {
        let completion = completion
        self.completion = nil
        completion?(result)
    }

    private func finish(_ result: Result<Image, any Error>, _ request: ImageRequest) {
        load = nil
        guard let job else { return }
        switch result {
        case .success(let image):
            guard let texture = Paintables.texture(of: image) else {
                return finish(.failure(URLError(.cannotDecodeContentData)), request)
            }
            didShow(image, limit: request.size)
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
            sizeDidChange()
        case .failure(let error):
            self.job = nil
            surface.show(job.failure)
            // The smaller picture remains visible.
            setFailed(job.isGrowth ? nil : error)
        }
        complete(result)
    }

    private func play(_ image: Image) {
        guard let animation = image.animation, Animations.areOn else { return }
        let surface = surface
        player = AnimationPlayer(animation) { surface.show($0) }
        if widget.isMapped { player?.play() }
    }

    private func didShow(_ image: Image, limit: ImageSize?) {
        shown = (limit, image.size)
        setFailed(nil)
    }

    /// Cancels the load and stops all animations. The widget keeps its content.
    func cancel() {
        load?.cancel()
        stop()
        setBusy(false)
    }

    override func end() {
        load?.end()
        stop()
        unwatchLayout()
        super.end()
    }

    private func stop() {
        fade?.cancel()
        player?.pause()
        growth?.cancel()
        (load, fade, player, growth) = (nil, nil, nil, nil)
        (job, completion, shown) = (nil, nil, nil)
    }

    // MARK: Sizes

    /// The time in seconds for which the size must be unchanged before the picture is decoded again.
    private static let growthDelay = 0.15

    private func watchLayout() {
        guard clock == nil, let pointer = gtk_widget_get_frame_clock(widget.widget) else { return }
        let object = ObjectReference(retaining: UnsafeMutableRawPointer(pointer))
        let handler = Signal.connect(object.pointer, "layout", afterOthers: true) { [weak self] _ in self?.sizeDidChange() }
        clock = (object, handler)
    }

    private func unwatchLayout() {
        if let clock { convoy_disconnect(clock.object.pointer, clock.handler) }
        clock = nil
    }

    /// Returns the size for which the picture must be decoded again; nil if it has enough pixels.
    private var neededSize: ImageSize? {
        guard load == nil, let job, job.request.size == nil, let shown, let limit = shown.limit else { return nil }
        let size = surface.pixelSize
        guard size.width > limit.width || size.height > limit.height else { return nil }
        // A picture below its limit has all of its pixels.
        let isBelow = (width: shown.size.width < limit.width, height: shown.size.height < limit.height)
        let isWhole = surface.isCovered ? isBelow.width || isBelow.height : isBelow.width && isBelow.height
        return isWhole ? nil : size
    }

    private func sizeDidChange() {
        guard growth == nil, let size = neededSize else { return }
        growth = LoopTimer.start(after: Self.growthDelay) { [weak self] in self?.grow(to: size) }
    }

    private func grow(to size: ImageSize) {
        growth = nil
        guard var job, let needed = neededSize else { return }
        guard needed == size, fade == nil else { return sizeDidChange() }
        (job.placeholder, job.failure, job.transition) = (.unchanged, .unchanged, .none)
        (job.showsPreviews, job.isGrowth) = (false, true)
        set(job, nil)
    }

    // MARK: Accessibility

    private func setBusy(_ busy: Bool) {
        guard isBusy != busy else { return }
        isBusy = busy
        convoy_set_busy(widget.widget, busy ? 1 : 0)
    }

    /// Ends the busy state. The name and the description belong to the program, for example as the alternative text of
    /// a picture, so an error is the text of the widget's value.
    private func setFailed(_ error: (any Error)?) {
        setBusy(false)
        if let error {
            convoy_set_value_text(widget.widget, Widget.texts.imageFailure(error))
        } else if hasFailed {
            convoy_reset_value_text(widget.widget)
        }
        if hasFailed != (error != nil) { convoy_set_invalid(widget.widget, error == nil ? 0 : 1) }
        hasFailed = error != nil
    }
}

/// Whether the user has animations enabled.
@MainActor enum Animations {
    static var areOn: Bool { convoy_settings_flag("gtk-enable-animations") != 0 }
}
#endif
