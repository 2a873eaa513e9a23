import Foundation

/// Text from outside, made safe for a terminal and measured in its columns.
///
/// A file name or an error text may come from a server. Written as it is, it could move the cursor, rename the
/// window, or turn the direction of the text around.
enum Printable {
    /// The text on one line, with `?` for every character that a terminal would obey rather than show.
    static func line(_ text: String) -> String {
        var safe = String.UnicodeScalarView()
        for scalar in text.unicodeScalars { safe.append(isObeyed(scalar) ? "?" : scalar) }
        return String(safe)
    }

    /// Control characters, line separators, and the characters that change the direction of text.
    static func isObeyed(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0...0x1F, 0x7F...0x9F, 0x2028, 0x2029: true
        case 0x061C, 0x200E, 0x200F, 0x202A...0x202E, 0x2066...0x2069: true
        case 0xFEFF, 0xFFF9...0xFFFB, 0xE0000...0xE007F: true
        default: false
        }
    }

    /// How many columns the text takes.
    static func width(_ text: String) -> Int { text.reduce(0) { $0 + width($1) } }

    /// The text in exactly so many columns, cut in its middle where it is too long: names differ at their ends.
    static func fitted(_ text: String, to columns: Int) -> String {
        let missing = columns - width(text)
        if missing >= 0 { return text + String(repeating: " ", count: missing) }
        guard columns > 2 else { return String(repeating: ".", count: max(0, columns)) }
        let characters = Array(text)
        var (left, right, used) = (0, characters.count, 1)
        // From both ends in turn, as far as there is room beside the mark.
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

    private static func width(_ character: Character) -> Int {
        guard let first = character.unicodeScalars.first else { return 0 }
        switch first.value {
        case 0x300...0x36F, 0x200B...0x200D: return 0
        case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60,
            0xFFE0...0xFFE6, 0x1F300...0x1FAFF, 0x20000...0x3FFFD:
            return 2
        default: return 1
        }
    }
}
