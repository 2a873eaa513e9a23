#if Images
import ConvoySerialization
import Foundation
import FoundationNetworking

/// Why a body is no image. It becomes an `NSError` once, where the response is known.
enum ImageFault: Error, Equatable {
    /// It ends before the image does.
    case truncated
    /// None of the formats that are decoded.
    case unknownFormat
    /// It breaks its format's rules, or uses a part of them that is not decoded.
    case malformed(String)
    /// gdk-pixbuf's own words.
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
        case .truncated: return "The image is cut short."
        case .unknownFormat: return "It is in none of the formats that are decoded."
        case .malformed(let what): return "The image is damaged: \(what)."
        case .decoder(let message): return message
        case .pixelCount, .dimension: return "The image is too large."
        }
    }
}
#endif
