/// Why the bytes of a response cannot be read as a sequence.
public enum ResponseBytesError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The operation has begun already, so its body goes elsewhere.
    case hasBegun
    /// The body of the operation goes elsewhere: into its `outputStream`, into the file of a download, or to somebody else
    /// who has asked for its bytes.
    case goesElsewhere
    /// The bytes are read by another loop, or were: they come once.
    case isIterated
    /// A line is longer than so many bytes.
    case lineTooLong(limit: Int)
    /// The server would send the body again from its start, after a pause or a retry, and some of it was read already. It
    /// is the `NSUnderlyingErrorKey` of the operation's error, which is `URLError.resourceUnavailable`.
    case cannotStartOver

    /// What is wrong, in a sentence.
    public var description: String {
        switch self {
        case .hasBegun: "The bytes of an operation can be asked for only before it begins."
        case .goesElsewhere: "The body of the operation goes elsewhere."
        case .isIterated: "The bytes of a response can be iterated over once."
        case .lineTooLong(let limit): "A line is longer than \(limit) bytes."
        case .cannotStartOver:
            "The body must be fetched from its start again, and some of its bytes were read already."
        }
    }
}
