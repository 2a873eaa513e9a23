// ConvoyImage provides `ImageResponseSerializer`, which decodes the body of a response with gdk-pixbuf.
//
// The module is empty unless the package trait `Images` is enabled, so that Convoy can be built and linked without
// gdk-pixbuf.
#if Images
@_exported import ConvoySerialization
import Foundation
import FoundationNetworking

/// A serializer that decodes a PNG, JPEG, GIF, BMP, ICO, TIFF, XBM, WebP or AVIF image into an ``Image``. The counterpart
/// of `AFImageResponseSerializer`. It also decodes SVG if ``imageLimits`` allow it and ``http`` accepts `image/svg+xml`.
///
/// The format is detected from the bytes, not from the content type, because servers often send the wrong image type.
/// The result is the first image of an animation or a multi-page document, and the largest one of an icon. Truncated
/// bodies and images that exceed the limits are rejected before memory is allocated for the pixels. Parts of a body
/// other than the pixels (text, later frames) are not passed to the decoder if it could expand them. Pixels are converted
/// to sRGB from the colour space of the image: an ICC profile of RGB or grey, or code points (ITU-T H.273).
public struct ImageResponseSerializer: HTTPResponseSerialization {
    /// The content types that are accepted by default.
    public static let contentTypes: Set<String> = [
        "image/tiff", "image/jpeg", "image/gif", "image/png", "image/ico", "image/x-icon", "image/bmp", "image/x-bmp",
        "image/x-xbitmap", "image/x-win-bitmap", "image/webp", "image/avif",
    ]

    /// The validation of statuses and content types, and the limits on the body.
    public var http = HTTPResponseSerializer(contentTypes: ImageResponseSerializer.contentTypes)
    /// The limits on the size of an image.
    public var imageLimits: ImageLimits
    /// Whether an image with an orientation (EXIF, TIFF) is rotated upright. True by default.
    public var appliesOrientation = true
    /// Whether a complete JPEG, PNG or GIF that lacks only its end marker is an error. True by default.
    public var requiresEndMarker = true

    /// Creates a serializer that accepts ``contentTypes``.
    public init(imageLimits: ImageLimits = .standard) {
        self.imageLimits = imageLimits
    }

    /// Returns an ``Image``, or nil for 204, 205, a missing body, and a body of a single space.
    ///
    /// - Throws: The errors of `HTTPResponseSerializer.validate(_:data:)`. If the body cannot be decoded, -1016 in
    ///   `URLResponseSerializationErrorDomain`, with the reason under `NSLocalizedFailureReasonErrorKey`. If a limit is
    ///   exceeded, -1103 with `ResponseLimitExceeded`: `bodySize`, `pixelCount` or `imageDimension`.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try http.responseObject(for: response, data: data) { data in
            if HTTPResponseSerializer.isOneSpace(data) { return nil }
            do throws(ImageFault) {
                return try ImageDecoder.image(
                    data,
                    ImageDecoding(
                        limits: imageLimits, appliesOrientation: appliesOrientation, requiresEndMarker: requiresEndMarker))
            } catch {
                throw error.error(for: response, data: data)
            }
        }
    }
}

// AFNetworking's names are declared so that the compiler suggests their replacements.

/// The serializer for images.
@available(*, unavailable, renamed: "ImageResponseSerializer")
public typealias AFImageResponseSerializer = ImageResponseSerializer

extension ImageResponseSerializer {
    /// The number of pixels per point.
    @available(*, unavailable, message: "Sizes of an Image are in pixels.")
    public var imageScale: Double { 1 }

    /// Whether images are decompressed on arrival.
    @available(*, unavailable, message: "An Image is always decompressed.")
    public var automaticallyInflatesResponseImage: Bool { true }
}
#endif
