#if Images
import ConvoySerialization
import Foundation
import FoundationNetworking

/// A decoded image: its pixels, and their layout in memory.
///
/// Rows are stored from top to bottom, without padding. Copying the value does not copy the pixels.
public struct Image: Sendable, Equatable {
    /// The format of the body.
    public let format: ImageFormat
    /// The number of pixels per row.
    public let width: Int
    /// The number of rows.
    public let height: Int
    /// Whether pixels have a fourth byte: their alpha, not premultiplied.
    public let hasAlpha: Bool
    /// The samples: red, green, blue and, if there is one, alpha; `height` times ``bytesPerRow`` bytes.
    public let pixels: Data
    /// The frames, if the image is an animation; `pixels` are those of its first one. Only an ``ImageDownloader``
    /// decodes more than one frame.
    public var animation: ImageAnimation?

    init(format: ImageFormat, width: Int, height: Int, hasAlpha: Bool, pixels: Data) {
        (self.format, self.width, self.height) = (format, width, height)
        (self.hasAlpha, self.pixels) = (hasAlpha, pixels)
    }

    /// An image of pixels that were made elsewhere.
    ///
    /// - Parameters:
    ///   - size: at least one pixel in each direction.
    ///   - hasAlpha: whether there are four bytes for each pixel, and not three.
    ///   - pixels: the rows from top to bottom, without padding.
    ///   - format: the format that the image counts as.
    /// - Throws: `ImagePixelError`, if the number of bytes is not that of the size.
    public init(size: ImageSize, hasAlpha: Bool, pixels: Data, format: ImageFormat = .png) throws(ImagePixelError) {
        let channels = hasAlpha ? 4 : 3
        let (area, isTooLarge) = size.width.multipliedReportingOverflow(by: size.height)
        let (count, isTooLong) = area.multipliedReportingOverflow(by: channels)
        guard size.width > 0, size.height > 0, !isTooLarge, !isTooLong, pixels.count == count else {
            throw ImagePixelError(size: size, channels: channels, byteCount: pixels.count)
        }
        self.init(
            format: format, width: size.width, height: size.height, hasAlpha: hasAlpha,
            pixels: pixels.startIndex == 0 ? pixels : Data(pixels))
    }

    /// The same image with other pixels.
    ///
    /// - Parameters:
    ///   - pixels: the rows from top to bottom, without padding.
    ///   - hasAlpha: whether they have an alpha; nil if they do where this image does.
    /// - Throws: `ImagePixelError`, if the number of bytes is not that of the image.
    public func replacingPixels(_ pixels: Data, hasAlpha: Bool? = nil) throws(ImagePixelError) -> Image {
        try Image(size: size, hasAlpha: hasAlpha ?? self.hasAlpha, pixels: pixels, format: format)
    }

    /// How many bytes the pixels take, with those of all frames.
    public var byteCount: Int {
        // The first frame shares its pixels with the image.
        guard let animation else { return pixels.count }
        return animation.frames.reduce(0) { $0 + $1.image.pixels.count }
    }

    /// The number of bytes per pixel: 3, or 4 with alpha.
    public var channels: Int { hasAlpha ? 4 : 3 }
    /// 8. Deeper images are converted.
    public var bitsPerSample: Int { 8 }
    /// The number of bytes per row.
    public var bytesPerRow: Int { width * channels }
}

/// The number of bytes does not belong to a size.
public struct ImagePixelError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The size.
    public let size: ImageSize
    /// The number of bytes per pixel.
    public let channels: Int
    /// The number of bytes that were given.
    public let byteCount: Int

    /// The numbers in a sentence.
    public var description: String {
        "\(byteCount) bytes are no image of \(size.width) x \(size.height) with \(channels) bytes for each pixel."
    }
}

/// An animation: its frames, with the time that each is shown.
public struct ImageAnimation: Sendable, Equatable {
    /// A frame.
    public struct Frame: Sendable, Equatable {
        /// What is shown, whole: frames that the file stores as changes are drawn over their predecessors.
        public let image: Image
        /// How long it is shown, in seconds; at least 0.02.
        public let duration: TimeInterval
    }

    /// The frames, at least two, all of one size.
    public let frames: [Frame]
    /// How often the frames are shown; 0 for ever.
    public let loopCount: Int
}

/// The supported image formats, independent of the installed loaders.
public enum ImageFormat: String, Sendable, Hashable, CaseIterable {
    case png, jpeg, gif, bmp, ico, tiff, xbm
    /// Needs the loader in Debian's package `webp-pixbuf-loader`.
    case webp
    /// Needs the loader in Debian's package `libavif-gdk-pixbuf`.
    case avif

    /// Debian's package with the loader; nil where gdk-pixbuf has it itself.
    var loaderPackage: String? {
        switch self {
        case .webp: "webp-pixbuf-loader"
        case .avif: "libavif-gdk-pixbuf"
        default: nil
        }
    }
}

/// Limits on the size of an image. They are checked against the image's header before memory is allocated.
public struct ImageLimits: Sendable, Hashable {
    /// The maximum number of pixels. 64,000,000 by default, which takes 256 MB with alpha, and up to three times as
    /// much while some formats are decoded. A JPEG with more than ten scans may have fewer pixels. gdk-pixbuf supports at most 536,870,911, whatever is set here.
    public var maximumPixelCount: Int
    /// The maximum width and height in pixels. 32,768 by default.
    public var maximumDimension: Int

    /// The maximum number of pixels of all frames of an animation together, at the size in which they are delivered.
    /// 16,000,000 by default, which takes up to 64 MB. An animation with more is delivered as its first frame.
    public var maximumAnimationPixelCount: Int

    /// Limits; each has a default.
    public init(
        maximumPixelCount: Int = 64_000_000, maximumDimension: Int = 32_768,
        maximumAnimationPixelCount: Int = 16_000_000
    ) {
        self.maximumPixelCount = maximumPixelCount
        self.maximumDimension = maximumDimension
        self.maximumAnimationPixelCount = maximumAnimationPixelCount
    }

    /// The default limits.
    public static let standard = ImageLimits()

    /// The number of four-byte pixels in 2 GiB. Below it, no product of an image's sizes overflows.
    private static let mostPixels = Int(Int32.max) / 4

    /// The maximum number of pixels that the decoder processes, counting each scan of a progressive image: four times the
    /// maximum pixel count. A typical progressive image has ten scans, each of which may be a few bytes for any number of
    /// pixels.
    var maximumPassedPixelCount: Int { 4 * max(0, min(maximumPixelCount, ImageLimits.mostPixels)) }

    /// Throws for an image that is too large.
    func check(width: Int, height: Int) throws(ImageFault) {
        guard width > 0, height > 0 else { throw .malformed("the image has no pixels") }
        if max(width, height) > maximumDimension { throw .dimension(width, height, limit: maximumDimension) }
        let (count, overflow) = width.multipliedReportingOverflow(by: height)
        let limit = min(maximumPixelCount, ImageLimits.mostPixels)
        if overflow || count > limit { throw .pixelCount(width, height, limit: limit) }
    }
}

/// Why a body cannot be decoded. It is converted to an `NSError` once the response is known.
enum ImageFault: Error, Equatable {
    /// The body ends before the image does.
    case truncated
    /// The body has none of the supported formats.
    case unknownFormat
    /// The body violates its format, or uses an unsupported part of it.
    case malformed(String)
    /// gdk-pixbuf's message.
    case decoder(String)
    case pixelCount(Int, Int, limit: Int)
    case dimension(Int, Int, limit: Int)
    /// So many scans are too many for the size.
    case scans(Int, Int, Int)
    /// gdk-pixbuf has no loader for the format.
    case noLoader(ImageFormat)
    /// The response has no body.
    case empty
    /// The image is no longer wanted.
    case cancelled

    func error(for response: URLResponse?, data: Data) -> NSError {
        switch self {
        case .pixelCount(let width, let height, let limit):
            return .limit(
                .pixelCount, "The image of \(width) x \(height) has more pixels than the limit of \(limit).", response)
        case .scans(let count, let width, let height):
            return .limit(
                .pixelCount, "The image of \(width) x \(height) is sent in \(count) scans or more, which are too many.",
                response)
        case .dimension(let width, let height, let limit):
            return .limit(
                .imageDimension, "The image of \(width) x \(height) is larger than the limit of \(limit).", response)
        case .cancelled:
            return URLError(.cancelled) as NSError
        case .truncated, .unknownFormat, .malformed, .decoder, .noLoader, .empty:
            return NSError.response(
                NSURLErrorCannotDecodeContentData, "The body cannot be decoded as an image", response, data: data
            ).adding(reason, for: NSLocalizedFailureReasonErrorKey)
        }
    }

    private var reason: String {
        switch self {
        case .truncated: return "The image is truncated."
        case .unknownFormat: return "The body has none of the supported formats."
        case .malformed(let what): return "The image is damaged: \(what)."
        case .decoder(let message): return message
        case .noLoader(let format):
            let package = format.loaderPackage.map { " On Debian and Ubuntu it is in the package \($0)." } ?? ""
            return "gdk-pixbuf has no loader for \(format.rawValue.uppercased()) images on this machine.\(package)"
        case .empty: return "The response has no body."
        case .cancelled: return "The image is no longer wanted."
        case .pixelCount, .dimension, .scans: return "The image is too large."
        }
    }
}
#endif
