/// The changing lines at the bottom of a terminal: the wanted lines, the drawn lines, and the text that updates them.
///
/// Between updates, the cursor rests at the first column of the first line. When the window gets narrower, many
/// terminals break a drawn line into an unknown number of rows. All of these rows are at or below the cursor, so
/// clearing to the end of the screen removes them.
struct ChangingLines {
    /// The wanted lines.
    var lines: [String] = []
    /// The lines on the terminal.
    private var drawn: [String] = []
    private var isCursorHidden = false
    private var isReflowed = false

    /// Whether the terminal must be restored before the program ends.
    var isDrawn: Bool { !drawn.isEmpty || isCursorHidden }

    /// Returns the text that draws the lines, or an empty string if they are already drawn.
    mutating func draw() -> String {
        guard lines != drawn || isReflowed else { return "" }
        // Lines are overwritten rather than cleared first, which would flicker.
        var text = isReflowed ? erase() : ""
        guard !lines.isEmpty else { return text + erase() }
        if !isCursorHidden { text += "\u{1B}[?25l" }
        isCursorHidden = true
        // With line wrap off, a line whose width was underestimated still occupies one row.
        text += "\u{1B}[?7l" + lines.joined(separator: "\u{1B}[K\r\n") + "\u{1B}[K\u{1B}[J\u{1B}[?7h\r"
        if lines.count > 1 { text += "\u{1B}[\(lines.count - 1)A" }
        drawn = lines
        return text
    }

    /// Returns the text that removes the drawn lines. The wanted lines do not change.
    mutating func erase() -> String {
        isReflowed = false
        guard !drawn.isEmpty else { return "" }
        drawn = []
        // Clear from the second column: tmux moves a screen that is cleared from its first cell into its history.
        return "\r\u{1B}[K\u{1B}[C\u{1B}[J\r"
    }

    /// Returns the text that removes the drawn lines and shows the cursor again.
    mutating func giveBack() -> String {
        let text = erase() + (isCursorHidden ? "\u{1B}[?25h" : "")
        isCursorHidden = false
        return text
    }

    /// Records that the window size has changed, so that the drawn lines may be in other rows.
    mutating func reflow() { isReflowed = !drawn.isEmpty }

    /// Records that another program has used the terminal, so that the drawn lines cannot be located anymore.
    mutating func forget() {
        drawn = []
        isCursorHidden = false
        isReflowed = false
    }
}
