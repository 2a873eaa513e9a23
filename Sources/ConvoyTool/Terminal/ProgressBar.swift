/// The progress of a transfer, as one line on a terminal.
struct ProgressBar {
    var name: String
    var done: Int64
    /// nil if it is unknown.
    var total: Int64?
    /// Bytes per second; nil while it is unknown.
    var speed: Double?

    var fraction: Double? {
        guard let total, total > 0 else { return nil }
        return min(1, Double(done) / Double(total))
    }

    /// The line, in at most this many columns. If there is too little room, the bar is dropped first, then the name is
    /// shortened.
    func line(columns: Int, display: Display) -> String {
        let figures = self.figures
        let room = columns - Printable.width(figures) - 1
        guard room >= 8 else { return Printable.fitted(figures, to: max(0, columns - 1)) }
        let nameWidth = min(32, max(8, min(room, columns / 3)))
        let barWidth = min(40, room - nameWidth - 1)
        let shown = Printable.fitted(name, to: barWidth >= 6 ? nameWidth : room)
        guard barWidth >= 6 else { return "\(shown) \(figures)" }
        return "\(shown) \(Self.bar(fraction, width: barWidth, display: display)) \(figures)"
    }

    private var figures: String {
        var text = fraction.map { padded("\(Int($0 * 100))%", 4) } ?? "    "
        text += padded(Amounts.bytes(done), 10)
        text += padded(speed.map(Amounts.speed) ?? "", 12)
        if let speed, speed > 0, let total, total > done {
            text += padded(Amounts.clock(Double(total - done) / speed), 8)
        } else {
            text += padded("", 8)
        }
        return text
    }

    private func padded(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }

    /// A bar of this many columns; empty if the total is unknown.
    static func bar(_ fraction: Double?, width: Int, display: Display) -> String {
        let (full, empty) = Display.hasUnicode ? ("━", "─") : ("#", "-")
        let count = Int(((fraction ?? 0) * Double(width)).rounded(.down))
        let done = String(repeating: full, count: min(width, max(0, count)))
        let left = String(repeating: empty, count: width - min(width, max(0, count)))
        return display.paint(done, .green) + display.paint(left, .dim)
    }
}
