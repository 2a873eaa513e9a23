/// Which limit a response passed.
public enum ResponseLimitExceeded: String, Sendable, Hashable {
    /// ``ResponseLimits/maximumBodySize``.
    case bodySize
    /// ``ResponseLimits/maximumNestingDepth``.
    case nestingDepth
    /// A property list that is small in bytes and immense as a tree.
    case expansion
    /// An XML document with declarations of its own, such as entities.
    case declarations
    /// An image with more pixels than are wanted.
    case pixelCount
    /// An image that is wider or higher than is wanted.
    case imageDimension
}
