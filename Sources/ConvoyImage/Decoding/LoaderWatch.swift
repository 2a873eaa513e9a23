#if Images
import CGdkPixbuf
import Foundation

/// Handles a loader's signals, which are sent during a write, on the writing thread.
struct LoaderWatch {
    let limits: ImageLimits
    let format: ImageFormat
    /// Why the image is refused, if the decoder finds a larger size in it than its layout announced.
    private(set) var refusal: ImageFault?
    private var height = 0
    private var rowsSeen = 0

    init(limits: ImageLimits, format: ImageFormat) {
        self.limits = limits
        self.format = format
    }

    /// Whether the loader has reached the last row. Some loaders accept a body with too few rows.
    var isComplete: Bool { LoaderWatch.tellsRows.contains(format) ? height > 0 && rowsSeen >= height : true }

    /// These formats are allocated first and then decoded row by row; the others are decoded at once.
    private static let tellsRows: Set<ImageFormat> = [.png, .jpeg]
    private static let decodesAfterPreparing: Set<ImageFormat> = [.png, .jpeg, .bmp]

    static func connect(_ loader: UnsafeMutablePointer<GdkPixbufLoader>, to watch: UnsafeMutablePointer<LoaderWatch>) {
        convoy_loader_on_size(
            loader,
            { loader, width, height, context in
                LoaderWatch.at(context) { watch in
                    do throws(ImageFault) {
                        try watch.limits.check(width: Int(width), height: Int(height))
                    } catch {
                        watch.refusal = error
                        // With a size of 0 nothing is allocated.
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
                    // The memory contains old data, which would be visible in a damaged image.
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
