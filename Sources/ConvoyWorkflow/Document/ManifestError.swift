import ConvoySupport
import Foundation

/// A mistake in a manifest, found before anything is sent: `api.yaml:12:5: unknown key "captur" (did you mean "capture"?)`.
public struct ManifestError: Error, Sendable, Equatable {
    /// The name of the manifest, as given by the caller.
    public let file: String
    /// The number of the line, starting at 1.
    public let line: Int
    /// The column, from 1: in UTF-8 bytes for JSON, in characters for YAML.
    public let column: Int
    /// A description of the mistake on one line, without the position.
    public let message: String

    /// Creates a mistake at a position.
    package init(file: String, line: Int, column: Int, message: String) {
        self.file = file
        self.line = line
        self.column = column
        self.message = message
    }
}

extension ManifestError: SelfDescribingError {
    /// The error in the form of a compiler message: `file:line:column: message`.
    public var description: String { "\(file):\(line):\(column): \(message)" }
}

/// Quotes untrusted text for a message, on one line.
///
/// - Parameter isCut: Whether to shorten long text. Text that may contain secrets must be masked first.
func quoted(_ text: String, isCut: Bool = true) -> String {
    let limit = isCut ? 200 : Int.max
    let shown = text.unicodeScalars.prefix(limit).map { scalar -> String in
        scalar.value < 0x20 || scalar.value == 0x7F || scalar.properties.isBidiControl ? "?" : String(scalar)
    }
    return "\"\(shown.joined())\(text.unicodeScalars.count > limit ? "…" : "")\""
}
