// ConvoyImage holds `ImageResponseSerializer`, which decodes the body of a response with gdk-pixbuf.
//
// The module is empty without the package trait `Images`, so that Convoy itself can be built and linked without
// gdk-pixbuf.
#if Images
@_exported import ConvoySerialization
import Foundation
import FoundationNetworking

/// Decodes a PNG, JPEG, GIF, BMP, ICO, TIFF, XBM, WebP or AVIF into an ``Image``. The counterpart of `AFImageResponseSerializer`.
///
/// The bytes determine the format, not the content type, as servers confuse image types. The result is the first image
/// of an animation or a multi-page document, and the largest of an icon. A truncated body is an error, and so is an
/// image beyond the limits; neither allocates memory for the pixels. Parts of a body other than pixels (text, profiles,
/// later frames) are not passed to the decoder if they could expand there.
public struct ImageResponseSerializer: HTTPResponseSerialization {
    /// The content types that are accepted by default.
    public static let contentTypes: Set<String> = [
        "image/tiff", "image/jpeg", "image/gif", "image/png", "image/ico", "image/x-icon", "image/bmp", "image/x-bmp",
        "image/x-xbitmap", "image/x-win-bitmap", "image/webp", "image/avif",
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
