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

    /// The number of bytes per pixel: 3, or 4 with alpha.
    public var channels: Int { hasAlpha ? 4 : 3 }
    /// 8. Deeper images are converted.
    public var bitsPerSample: Int { 8 }
    /// The number of bytes per row.
    public var bytesPerRow: Int { width * channels }
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
        case .pixelCount, .dimension, .scans: return "The image is too large."
        }
    }
}

// ConvoyImage holds `ImageResponseSerializer`, which decodes the body of a response with gdk-pixbuf.
//
// The module is empty without the package trait `Images`, so that Convoy itself can be built and linked without
// gdk-pixbuf.
#if Images
@_exported import ConvoySerialization
import Foundation
import FoundationNetworking

/// Decodes a PNG, JPEG, GIF, BMP, ICO, TIFF or XBM into an ``Image``. The counterpart of `AFImageResponseSerializer`.
///
/// The bytes determine the format, not the content type, as servers confuse image types. The result is the first image
/// of an animation or a multi-page document, and the largest of an icon. A truncated body is an error, and so is an
/// image beyond the limits; neither allocates memory for the pixels. Parts of a body other than pixels (text, profiles,
/// later frames) are not passed to the decoder if they could expand there.
public struct ImageResponseSerializer: HTTPResponseSerialization {
    /// The content types that are accepted by default.
    public static let contentTypes: Set<String> = [
        "image/tiff", "image/jpeg", "image/gif", "image/png", "image/ico", "image/x-icon", "image/bmp", "image/x-bmp",
        "image/x-xbitmap", "image/x-win-bitmap",
    ]

    /// The acceptable statuses and content types, and the limits on the body.
    public var http = HTTPResponseSerializer(contentTypes: ImageResponseSerializer.contentTypes)
    /// The limits on the size of an image.
    public var imageLimits: ImageLimits
    /// Whether an image with an orientation (EXIF, TIFF) is rotated upright. True by default.
    public var appliesOrientation = true

    /// A serializer that accepts ``contentTypes``.
    public init(imageLimits: ImageLimits = .standard) {
        self.imageLimits = imageLimits
    }

    /// An ``Image``; nil for 204, 205, no body, and a single space.
    ///
    /// - Throws: as `HTTPResponseSerializer.validate(_:data:)`; -1016 in `URLResponseSerializationErrorDomain` for
    ///   a body that cannot be decoded, with the reason under `NSLocalizedFailureReasonErrorKey`; an error for an
    ///   exceeded limit (-1103), with `ResponseLimitExceeded`: `bodySize`, `pixelCount` or `imageDimension`.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try http.responseObject(for: response, data: data) { data in
            if HTTPResponseSerializer.isOneSpace(data) { return nil }
            do throws(ImageFault) {
                return try ImageDecoder.image(data, limits: imageLimits, appliesOrientation: appliesOrientation)
            } catch {
                throw error.error(for: response, data: data)
            }
        }
    }
}

// AFNetworking's names of this module, so that the compiler suggests the replacement.

/// The serializer for images.
@available(*, unavailable, renamed: "ImageResponseSerializer")
public typealias AFImageResponseSerializer = ImageResponseSerializer

extension ImageResponseSerializer {
    /// The number of pixels per point.
    @available(*, unavailable, message: "An Image is counted in pixels; there are no points here.")
    public var imageScale: Double { 1 }

    /// Whether images are decompressed on arrival.
    @available(*, unavailable, message: "An Image always is decompressed.")
    public var automaticallyInflatesResponseImage: Bool { true }
}
#endif
#endif
