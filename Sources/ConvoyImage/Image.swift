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

    /// The number of bytes per pixel: 3, or 4 with alpha.
    public var channels: Int { hasAlpha ? 4 : 3 }
    /// 8. Deeper images are converted.
    public var bitsPerSample: Int { 8 }
    /// The number of bytes per row.
    public var bytesPerRow: Int { width * channels }
}

/// The supported image formats, independent of the installed loaders.
public enum ImageFormat: String, Sendable, Hashable, CaseIterable {
    case png, jpeg, gif, bmp, ico, tiff, xbm
}

/// Limits on the size of an image. They are checked against the image's header before memory is allocated.
public struct ImageLimits: Sendable, Hashable {
    /// The maximum number of pixels. 64,000,000 by default, which takes 256 MB with alpha, and up to three times as
    /// much while some formats are decoded. A JPEG with more than ten scans may have fewer pixels. gdk-pixbuf supports at most 536,870,911, whatever is set here.
    public var maximumPixelCount: Int
    /// The maximum width and height in pixels. 32,768 by default.
    public var maximumDimension: Int

    /// Limits; each has a default.
    public init(maximumPixelCount: Int = 64_000_000, maximumDimension: Int = 32_768) {
        self.maximumPixelCount = maximumPixelCount
        self.maximumDimension = maximumDimension
    }

    /// The default limits.
    public static let standard = ImageLimits()

    /// The number of four-byte pixels in 2 GiB. Below it, no product of an image's sizes overflows.
    private static let mostPixels = Int(Int32.max) / 4

    /// The maximum number of pixels that the decoder processes, counting each scan of a progressive image: ten times
    /// the maximum pixel count, because a typical progressive image has ten scans.
    var maximumPassedPixelCount: Int { 10 * max(0, min(maximumPixelCount, ImageLimits.mostPixels)) }

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

    func error(for response: URLResponse?, data: Data) -> NSError {
        switch self {
        case .pixelCount(let width, let height, let limit):
            return .limit(
                .pixelCount, "The image of \(width) x \(height) has more pixels than the limit of \(limit).", response)
        case .dimension(let width, let height, let limit):
            return .limit(
                .imageDimension, "The image of \(width) x \(height) is larger than the limit of \(limit).", response)
        case .truncated, .unknownFormat, .malformed, .decoder:
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
        case .pixelCount, .dimension: return "The image is too large."
        }
    }
}
#endif
