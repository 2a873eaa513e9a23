import ConvoySupport
import Foundation

/// A syntax error in JSON, and its position.
public struct JSONSyntaxError: Error, Sendable, Equatable, CustomStringConvertible {
    /// A short description, which contains nothing of the text itself.
    public let reason: String
    /// The position of the error.
    public let position: JSONPosition
    /// The URL of the response that has the error; nil for a text that is no response.
    public private(set) var url: URL?

    /// An error with a reason and a position.
    public init(_ reason: String, at position: JSONPosition) {
        self.reason = reason
        self.position = position
    }

    /// The position and the reason, and the URL without its secrets.
    public var description: String {
        let source = url.map { ", in the response from \(Redaction.url($0.absoluteString))" } ?? ""
        return "line \(position.line), column \(position.column): \(reason)\(source)"
    }

    func naming(_ url: URL?) -> JSONSyntaxError {
        var error = self
        error.url = url
        return error
    }
}

extension JSONSyntaxError: LocalizedError {
    /// The same.
    public var errorDescription: String? { description }
}

/// A position in a text; both numbers begin at 1.
public struct JSONPosition: Sendable, Equatable {
    /// The line.
    public var line = 1
    /// The column, in bytes of UTF-8.
    public var column = 1

    /// The beginning of a text.
    public init() {}

    /// The position of a byte.
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
