#if Images
import CGdkPixbuf
import Foundation

/// Decodes a body after its layout has been checked, with gdk-pixbuf except for X bitmaps.
///
/// Each image has its own loader, used by a single thread.
enum ImageDecoder {
    static func image(_ data: Data, limits: ImageLimits, appliesOrientation: Bool) throws(ImageFault) -> Image {
        // `withUnsafeBytes` does not support typed throws.
        let result = data.withUnsafeBytes { body -> Result<Image, ImageFault> in
            do throws(ImageFault) {
                let layout = try ImageLayout(ImageBytes(body), limits: limits)
                return .success(
                    try image(layout, in: body, limits: limits, appliesOrientation: appliesOrientation))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// The image of a body whose layout is known.
    static func image(
        _ layout: ImageLayout, in body: UnsafeRawBufferPointer, limits: ImageLimits, appliesOrientation: Bool
    ) throws(ImageFault) -> Image {
        if layout.decoder == .xbm { return try XBMDecoder.image(layout, in: body, limits: limits) }
        var pixbuf = try pixbuf(layout, in: body, limits: limits)
        if appliesOrientation, let upright = gdk_pixbuf_apply_embedded_orientation(pixbuf) {
            convoy_pixbuf_unref(pixbuf)
            pixbuf = upright
        }
        return try image(taking: pixbuf, layout)
    }

    /// The decoded pixbuf, with one reference for the caller.
    private static func pixbuf(
        _ layout: ImageLayout, in body: UnsafeRawBufferPointer, limits: ImageLimits
    ) throws(ImageFault) -> OpaquePointer {
        var failure: UnsafeMutablePointer<GError>?
        // By type, so that no other installed loader (SVG, XPM) sees the bytes.
        guard let loader = gdk_pixbuf_loader_new_with_type(layout.decoder.rawValue, &failure) else {
            throw .decoder(message(taking: failure))
        }
        defer { convoy_loader_unref(loader) }

        var watch = LoaderWatch(limits: limits, format: layout.decoder)
        let decoded = withUnsafeMutablePointer(to: &watch) { watch in
            LoaderWatch.connect(loader, to: watch)
            var isWhole = true
            for piece in layout.pieces where isWhole && watch.pointee.refusal == nil {
                isWhole = piece.withBytes(of: body) { feed($0, to: loader, watch: watch, failure: &failure) }
            }
            // A loader must always be closed. A failed write has already closed it, and set the error.
            return isWhole && gdk_pixbuf_loader_close(loader, &failure) != 0
        }
        if let refusal = watch.refusal {
            if let failure { g_error_free(failure) }
            throw refusal
        }
        guard decoded else { throw .decoder(message(taking: failure)) }
        if let failure { g_error_free(failure) }
        guard let pixbuf = gdk_pixbuf_loader_get_pixbuf(loader) else { throw .truncated }
        guard watch.isComplete else { throw .truncated }
        return convoy_pixbuf_ref(pixbuf)
    }

    /// Passes bytes in small parts, so that decoding stops soon after a refusal.
    private static func feed(
        _ bytes: UnsafeRawBufferPointer, to loader: UnsafeMutablePointer<GdkPixbufLoader>,
        watch: UnsafeMutablePointer<LoaderWatch>, failure: inout UnsafeMutablePointer<GError>?
    ) -> Bool {
        var offset = 0
        while offset < bytes.count, watch.pointee.refusal == nil {
            let part = bytes[offset..<min(offset + (64 << 10), bytes.count)]
            let bytes = UnsafeRawBufferPointer(rebasing: part).bindMemory(to: UInt8.self)
            if gdk_pixbuf_loader_write(loader, bytes.baseAddress, gsize(bytes.count), &failure) == 0 { return false }
            offset += part.count
        }
        return true
    }

    /// An image that retains the pixbuf instead of copying its pixels.
    private static func image(taking given: OpaquePointer, _ layout: ImageLayout) throws(ImageFault) -> Image {
        var pixbuf = given
        // Rows are moved below, which another owner of the pixbuf must not see.
        if convoy_pixbuf_is_unshared(pixbuf) == 0 {
            guard let copy = gdk_pixbuf_copy(pixbuf) else {
                convoy_pixbuf_unref(given)
                throw .decoder("There is not enough memory for the image.")
            }
            convoy_pixbuf_unref(given)
            pixbuf = copy
        }
        let width = Int(gdk_pixbuf_get_width(pixbuf))
        let height = Int(gdk_pixbuf_get_height(pixbuf))
        let channels = Int(gdk_pixbuf_get_n_channels(pixbuf))
        let hasAlpha = gdk_pixbuf_get_has_alpha(pixbuf) != 0
        guard let pixels = gdk_pixbuf_get_pixels(pixbuf), gdk_pixbuf_get_bits_per_sample(pixbuf) == 8,
            channels == (hasAlpha ? 4 : 3)
        else {
            convoy_pixbuf_unref(pixbuf)
            throw .decoder("The decoder returned pixels of an unknown kind.")
        }
        // gdk-pixbuf pads rows to four bytes. The padding is never written and would make equal images differ.
        let bytesPerRow = width * channels
        let stride = Int(gdk_pixbuf_get_rowstride(pixbuf))
        if stride != bytesPerRow {
            for row in 1..<max(1, height) { memmove(pixels + row * bytesPerRow, pixels + row * stride, bytesPerRow) }
        }
        if layout.isPremultiplied, hasAlpha { divideByAlpha(pixels, count: width * height) }
        let held = pixbuf
        let data = Data(
            bytesNoCopy: pixels, count: bytesPerRow * height,
            deallocator: .custom { _, _ in convoy_pixbuf_unref(held) })
        return Image(format: layout.format, width: width, height: height, hasAlpha: hasAlpha, pixels: data)
    }

    private static func divideByAlpha(_ pixels: UnsafeMutablePointer<UInt8>, count: Int) {
        for pixel in 0..<count {
            let sample = pixels + pixel * 4
            let alpha = Int(sample[3])
            guard alpha > 0, alpha < 255 else { continue }
            for channel in 0..<3 {
                sample[channel] = UInt8(min(255, (Int(sample[channel]) * 255 + alpha / 2) / alpha))
            }
        }
    }

    private static func message(taking error: UnsafeMutablePointer<GError>?) -> String {
        guard let error else { return "The decoder returned no image." }
        defer { g_error_free(error) }
        return error.pointee.message.map { String(cString: $0) } ?? "The decoder returned no image."
    }
}

/// Handles a loader's signals, which are sent during a write, on the writing thread.
struct LoaderWatch {
    let limits: ImageLimits
    let format: ImageFormat
    /// Why the image is refused, if its decoded size is larger than its layout has announced.
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

/// Decodes an X bitmap.
///
/// gdk-pixbuf is not used: its loader parses the header differently, aborts the program if there is no memory for the
/// size, and uses a temporary file.
struct XBMDecoder {
    private let bytes: UnsafeRawBufferPointer
    private var offset = 0

    /// The image: black for set bits, white for others. The least significant bit of a number is the leftmost pixel.
    static func image(
        _ layout: ImageLayout, in body: UnsafeRawBufferPointer, limits: ImageLimits
    ) throws(ImageFault) -> Image {
        try limits.check(width: layout.width, height: layout.height)
        guard case .range(let range)? = layout.pieces.first else { throw .truncated }
        var decoder = XBMDecoder(bytes: UnsafeRawBufferPointer(rebasing: body[range]))
        let perRow = (layout.width + layout.bitsPerNumber - 1) / layout.bitsPerNumber
        // At least two bytes per number: a digit and a separator.
        guard perRow * layout.height <= (range.count + 1) / 2 else { throw .truncated }
        var pixels = [UInt8](repeating: 255, count: layout.width * 3 * layout.height)
        for row in 0..<layout.height {
            for number in 0..<perRow {
                guard let bits = try decoder.next() else { throw .truncated }
                let left = number * layout.bitsPerNumber
                for bit in 0..<min(layout.bitsPerNumber, layout.width - left) where bits >> bit & 1 == 1 {
                    let pixel = (row * layout.width + left + bit) * 3
                    pixels[pixel] = 0
                    pixels[pixel + 1] = 0
                    pixels[pixel + 2] = 0
                }
            }
        }
        while try decoder.next() != nil {}
        return Image(format: .xbm, width: layout.width, height: layout.height, hasAlpha: false, pixels: Data(pixels))
    }

    private init(bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// The next number; nil at the end. All are hexadecimal, even without `0x`, as in X's own reader.
    private mutating func next() throws(ImageFault) -> Int? {
        var value: Int?
        func append(_ digit: UInt8) { value = ((value ?? 0) << 4 | Int(digit)) & 0xFFFF }
        while offset < bytes.count {
            let byte = bytes[offset]
            offset += 1
            switch byte {
            case 0x30...0x39: append(byte - 0x30)
            case 0x41...0x46, 0x61...0x66: append((byte | 0x20) - 0x61 + 10)
            case 0x58, 0x78: guard value == 0 else { throw .malformed("something else than numbers") }
            case 0x20, 0x2C, 0x09, 0x0A, 0x0D: if let value { return value }
            default: throw .malformed("something else than numbers")
            }
        }
        return value
    }
}
#endif
