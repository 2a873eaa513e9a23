#if Images
import CGdkPixbuf
import Foundation

/// The handler of a loader's signals, which are sent during a write, on the writing thread.
struct LoaderWatch {
    private let decoding: ImageDecoding
    let format: ImageFormat
    /// The reason for rejecting the image, for example a decoded size larger than its layout announced.
    private(set) var refusal: ImageFault?
    private var height = 0
    private var rowsSeen = 0

    init(_ decoding: ImageDecoding, format: ImageFormat) {
        self.decoding = decoding
        self.format = format
    }

    /// Whether the load was cancelled, which is handled like a rejection.
    var isCancelled: Bool {
        mutating get {
            guard decoding.isCancelled() else { return false }
            refusal = .cancelled
            return true
        }
    }

    /// Whether the loader has reached the last row. Some loaders accept a body with too few rows.
    var isComplete: Bool { LoaderWatch.tellsRows.contains(format) ? height > 0 && rowsSeen >= height : true }

    /// The loaders that report each decoded row; the others report the complete image at once.
    private static let tellsRows: Set<ImageFormat> = [.png, .jpeg]
    private static let decodesAfterPreparing: Set<ImageFormat> = [.png, .jpeg, .bmp]

    static func connect(_ loader: UnsafeMutablePointer<GdkPixbufLoader>, to watch: UnsafeMutablePointer<LoaderWatch>) {
        convoy_loader_on_size(
            loader,
            { loader, width, height, context in
                LoaderWatch.at(context) { watch in
                    do throws(ImageFault) {
                        let stored = ImageSize(width: Int(width), height: Int(height))
                        if watch.format == .svg {
                            let size = watch.decoding.drawingSize(of: stored)
                            try watch.decoding.limits.check(width: size.width, height: size.height)
                            return gdk_pixbuf_loader_set_size(loader, Int32(size.width), Int32(size.height))
                        }
                        try watch.decoding.limits.check(width: stored.width, height: stored.height)
                        guard watch.format == .jpeg else { return }
                        // Decode as little as an eighth of the pixels in each direction, so that the full image is never
                        // allocated.
                        let divisor = watch.decoding.divisor(of: stored)
                        guard divisor > 1 else { return }
                        let size = stored.divided(by: divisor)
                        gdk_pixbuf_loader_set_size(loader, Int32(size.width), Int32(size.height))
                    } catch {
                        watch.refusal = error
                        // With a size of 0, the loader allocates nothing.
                        gdk_pixbuf_loader_set_size(loader, 0, 0)
                    }
                }
            }, watch)
        convoy_loader_on_prepared(
            loader,
            { loader, context in
                guard let pixbuf = gdk_pixbuf_loader_get_pixbuf(loader) else { return }
                LoaderWatch.at(context) { watch in
                    watch.height = Int(gdk_pixbuf_get_height(pixbuf))
                    guard LoaderWatch.decodesAfterPreparing.contains(watch.format) else { return }
                    // The new memory contains stale data, which would be visible in a damaged image.
                    memset(gdk_pixbuf_get_pixels(pixbuf), 0, Int(gdk_pixbuf_get_byte_length(pixbuf)))
                }
            }, watch)
        convoy_loader_on_area(
            loader,
            { _, _, y, _, height, context in
                LoaderWatch.at(context) { $0.rowsSeen = max($0.rowsSeen, Int(y) + Int(height)) }
            }, watch)
    }

    private static func at(_ context: UnsafeMutableRawPointer?, _ body: (inout LoaderWatch) -> Void) {
        guard let context else { return }
        body(&context.assumingMemoryBound(to: LoaderWatch.self).pointee)
    }
}
#endif
