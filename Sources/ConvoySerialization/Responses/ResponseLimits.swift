import Foundation
import FoundationNetworking

/// Limits on the bodies that are parsed. Exceeding one is an error with the code `NSURLErrorDataLengthExceedsMaximum`
/// (-1103) and a ``ResponseLimitExceeded`` in its `userInfo`.
///
/// A raw ``HTTPResponseSerializer`` does not parse, and ignores them.
public struct ResponseLimits: Sendable, Hashable {
    /// The size of the largest body that is parsed, in bytes after decompression. 64 MiB by default. Parsed, it takes
    /// several times as much memory.
    public var maximumBodySize: Int
    /// The deepest nesting of arrays and objects that is parsed. 512 by default. `JSONSerialization` has the same
    /// limit, with its own error.
    public var maximumNestingDepth: Int
    /// Whether a repeated key in a JSON object is an error, a ``JSONSyntaxError``. False by default: the first value
    /// counts, in a ``JSON`` as in a decoded value. If it is true, all serializers but ``JSONTreeResponseSerializer``
    /// parse the body twice.
    public var rejectsDuplicateKeys = false

    /// Limits; each has a default.
    public init(maximumBodySize: Int = 64 << 20, maximumNestingDepth: Int = 512) {
        self.maximumBodySize = maximumBodySize
        self.maximumNestingDepth = maximumNestingDepth
    }

    /// The default limits.
    public static let standard = ResponseLimits()

    func checkSize(of data: Data, response: URLResponse?) throws {
        guard data.count > maximumBodySize else { return }
        throw NSError.limit(
            .bodySize, "The body of \(data.count) bytes is longer than the limit of \(maximumBodySize).", response)
    }

    func nestingError(_ response: URLResponse?) -> NSError {
        .limit(.nestingDepth, "The body is nested deeper than the limit of \(maximumNestingDepth).", response)
    }
}

/// Which limit a response exceeded.
public enum ResponseLimitExceeded: String, Sendable, Hashable {
    /// ``ResponseLimits/maximumBodySize``.
    case bodySize
    /// ``ResponseLimits/maximumNestingDepth``.
    case nestingDepth
    /// A property list that is small in bytes but expands to a huge tree.
    case expansion
    /// An XML document with a document type that contains declarations, such as entities.
    case declarations
    /// An XML document whose names take too long to compare: more than 1,024 attributes in one tag, 256 namespace
    /// declarations that apply in one place, or 100,000 different names.
    case names
    /// An image with more pixels than allowed.
    case pixelCount
    /// An image that is wider or higher than allowed.
    case imageDimension
}
