#if GTK
import CGTK
import ConvoyImage
import Foundation

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
            self.job = job
            self.completion = completion
            return
        }
        cancel()
        self.job = job
        self.completion = completion
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
        load = nil
        fade = nil
        player = nil
        growth = nil
        job = nil
        completion = nil
        shown = nil
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
        return shown.size.isWhole(below: limit, surface.isCovered ? .fill : .fit) ? nil : size
    }

    private func sizeDidChange() {
        guard growth == nil, let size = neededSize else { return }
        growth = LoopTimer.start(after: Self.growthDelay) { [weak self] in self?.grow(to: size) }
    }

    private func grow(to size: ImageSize) {
        growth = nil
        guard var job, let needed = neededSize else { return }
        guard needed == size, fade == nil else { return sizeDidChange() }
        job.placeholder = .unchanged
        job.failure = .unchanged
        job.transition = .none
        job.showsPreviews = false
        job.isGrowth = true
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
