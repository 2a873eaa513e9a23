#if Images
import ConvoySerialization
import Foundation
import FoundationNetworking

/// Decodes a PNG, JPEG, GIF, BMP, ICO, TIFF or XBM into an ``Image``. The counterpart of `AFImageResponseSerializer`.
///
/// The bytes decide the format, not the content type: servers mix the image types up. Of an animation or a document
/// of many pages the first image counts, of an icon the largest. A body that is cut short anywhere is an error, and so
/// is an image beyond the limits; neither costs the memory of its pixels. The part of a body that is not pixels (text,
/// profiles, later frames) does not reach the decoder where it could grow there.
public struct ImageResponseSerializer: HTTPResponseSerialization {
    /// The content types that are accepted by default.
    public static let contentTypes: Set<String> = [
        "image/tiff", "image/jpeg", "image/gif", "image/png", "image/ico", "image/x-icon", "image/bmp", "image/x-bmp",
        "image/x-xbitmap", "image/x-win-bitmap",
    ]

    /// What is acceptable, and the limit of the body.
    public var http = HTTPResponseSerializer(contentTypes: ImageResponseSerializer.contentTypes)
    /// How large an image may be.
    public var imageLimits: ImageLimits
    /// Whether an image that says how it was held (EXIF, TIFF) is turned upright. True.
    public var appliesOrientation = true

    /// A serializer that accepts ``contentTypes``.
    public init(imageLimits: ImageLimits = .standard) {
        self.imageLimits = imageLimits
    }

    /// An ``Image``; nil for 204, 205, no body, and a single space.
    ///
    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; -1016 in ``URLResponseSerializationErrorDomain`` for
    ///   a body that cannot be decoded, with the reason under `NSLocalizedFailureReasonErrorKey`; a passed limit
    ///   (-1103), with ``ResponseLimitExceeded`` `bodySize`, `pixelCount` or `imageDimension`.
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
#endif
