#if Images
import ConvoySerialization
import Foundation
import FoundationNetworking

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
