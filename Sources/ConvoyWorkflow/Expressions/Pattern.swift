import Foundation

/// Regular expressions, as ICU has them.
enum Pattern {
    /// Checks an expression.
    ///
    /// - Returns: how many groups it has.
    static func groupCount(of pattern: String, at value: ManifestValue) throws(ManifestError) -> Int {
        guard let expression = try? NSRegularExpression(pattern: pattern) else {
            throw value.problem("bad regular expression \(quoted(pattern))")
        }
        return expression.numberOfCaptureGroups
    }

    /// The text of a group in the first match; nil if there is none.
    static func firstMatch(of pattern: String, group: Int, in text: String) -> String? {
        guard let expression = try? NSRegularExpression(pattern: pattern),
            let match = expression.firstMatch(in: text, range: NSRange(text.startIndex..., in: text)),
            group < match.numberOfRanges, let range = Range(match.range(at: group), in: text)
        else { return nil }
        return String(text[range])
    }

    static func matches(_ pattern: String, _ text: String) -> Bool { firstMatch(of: pattern, group: 0, in: text) != nil }
}
