#if Images
import ConvoySerialization
import Foundation
import FoundationNetworking

/// A decoded image: its pixels and their layout in memory.
///
/// Rows are stored from top to bottom, without padding. Copying the value does not copy the pixels.
public struct Image: Sendable, Equatable {
    /// The format of the encoded image.
    public let format: ImageFormat
    /// The number of pixels per row.
    public let width: Int
    /// The number of rows.
    public let height: Int
    /// Whether each pixel has a fourth byte with its alpha. Colours are not premultiplied.
    public let hasAlpha: Bool
    /// The samples of the pixels: red, green, blue and, if present, alpha. The size is `height` times ``bytesPerRow``
    /// bytes.
    public let pixels: Data
    /// The frames, if the image is an animation; `pixels` contains the first one. Only an ``ImageDownloader`` decodes
    /// more than one frame.
    public var animation: ImageAnimation?

    init(format: ImageFormat, width: Int, height: Int, hasAlpha: Bool, pixels: Data) {
        self.format = format
        self.width = width
        self.height = height
        self.hasAlpha = hasAlpha
        self.pixels = pixels
    }

    /// Creates an image from existing pixels.
    ///
    /// - Parameters:
    ///   - size: The size; at least one pixel in each direction.
    ///   - hasAlpha: Whether each pixel has four bytes instead of three.
    ///   - pixels: The rows from top to bottom, without padding.
    ///   - format: The value of ``format``.
    /// - Throws: `ImagePixelError` if the number of bytes does not match the size.
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

    /// Returns a copy of the image with different pixels.
    ///
    /// - Parameters:
    ///   - pixels: The rows from top to bottom, without padding.
    ///   - hasAlpha: Whether the pixels have alpha; nil for the value of this image.
    /// - Throws: `ImagePixelError` if the number of bytes does not match the image's size.
    public func replacingPixels(_ pixels: Data, hasAlpha: Bool? = nil) throws(ImagePixelError) -> Image {
        try Image(size: size, hasAlpha: hasAlpha ?? self.hasAlpha, pixels: pixels, format: format)
    }

    /// The size of the pixels of all frames, in bytes.
    public var byteCount: Int {
        // The first frame shares its pixels with the image.
        guard let animation else { return pixels.count }
        return animation.frames.reduce(0) { $0 + $1.image.pixels.count }
    }

    /// The number of bytes per pixel: 3, or 4 with alpha.
    public var channels: Int { hasAlpha ? 4 : 3 }
    /// The number of bits per sample: always 8, because deeper images are converted.
    public var bitsPerSample: Int { 8 }
    /// The number of bytes per row.
    public var bytesPerRow: Int { width * channels }
}

/// An error thrown if the number of bytes does not match the size of an image.
public struct ImagePixelError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The size of the image, in pixels.
    public let size: ImageSize
    /// The number of bytes per pixel.
    public let channels: Int
    /// The number of bytes passed.
    public let byteCount: Int

    /// A message that includes the size and the numbers of bytes.
    public var description: String {
        "\(byteCount) bytes do not match an image of \(size.width) x \(size.height) with \(channels) bytes per pixel."
    }
}

/// An animation: its frames and their durations.
public struct ImageAnimation: Sendable, Equatable {
    /// A frame of the animation, and the time for which it is shown.
    public struct Frame: Sendable, Equatable {
        /// The complete image to show. Frames that the file stores as changes are drawn over their predecessors.
        public let image: Image
        /// The duration in seconds; at least 0.02.
        public let duration: TimeInterval
    }

    /// The frames: at least two, all of the same size.
    public let frames: [Frame]
    /// The number of times the animation is played; 0 if it repeats forever.
    public let loopCount: Int
}

/// The supported image formats, independent of the installed loaders.
public enum ImageFormat: String, Sendable, Hashable, CaseIterable {
    case png, jpeg, gif, bmp, ico, tiff, xbm
    /// The WebP format, which requires the loader in Debian's package `webp-pixbuf-loader`.
    case webp
    /// The AVIF format, which requires the loader in Debian's package `libavif-gdk-pixbuf`.
    case avif
    /// The SVG format, if ``ImageLimits/allowsSVG`` is true. It requires the loader in Debian's package `librsvg2-common`. With a size, it is drawn at that
    /// size, even if it is larger.
    case svg

    /// The Debian package that contains the loader; nil if gdk-pixbuf includes it.
    var loaderPackage: String? {
        switch self {
        case .svg: "librsvg2-common"
        case .webp: "webp-pixbuf-loader"
        case .avif: "libavif-gdk-pixbuf"
        default: nil
        }
    }
}

/// Limits on the size of an image. They are checked against the image's header before memory is allocated.
public struct ImageLimits: Sendable, Hashable {
    /// The maximum number of pixels: 64,000,000 by default, which takes 256 MB with alpha, and up to three times as
    /// much while some formats are decoded. The limit is lower for a JPEG with more than ten scans. gdk-pixbuf supports
    /// at most 536,870,911 pixels, regardless of this setting.
    public var maximumPixelCount: Int
    /// The maximum width and height in pixels: 32,768 by default.
    public var maximumDimension: Int

    /// The maximum total number of pixels in all frames of an animation, at the size at which they are delivered:
    /// 16,000,000 by default, which takes up to 64 MB. Only the first frame of a larger animation is delivered.
    public var maximumAnimationPixelCount: Int
    /// Whether drawings (SVG) are decoded. False by default, because a small drawing can contain images and filters that
    /// need any amount of memory and time, which these limits do not cover. Set it to true only for sources that you
    /// trust.
    public var allowsSVG = false

    /// Creates limits, each of which has a default.
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

    /// The number of four-byte pixels in 2 GiB. Below this limit, the byte count of an image does not overflow.
    private static let mostPixels = Int(Int32.max) / 4

    /// The maximum number of pixels that the decoder processes, counting each scan of a progressive image: four times
    /// the maximum pixel count. A typical progressive image has ten scans, and a scan of a few bytes can cover any
    /// number of pixels.
    var maximumPassedPixelCount: Int { 4 * max(0, min(maximumPixelCount, ImageLimits.mostPixels)) }

    /// Returns whether an image of a size is within the limits.
    func allows(_ size: ImageSize) -> Bool {
        do throws(ImageFault) {
            try check(width: size.width, height: size.height)
            return true
        } catch {
            return false
        }
    }

    /// Throws an error if the image is empty or exceeds the limits.
    func check(width: Int, height: Int) throws(ImageFault) {
        guard width > 0, height > 0 else { throw .malformed("the image has no pixels") }
        if max(width, height) > maximumDimension { throw .dimension(width, height, limit: maximumDimension) }
        let (count, overflow) = width.multipliedReportingOverflow(by: height)
        let limit = min(maximumPixelCount, ImageLimits.mostPixels)
        if overflow || count > limit { throw .pixelCount(width, height, limit: limit) }
    }
}

/// The reason why a body cannot be decoded. It is converted to an `NSError` once the response is known.
enum ImageFault: Error, Equatable {
    /// The body ends before the image does.
    case truncated
    /// The body is not in a supported format.
    case unknownFormat
    /// The body violates its format, or uses an unsupported part of it.
    case malformed(String)
    /// gdk-pixbuf failed with the given message.
    case decoder(String)
    case pixelCount(Int, Int, limit: Int)
    case dimension(Int, Int, limit: Int)
    /// The image has too many scans for its size.
    case scans(Int, Int, Int)
    /// gdk-pixbuf has no loader for the format.
    case noLoader(ImageFormat)
    /// The response has no body.
    case empty
    /// The load was cancelled.
    case cancelled

    func error(for response: URLResponse?, data: Data) -> NSError {
        switch self {
        case .pixelCount(let width, let height, let limit):
            return .limit(
                .pixelCount, "The image of \(width) x \(height) has more pixels than the limit of \(limit).", response)
        case .scans(let count, let width, let height):
            return .limit(
                .pixelCount, "The image of \(width) x \(height) has at least \(count) scans, too many for its size.",
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
        case .unknownFormat: return "The image format is not supported."
        case .malformed(let what): return "The image is damaged: \(what)."
        case .decoder(let message): return message
        case .noLoader(let format):
            let package = format.loaderPackage.map { " On Debian and Ubuntu install the package \($0)." } ?? ""
            return "gdk-pixbuf has no loader for \(format.rawValue.uppercased()) images on this machine.\(package)"
        case .empty: return "The response has no body."
        case .cancelled: return "Loading the image was cancelled."
        case .pixelCount, .dimension, .scans: return "The image is too large."
        }
    }
}
#endif
