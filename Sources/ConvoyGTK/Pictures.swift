#if GTK
import CGTK
import ConvoyImage
import Foundation

/// A strong reference to a GLib object, released together with this instance.
final class ObjectReference: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer

    /// Takes ownership of the caller's reference.
    init(taking pointer: UnsafeMutableRawPointer) { self.pointer = pointer }
    /// Adds a reference.
    init(retaining pointer: UnsafeMutableRawPointer) {
        self.pointer = pointer
        _ = convoy_ref(pointer)
    }

    deinit { convoy_unref(pointer) }

    var opaque: OpaquePointer { OpaquePointer(pointer) }
}

/// The content of a widget while its picture is loading, or after loading has failed.
public struct PlaceholderImage: Sendable {
    enum Content {
        case empty, unchanged
        case icon(String)
        case image(Image)
        case paintable(ObjectReference)
    }

    let content: Content

    /// An empty widget.
    public static let empty = PlaceholderImage(content: .empty)
    /// The widget's previous content. Use it to reload the same picture, but not in reused cells.
    public static let unchanged = PlaceholderImage(content: .unchanged)
    /// Creates a placeholder from a named icon of the theme, centred in the widget.
    public static func icon(_ name: String) -> PlaceholderImage { PlaceholderImage(content: .icon(name)) }
    /// Creates a placeholder from a decoded image.
    public static func image(_ image: Image) -> PlaceholderImage { PlaceholderImage(content: .image(image)) }
    /// Creates a placeholder from a `GdkPaintable`, which is retained.
    public static func paintable(_ pointer: UnsafeMutableRawPointer) -> PlaceholderImage {
        PlaceholderImage(content: .paintable(ObjectReference(retaining: pointer)))
    }
}

/// The transition from a placeholder to its picture. Pictures from the memory cache appear without
/// a transition.
public struct ImageTransition: Sendable, Hashable {
    let duration: TimeInterval

    /// A transition that shows the picture immediately.
    public static let none = ImageTransition(duration: 0)
    /// Returns a transition that fades the picture in over its placeholder. The picture appears immediately if the user
    /// has disabled animations (`gtk-enable-animations`) or if the widget is not visible.
    public static func crossFade(_ duration: TimeInterval = 0.25) -> ImageTransition {
        ImageTransition(duration: max(0, min(duration, 10)))
    }
}

@MainActor enum Paintables {
    /// Returns a texture that reads the image's pixels without copying them, or nil if the number
    /// of pixels does not match the image's size.
    static func texture(of image: Image) -> ObjectReference? {
        let (rowLength, count) = (image.bytesPerRow, image.pixels.count)
        guard image.width > 0, image.height > 0, image.width <= Int32.max, image.height <= Int32.max,
            count / image.height >= rowLength
        else { return nil }
        guard let bytes = bytes(of: image.pixels) else { return nil }
        defer { g_bytes_unref(bytes) }
        let format = image.hasAlpha ? GDK_MEMORY_R8G8B8A8 : GDK_MEMORY_R8G8B8
        let (width, height) = (Int32(image.width), Int32(image.height))
        guard let texture = gdk_memory_texture_new(width, height, format, bytes, gsize(rowLength)) else { return nil }
        return ObjectReference(taking: UnsafeMutableRawPointer(texture))
    }

    /// An object that keeps the data's storage alive. The data is never mutated, so its address does not change.
    private final class Storage {
        let data: Data
        init(_ data: Data) { self.data = data }
    }

    private static func bytes(of data: Data) -> OpaquePointer? {
        let storage = Storage(data)
        return storage.data.withUnsafeBytes { buffer -> OpaquePointer? in
            // `Data` stores up to a few bytes inline, so their address is not stable.
            if buffer.count <= 64 { return g_bytes_new(buffer.baseAddress, gsize(buffer.count)) }
            return convoy_bytes(
                buffer.baseAddress, buffer.count,
                { context in
                    if let context { Unmanaged<Storage>.fromOpaque(context).release() }
                }, Unmanaged.passRetained(storage).toOpaque())
        }
    }

    /// Returns a named icon, centred in the area in which it is drawn. A symbolic icon always has the colour of the
    /// widget's text.
    static func icon(_ name: String, of widget: Widget, width: Int, height: Int) -> ObjectReference? {
        convoy_icon(widget.widget, name, Int32(clamping: width), Int32(clamping: height)).map { ObjectReference(taking: $0) }
    }

    /// Returns a blend of two paintables: the old one, centred, fades into the new one.
    static func mixture(of old: ObjectReference?, and new: ObjectReference, at share: Double) -> ObjectReference? {
        let width = max(1, Int(gdk_paintable_get_intrinsic_width(new.opaque)))
        let height = max(1, Int(gdk_paintable_get_intrinsic_height(new.opaque)))
        return drawing(width: width, height: height) { snapshot in
            gtk_snapshot_push_cross_fade(snapshot, share)
            if let old { draw(old, on: snapshot, width: Double(width), height: Double(height)) }
            gtk_snapshot_pop(snapshot)
            gdk_paintable_snapshot(new.opaque, snapshot, Double(width), Double(height))
            gtk_snapshot_pop(snapshot)
        }
    }

    private static func draw(_ old: ObjectReference, on snapshot: OpaquePointer, width: Double, height: Double) {
        let oldWidth = Double(gdk_paintable_get_intrinsic_width(old.opaque))
        let oldHeight = Double(gdk_paintable_get_intrinsic_height(old.opaque))
        guard oldWidth > 0, oldHeight > 0 else {
            return gdk_paintable_snapshot(old.opaque, snapshot, width, height)
        }
        let scale = min(width / oldWidth, height / oldHeight)
        gtk_snapshot_save(snapshot)
        var corner = graphene_point_t(
            x: Float((width - oldWidth * scale) / 2), y: Float((height - oldHeight * scale) / 2))
        gtk_snapshot_translate(snapshot, &corner)
        gdk_paintable_snapshot(old.opaque, snapshot, oldWidth * scale, oldHeight * scale)
        gtk_snapshot_restore(snapshot)
    }

    private static func drawing(width: Int, height: Int, _ draw: (OpaquePointer) -> Void) -> ObjectReference? {
        guard let snapshot = gtk_snapshot_new() else { return nil }
        // Draw an invisible rectangle, so that a snapshot without content still produces a paintable.
        var clear = GdkRGBA()
        var area = graphene_rect_t(
            origin: graphene_point_t(x: 0, y: 0), size: graphene_size_t(width: Float(width), height: Float(height)))
        gtk_snapshot_append_color(snapshot, &clear, &area)
        draw(snapshot)
        var size = graphene_size_t(width: Float(width), height: Float(height))
        guard let paintable = gtk_snapshot_free_to_paintable(snapshot, &size) else { return nil }
        return ObjectReference(taking: UnsafeMutableRawPointer(paintable))
    }
}

/// An animation that fades a picture in over a different picture, frame by frame.
@MainActor final class CrossFade {
    private var ticks: FrameTicks?
    private var begin: Int64?

    /// Calls `show` with each intermediate picture, and finally with the new one.
    init(
        on widget: Widget, from old: ObjectReference?, to new: ObjectReference, lasting duration: TimeInterval,
        _ show: @escaping @MainActor (ObjectReference) -> Void
    ) {
        ticks = FrameTicks.start(widget) { [weak self] time in
            guard let self else { return false }
            let begin = begin ?? time
            self.begin = begin
            let share = Double(time - begin) / 1_000_000 / duration
            guard share < 1, let mixture = Paintables.mixture(of: old, and: new, at: share) else {
                show(new)
                return false
            }
            show(mixture)
            return true
        }
    }

    func cancel() { ticks?.cancel() }
}

/// A player of an animation, which runs while its widget is visible.
///
/// Frames are shown at their times on the clock. If the main loop is busy, frames are skipped.
@MainActor final class AnimationPlayer {
    private let animation: ImageAnimation
    private let show: @MainActor (ObjectReference) -> Void
    private var textures: [ObjectReference?]
    private var index = 0
    private var rounds = 0
    /// The time at which the current frame ends, in microseconds of GLib's clock.
    private var due: Int = 0
    /// The duration for which the current frame remains visible, while the animation is paused.
    private var remaining: Int
    private var timer: LoopTimer?
    private var isOver = false

    init(_ animation: ImageAnimation, _ show: @escaping @MainActor (ObjectReference) -> Void) {
        self.animation = animation
        self.show = show
        textures = Array(repeating: nil, count: animation.frames.count)
        remaining = Self.duration(of: animation.frames.first)
    }

    private static func duration(of frame: ImageAnimation.Frame?) -> Int {
        Int(max(0.02, min(frame?.duration ?? 0, 86_400)) * 1_000_000)
    }

    /// Starts the animation, or resumes it where it was paused.
    func play() {
        guard timer == nil, !isOver, animation.frames.count > 1 else { return }
        due = g_get_monotonic_time() + remaining
        wait()
    }

    func pause() {
        guard timer != nil else { return }
        remaining = max(0, due - g_get_monotonic_time())
        timer?.cancel()
        timer = nil
    }

    private func wait() {
        // Round up, so that the timer does not fire before the time.
        let milliseconds = (max(0, due - g_get_monotonic_time()) + 999) / 1000
        timer = LoopTimer.start(after: (Double(milliseconds) + 0.5) / 1000) { [weak self] in self?.advance() }
    }

    private func advance() {
        timer = nil
        let now = g_get_monotonic_time()
        skipRounds(until: now)
        while due <= now, !isOver {
            if index == animation.frames.count - 1 { endRounds(1) }
            if isOver { break }
            index = (index + 1) % animation.frames.count
            due += Self.duration(of: animation.frames[index])
        }
        if textures[index] == nil { textures[index] = Paintables.texture(of: animation.frames[index].image) }
        if let texture = textures[index] { show(texture) }
        if !isOver { wait() }
    }

    /// Skips complete rounds, for example after the machine was suspended.
    private func skipRounds(until now: Int) {
        let round = animation.frames.reduce(0) { $0 + Self.duration(of: $1) }
        let missed = (now - due) / round
        guard missed > 0 else { return }
        due += missed * round
        endRounds(Int(missed))
    }

    /// Counts rounds. After the last one, the last frame remains visible.
    private func endRounds(_ count: Int) {
        rounds += count
        guard animation.loopCount > 0, rounds >= animation.loopCount else { return }
        isOver = true
        index = animation.frames.count - 1
    }
}
#endif
