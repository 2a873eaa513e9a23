import Foundation
import FoundationNetworking

/// How much of a response a parser accepts. Passing a limit is an error with the code
/// `NSURLErrorDataLengthExceedsMaximum` (-1103) and a ``ResponseLimitExceeded`` in its `userInfo`.
///
/// A raw ``HTTPResponseSerializer`` parses nothing and has no use for them.
public struct ResponseLimits: Sendable, Hashable {
    /// The greatest body that is parsed, in bytes after decompression. 64 MiB. Parsed, it takes several times that.
    public var maximumBodySize: Int
    /// The deepest nesting of arrays and objects that is parsed. 512. `JSONSerialization` itself goes no deeper than
    /// 512 either, and says so with an error of its own.
    public var maximumNestingDepth: Int

    /// Limits, each standard unless given.
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
