/// The progress of a transfer, as one line on a terminal.
struct ProgressBar {
    /// Safe for a terminal.
    var name: String
    var done: Int64 = 0
    /// nil if it is unknown.
    var total: Int64?
    /// Bytes per second; nil while it is unknown.
    var speed: Double?

    var fraction: Double? {
        guard let total, total > 0 else { return nil }
        return min(1, max(0, Double(done) / Double(total)))
    }

    /// Seconds; nil if it is unknown, as when nothing arrives.
    var timeLeft: Double? {
        guard let speed, speed > 0, let total, total > done else { return nil }
        return Double(total - done) / speed
    }

    /// The line.
    ///
    /// Terminals do not agree how wide some names are. So the cursor is moved to the columns of what is behind the name,
    /// and that is drawn over whatever of the name is there.
    func line(_ layout: ProgressLayout, display: Display) -> String {
        var line = ""
        if layout.name > 0 {
            line += Printable.cut(name, to: layout.name) + "\u{1B}[K"
            if let column = layout.barColumn {
                line += Self.column(column) + Self.bar(fraction, width: layout.bar, display: display)
            }
            line += Self.column(layout.figuresColumn)
        }
        return line + figures(layout)
    }

    private static func column(_ number: Int) -> String { "\u{1B}[\(number)G" }

    private func figures(_ layout: ProgressLayout) -> String {
        var text = padded(fraction.map { "\(Int($0 * 100))%" } ?? "--", ProgressLayout.percentWidth)
        if layout.showsAmount { text += padded(Amounts.bytes(done), ProgressLayout.amountWidth) }
        if layout.showsSpeed { text += padded(speed.map(Amounts.speed) ?? "", ProgressLayout.speedWidth) }
        if layout.showsTime { text += padded(timeLeft.map(Amounts.clock) ?? "", ProgressLayout.timeWidth) }
        return text
    }

    private func padded(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.utf8.count)) + text
    }

    /// A bar of this many columns; empty if the total is unknown.
    static func bar(_ fraction: Double?, width: Int, display: Display) -> String {
        let (full, empty) = Display.hasUnicode ? ("━", "─") : ("#", "-")
        let count = Int(((fraction ?? 0) * Double(width)).rounded(.down))
        let done = String(repeating: full, count: min(width, max(0, count)))
        let left = String(repeating: empty, count: width - min(width, max(0, count)))
        return display.paint(done, .green) + display.paint(left, .dim)
    }

    /// The progress as a line of text: "big.iso: 42 %, 1.2 GB of 2.9 GB, 34.5 MB/s, 0:49 left".
    var text: String {
        var parts: [String] = []
        if let fraction { parts.append("\(Int(fraction * 100)) %") }
        parts.append(Amounts.bytes(done) + (total.map { " of \(Amounts.bytes($0))" } ?? ""))
        if let speed { parts.append(Amounts.speed(speed)) }
        if let timeLeft { parts.append("\(Amounts.clock(timeLeft)) left") }
        return "\(name): \(parts.joined(separator: ", "))"
    }
}
