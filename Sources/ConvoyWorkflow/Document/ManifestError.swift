import Foundation

/// A mistake in a manifest, found before anything is sent: `api.yaml:12:5: unknown key "captur" (did you mean "capture"?)`.
public struct ManifestError: Error, Sendable, Equatable {
    /// The name of the manifest, as it was given.
    public let file: String
    /// The line, from 1.
    public let line: Int
    /// The column, from 1: in UTF-8 bytes for JSON, in characters for YAML.
    public let column: Int
    /// A description of the mistake on one line, without the position.
    public let message: String

    /// Creates a mistake at a position.
    public init(file: String, line: Int, column: Int, message: String) {
        (self.file, self.line, self.column, self.message) = (file, line, column, message)
    }
}

extension ManifestError: LocalizedError, CustomStringConvertible {
    /// The file, the line, the column and the message.
    public var description: String { "\(file):\(line):\(column): \(message)" }
    /// The same as ``description``.
    public var errorDescription: String? { description }
}

/// Suggests a known name for an unknown one.
package enum Suggestion {
    /// Returns ` (did you mean "…"?)` with the most similar name, or an empty string if none is similar.
    static func text(for name: String, among known: some Sequence<String>) -> String {
        nearest(to: name, among: known).map { " (did you mean \"\($0)\"?)" } ?? ""
    }

    /// Returns the most similar name; nil if none is similar.
    package static func nearest(to name: String, among known: some Sequence<String>) -> String? {
        let limit = max(1, name.count / 3)
        return known.map { ($0, distance(name.lowercased(), $0.lowercased())) }
            .filter { $0.1 <= limit }.min { ($0.1, $0.0) < ($1.1, $1.0) }?.0
    }

    /// Returns the number of characters that must be changed, added, removed or swapped with their neighbour.
    private static func distance(_ one: String, _ other: String) -> Int {
        let (one, other) = (Array(one.prefix(64)), Array(other.prefix(64)))
        var before: [Int] = [], last = Array(0...other.count)
        for i in one.indices {
            var row = [i + 1]
            for j in other.indices {
                var best = min(row[j] + 1, last[j + 1] + 1, last[j] + (one[i] == other[j] ? 0 : 1))
                if i > 0, j > 0, one[i] == other[j - 1], one[i - 1] == other[j] { best = min(best, before[j - 1] + 1) }
                row.append(best)
            }
            (before, last) = (last, row)
        }
        return last[other.count]
    }
}

/// Quotes untrusted text for a message, on one line.
///
/// - Parameter isCut: Whether to shorten a long text. A text that may contain secrets must be masked first.
func quoted(_ text: String, isCut: Bool = true) -> String {
    let limit = isCut ? 200 : Int.max
    let shown = text.unicodeScalars.prefix(limit).map { scalar -> String in
        scalar.value < 0x20 || scalar.value == 0x7F || scalar.properties.isBidiControl ? "?" : String(scalar)
    }
    return "\"\(shown.joined())\(text.unicodeScalars.count > limit ? "…" : "")\""
}
