#if Images
import CGdkPixbuf
import Foundation

/// The form in which an image is decoded, and the check for cancellation.
struct ImageDecoding: Sendable {
    var limits = ImageLimits.standard
    var appliesOrientation = true
    /// Whether a body without its end marker is an error.
    var requiresEndMarker = true
    /// The size to which the image is reduced; nil for full size.
    var size: ImageSize?
    var contentMode = ImageContentMode.fit
    /// Whether to decode all frames of an animation.
    var allowsAnimation = false
    /// The check for cancellation, called between parts of the body.
    var isCancelled: @Sendable () -> Bool = { false }

    /// Returns the size at which a drawing of the given size is drawn.
    func drawingSize(of whole: ImageSize) -> ImageSize { size?.scaling(whole, contentMode) ?? whole }

    /// Returns the size to which an image of the given size is reduced.
    func target(of whole: ImageSize) -> ImageSize { size?.limiting(whole, contentMode) ?? whole }

    /// Returns the divisor by which a JPEG is reduced during decoding: 1, 2, 4 or 8. The reduced image covers the target
    /// in both orientations.
    func divisor(of stored: ImageSize) -> Int {
        guard size != nil else { return 1 }
        let upright = target(of: stored)
        let turned = target(of: ImageSize(width: stored.height, height: stored.width))
        let needed = ImageSize(width: max(upright.width, turned.height), height: max(upright.height, turned.width))
        return [8, 4, 2].first { divisor in
            let size = stored.divided(by: divisor)
            return size.width >= needed.width && size.height >= needed.height
        } ?? 1
    }
}

extension ImageDecoding {
    /// Reduces a decoded image to the requested size.
    func reduce(_ image: Image) -> Image { ImageScaler.reduce(image, to: target(of: image.size)) }

    /// Reduces a decoded image to the requested size, turns it upright and converts its colours.
    ///
    /// - Parameter whole: The stored size, on which the target depends; nil for that of the image.
    func finish(_ image: Image, _ layout: ImageLayout, whole: ImageSize? = nil) -> Image {
        let orientation = appliesOrientation ? layout.orientation : .upright
        let target = target(of: (whole ?? image.size).turned(orientation)).turned(orientation)
        let reduced = ColorConversion.convert(ImageScaler.reduce(image, to: target), from: layout.colorSpace)
        return reduced.turned(upright: orientation)
    }
}

extension ImageSize {
    /// Returns the size of a JPEG that is decoded at a fraction of its size.
    func divided(by divisor: Int) -> ImageSize {
        ImageSize(width: (width + divisor - 1) / divisor, height: (height + divisor - 1) / divisor)
    }
}

/// A decoder for bodies whose layout has been checked. It uses gdk-pixbuf, except for X bitmaps.
///
/// Each image has its own loader, used by a single thread.
enum ImageDecoder {
    static func image(_ data: Data, _ decoding: ImageDecoding) throws(ImageFault) -> Image {
        // `withUnsafeBytes` does not support typed throws.
        let result = data.withUnsafeBytes { body -> Result<Image, ImageFault> in
            do throws(ImageFault) {
                let layout = try ImageLayout(
                    ImageBytes(body), limits: decoding.limits, requiresEndMarker: decoding.requiresEndMarker)
                return .success(try image(layout, in: body, decoding))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// Returns the image of a body whose layout is known.
    static func image(
        _ layout: ImageLayout, in body: UnsafeRawBufferPointer, limits: ImageLimits, appliesOrientation: Bool
    ) throws(ImageFault) -> Image {
        try image(layout, in: body, ImageDecoding(limits: limits, appliesOrientation: appliesOrientation))
    }

    private static func image(
        _ layout: ImageLayout, in body: UnsafeRawBufferPointer, _ decoding: ImageDecoding
    ) throws(ImageFault) -> Image {
        if layout.decoder == .xbm { return decoding.reduce(try XBMDecoder.image(layout, in: body, limits: decoding.limits)) }
        let isAnimated = decoding.allowsAnimation && isWithinLimits(layout.timing, layout, decoding)
        if !layout.frames.isEmpty { return try frames(layout, in: body, decoding, all: isAnimated) }
        if isAnimated, let image = try animation(layout, in: body, decoding) { return image }
        let image = try still(layout, layout.pieces, in: body, decoding)
        if let pieces = layout.checkPieces, try still(layout, pieces, in: body, decoding) != image { throw .truncated }
        return image
    }

    private static func still(
        _ layout: ImageLayout, _ pieces: [ImageLayout.Piece], in body: UnsafeRawBufferPointer, _ decoding: ImageDecoding
    ) throws(ImageFault) -> Image {
        if layout.format == .jpeg { return try jpeg(layout, pieces, in: body, decoding) }
        var pixbuf = try pixbuf(layout, pieces, in: body, decoding)
        var layout = layout
        if layout.colorSpace == nil { layout.colorSpace = profile(of: pixbuf) }
        if decoding.appliesOrientation, let upright = gdk_pixbuf_apply_embedded_orientation(pixbuf) {
            convoy_pixbuf_unref(pixbuf)
            pixbuf = upright
        }
        return decoding.finish(try image(taking: pixbuf, layout), layout)
    }

    private static func jpeg(
        _ layout: ImageLayout, _ pieces: [ImageLayout.Piece], in body: UnsafeRawBufferPointer, _ decoding: ImageDecoding
    ) throws(ImageFault) -> Image {
        var layout = layout
        var converted: Image?
        if layout.inks != nil {
            converted = try CMYKDecoder.image(layout, pieces, in: body, decoding)
            // The space is not one of the decoded colours.
            layout.colorSpace = nil
        }
        let image =
            if let converted { converted } else {
                try image(taking: try pixbuf(layout, pieces, in: body, decoding), layout)
            }
        // The image may have been decoded at a fraction of its size.
        return decoding.finish(image, layout, whole: ImageSize(width: layout.width, height: layout.height))
    }

    /// Returns the colour space that the decoder found in a body.
    private static func profile(of pixbuf: OpaquePointer) -> ImageColorSpace? {
        guard let text = gdk_pixbuf_get_option(pixbuf, "icc-profile"),
            strlen(text) <= ImageColorSpace.mostProfileBytes / 3 * 4
        else { return nil }
        return Data(base64Encoded: String(cString: text)).map { .profile($0) }
    }

    /// Returns the single image of a file, with a reference for the caller.
    private static func pixbuf(
        _ layout: ImageLayout, _ pieces: [ImageLayout.Piece], in body: UnsafeRawBufferPointer, _ decoding: ImageDecoding
    ) throws(ImageFault) -> OpaquePointer {
        // The pixbuf is used after the loader has been released; otherwise its pixels would have to be copied.
        try withLoader(layout, pieces, in: body, decoding) { loader throws(ImageFault) in
            guard let decoded = gdk_pixbuf_loader_get_pixbuf(loader), let pixbuf = convoy_pixbuf_ref(decoded) else {
                throw .truncated
            }
            return pixbuf
        }
    }

    /// Returns whether the image has several frames whose total size is within the limits.
    private static func isWithinLimits(_ timing: AnimationTiming, _ layout: ImageLayout, _ decoding: ImageDecoding) -> Bool {
        let whole = ImageSize(width: layout.width, height: layout.height)
        let target = decoding.target(of: whole)
        let count = timing.durations.count
        return count > 1 && count <= decoding.limits.maximumAnimationPixelCount / (target.width * target.height)
            && count <= decoding.limits.maximumPassedPixelCount / (whole.width * whole.height)
    }

    /// Returns all frames of a WebP, or only the first one.
    private static func frames(
        _ layout: ImageLayout, in body: UnsafeRawBufferPointer, _ decoding: ImageDecoding, all: Bool
    ) throws(ImageFault) -> Image {
        var canvas = WebPCanvas(ImageSize(width: layout.width, height: layout.height))
        var shown: [ImageAnimation.Frame] = []
        for (frame, duration) in zip(layout.frames, all ? layout.timing.durations : [0]) {
            if decoding.isCancelled() { throw .cancelled }
            let drawn = try image(taking: try pixbuf(layout, [frame.file(in: body)], in: body, decoding), layout)
            guard drawn.size == frame.size else { throw .malformed("the size of a frame differs from that of its image") }
            canvas.draw(frame, drawn)
            shown.append(ImageAnimation.Frame(image: decoding.finish(canvas.image, layout), duration: duration))
        }
        guard var image = shown.first?.image else { throw .truncated }
        if shown.count > 1 { image.animation = ImageAnimation(frames: shown, loopCount: layout.timing.loopCount) }
        return image
    }

    /// Returns a GIF with all of its frames, or nil if the decoder finds only one.
    private static func animation(
        _ layout: ImageLayout, in body: UnsafeRawBufferPointer, _ decoding: ImageDecoding
    ) throws(ImageFault) -> Image? {
        let durations = layout.timing.durations
        var still = decoding
        still.allowsAnimation = false
        return try withLoader(layout, layout.animationPieces, in: body, still) { loader throws(ImageFault) -> Image? in
            guard let animation = gdk_pixbuf_loader_get_animation(loader),
                let iterator = convoy_animation_start(animation)
            else { return nil }
            defer { convoy_animation_end(iterator) }
            var frames: [ImageAnimation.Frame] = []
            // This is a time shortly after the start of each frame, in milliseconds.
            var time: Int64 = 1
            for (number, duration) in durations.enumerated() {
                if decoding.isCancelled() { throw .cancelled }
                // Copy the frame, because the decoder draws the next one over it.
                guard let shown = gdk_pixbuf_animation_iter_get_pixbuf(iterator), let copy = gdk_pixbuf_copy(shown) else {
                    throw .decoder("The decoder returned no frame.")
                }
                var whole = try image(taking: copy, layout)
                if layout.cropsFrames {
                    whole = whole.cropped(to: ImageSize(width: layout.width, height: layout.height), left: 0, top: 0)
                }
                let frame = decoding.reduce(whole)
                guard frames.first.map({ $0.image.size == frame.size }) ?? true else {
                    throw .malformed("the frames differ in size")
                }
                frames.append(ImageAnimation.Frame(image: frame, duration: duration))
                // This is the remaining duration of the frame; -1 if the frame is shown forever.
                let left = gdk_pixbuf_animation_iter_get_delay_time(iterator)
                guard left >= 0 else { break }
                time += Int64(max(1, left)) + (number == 0 ? 1 : 0)
                _ = convoy_animation_advance(iterator, time * 1000)
            }
            guard frames.count > 1, var image = frames.first?.image else { return nil }
            image.animation = ImageAnimation(frames: frames, loopCount: layout.timing.loopCount)
            return image
        }
    }

    /// Passes a body to a loader, then passes the loader to a closure.
    private static func withLoader<Result>(
        _ layout: ImageLayout, _ pieces: [ImageLayout.Piece], in body: UnsafeRawBufferPointer,
        _ decoding: ImageDecoding,
        _ use: (UnsafeMutablePointer<GdkPixbufLoader>) throws(ImageFault) -> Result
    ) throws(ImageFault) -> Result {
        var failure: UnsafeMutablePointer<GError>?
        // Select the loader by type, so that no other installed loader (SVG, XPM) gets the bytes.
        guard let loader = gdk_pixbuf_loader_new_with_type(layout.decoder.rawValue, &failure) else {
            let text = message(taking: failure)
            throw layout.decoder.loaderPackage == nil ? .decoder(text) : .noLoader(layout.decoder)
        }
        defer { convoy_loader_unref(loader) }

        var watch = LoaderWatch(decoding, format: layout.decoder)
        let decoded = withUnsafeMutablePointer(to: &watch) { watch in
            LoaderWatch.connect(loader, to: watch)
            var isWhole = true
            for piece in pieces where isWhole && watch.pointee.refusal == nil {
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
        guard watch.isComplete else { throw .truncated }
        return try use(loader)
    }

    /// Passes bytes in small parts, so that decoding stops soon after the image is rejected.
    private static func feed(
        _ bytes: UnsafeRawBufferPointer, to loader: UnsafeMutablePointer<GdkPixbufLoader>,
        watch: UnsafeMutablePointer<LoaderWatch>, failure: inout UnsafeMutablePointer<GError>?
    ) -> Bool {
        var offset = 0
        while offset < bytes.count, watch.pointee.refusal == nil {
            if watch.pointee.isCancelled { return true }
            let part = bytes[offset..<min(offset + (64 << 10), bytes.count)]
            let bytes = UnsafeRawBufferPointer(rebasing: part).bindMemory(to: UInt8.self)
            if gdk_pixbuf_loader_write(loader, bytes.baseAddress, gsize(bytes.count), &failure) == 0 { return false }
            offset += part.count
        }
        return true
    }

    /// Returns an image that retains the pixbuf instead of copying its pixels.
    private static func image(taking given: OpaquePointer, _ layout: ImageLayout) throws(ImageFault) -> Image {
        var pixbuf = given
        // The code below moves rows in place, which another owner of the pixbuf must not observe.
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
