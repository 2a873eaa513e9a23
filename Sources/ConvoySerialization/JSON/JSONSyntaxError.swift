/// What is wrong with a text that should be JSON, and where.
public struct JSONSyntaxError: Error, Sendable, Equatable, CustomStringConvertible {
    /// In a few words, without anything of the text itself.
    public let reason: String
    /// Where.
    public let position: JSONPosition

    /// A reason and a place.
    public init(_ reason: String, at position: JSONPosition) {
        self.reason = reason
        self.position = position
    }

    /// The place and the reason.
    public var description: String { "line \(position.line), column \(position.column): \(reason)" }
}

/// A place in a text; both numbers begin at 1.
public struct JSONPosition: Sendable, Equatable {
    /// The line.
    public var line = 1
    /// The column, in bytes of UTF-8.
    public var column = 1

    /// The beginning of a text.
    public init() {}

    /// The place of a byte.
    init(offset: Int, in bytes: some Collection<UInt8>) {
        for byte in bytes.prefix(offset) {
            if byte == 0x0A {
                line += 1
                column = 1
            } else {
                column += 1
            }
        }
    }
}
