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
    /// Whether a repeated key in a JSON object is an error, a ``JSONSyntaxError``. False by default: then its first value
    /// counts in a ``JSON`` as in a decoded value. JSON is read twice for it where it is no ``JSON`` that is made.
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
