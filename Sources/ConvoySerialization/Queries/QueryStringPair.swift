/// One field of a query: an unescaped name, and a value that is not a container.
public struct QueryStringPair: Sendable, Hashable {
    /// The name with its brackets, indices or dots.
    public let field: String
    /// The value; never an array, set or dictionary.
    public let value: Parameter
}
