import CEpoll
import ConvoySupport
import Foundation

/// Makes untrusted text safe for a terminal, and measures it in columns.
///
/// A file name or an error text may come from a server. Unchanged, it could move the cursor, rename the window, or
/// reverse the direction of text.
enum Printable {
    /// The text on one line, with `?` for every character that would control the terminal.
    static func line(_ text: String) -> String {
        var safe = String.UnicodeScalarView()
        for scalar in text.unicodeScalars { safe.append(isObeyed(scalar) ? "?" : scalar) }
        return String(safe)
    }

    /// Whether a scalar controls a terminal: control characters, line separators, and characters that change the
    /// direction of text.
    static func isObeyed(_ scalar: Unicode.Scalar) -> Bool { scalar.controlsDisplay }

    /// The width of the text in columns.
    static func width(_ text: String) -> Int { inTextLocale { text.reduce(0) { $0 + width($1) } } }

    /// The text in exactly this many columns. If it is too long, it is cut in the middle, as names often differ at
    /// their ends.
    static func fitted(_ text: String, to columns: Int) -> String {
        inTextLocale { fit(text, columns) }
    }

    private static func fit(_ text: String, _ columns: Int) -> String {
        let missing = columns - width(text)
        if missing >= 0 { return text + String(repeating: " ", count: missing) }
        guard columns > 2 else { return String(repeating: ".", count: max(0, columns)) }
        let characters = Array(text)
        var (left, right, used) = (0, characters.count, 1)
        // Takes characters from both ends in turn, leaving one column for the mark.
        while left < right {
            let next = left <= characters.count - right ? characters[left] : characters[right - 1]
            guard used + width(next) <= columns else { break }
            used += width(next)
            if left <= characters.count - right { left += 1 } else { right -= 1 }
        }
        let mark = Display.hasUnicode ? "…" : "~"
        let cut = String(characters[..<left]) + mark + String(characters[right...])
        return cut + String(repeating: " ", count: columns - used)
    }

    /// The width by the C library, which follows Unicode and the behaviour of terminals. To be called in
    /// ``inTextLocale(_:)``.
    private static func width(_ character: Character) -> Int {
        character.unicodeScalars.reduce(0) { columns, scalar in
            let width = wcwidth(wchar_t(scalar.value))
            // -1 means an unassigned scalar.
            return columns + (width < 0 ? 1 : Int(width))
        }
    }

    /// Runs a closure in a UTF-8 locale, as in the program's locale, which may be "C", only ASCII may have a width. If
    /// the system has no such locale, widths may be wrong: a scalar of unknown width counts as one column.
    private static func inTextLocale<Result>(_ body: () -> Result) -> Result {
        guard let text = textLocale.value else { return body() }
        let before = uselocale(text)
        defer { uselocale(before) }
        return body()
    }

    /// Made once, and never freed.
    private struct TextLocale: @unchecked Sendable { let value: locale_t? }
    private static let textLocale = TextLocale(value: newlocale(LC_CTYPE_MASK, "C.UTF-8", nil))
}
