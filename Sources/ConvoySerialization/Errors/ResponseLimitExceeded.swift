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
