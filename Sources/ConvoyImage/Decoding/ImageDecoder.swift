#if Images
import CGdkPixbuf
import Foundation

/// Decodes a body after its layout has been checked: X bitmaps here, everything else with gdk-pixbuf.
///
/// Each image has a loader of its own, which is used by one thread.
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

    /// Passes bytes in small parts, so that the work ends soon after a refusal.
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
#endif
