/// Lays out the text of the pages of help.
enum HelpLayout {
    /// The longest line of a page: a screen of 80 columns with a free one, as some terminals wrap in the last.
    static let columns = 79

    /// Texts with explanations beside them, all at the same column.
    static func rows(_ pairs: [(left: String, right: String)]) -> [String] {
        let column = 2 + (pairs.map(\.left.count).max() ?? 0) + 2
        return pairs.flatMap { pair in
            let lines = wrapped(pair.right, to: columns - column)
            let first = padded("  \(pair.left)", to: column) + (lines.first ?? "")
            return [first] + lines.dropFirst().map { String(repeating: " ", count: column) + $0 }
        }
    }

    /// Names with explanations, two of them on a line.
    static func grid(_ pairs: [(left: String, right: String)]) -> [String] {
        let column = (pairs.map(\.left.count).max() ?? 0) + 2
        let cells = pairs.map { padded($0.left, to: column) + $0.right }
        let half = 2 + (cells.enumerated().filter { $0.offset % 2 == 0 }.map(\.element.count).max() ?? 0) + 2
        return stride(from: 0, to: cells.count, by: 2).map { index in
            guard index + 1 < cells.count else { return "  \(cells[index])" }
            return padded("  \(cells[index])", to: half) + cells[index + 1]
        }
    }

    /// The words of a text in lines of at most this many characters.
    static func wrapped(_ text: String, to columns: Int = columns) -> [String] {
        var lines: [String] = []
        for word in text.split(separator: " ") {
            if let last = lines.last, last.count + word.count < columns {
                lines[lines.count - 1] = "\(last) \(word)"
            } else {
                lines.append(String(word))
            }
        }
        return lines
    }

    private static func padded(_ text: String, to columns: Int) -> String {
        text + String(repeating: " ", count: max(0, columns - text.count))
    }
}
