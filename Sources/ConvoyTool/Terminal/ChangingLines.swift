/// The changing lines at the bottom of a terminal: which are there, and the text that brings others there.
///
/// Between two changes the cursor rests at the first column of the first line. Many terminals break a drawn line into
/// several rows when the window gets narrower, in a number that is unknown; but all of them are at the cursor or below
/// it, so that "clear to the end of the screen" finds them.
struct ChangingLines {
    /// The lines that are to be there.
    var lines: [String] = []
    /// The lines that are there.
    private var drawn: [String] = []
    private var isCursorHidden = false
    private var isReflowed = false

    /// Whether anything is on the terminal that must be taken back before the program ends.
    var isDrawn: Bool { !drawn.isEmpty || isCursorHidden }

    /// The text that draws the lines; empty if they are there already.
    mutating func draw() -> String {
        guard lines != drawn || isReflowed else { return "" }
        // What stays in place is overwritten and not cleared, which would flicker.
        var text = isReflowed ? erase() : ""
        guard !lines.isEmpty else { return text + erase() }
        if !isCursorHidden { text += "\u{1B}[?25l" }
        isCursorHidden = true
        // Without line wrap, a line that is longer than it was thought to be stays one row.
        text += "\u{1B}[?7l" + lines.joined(separator: "\u{1B}[K\r\n") + "\u{1B}[K\u{1B}[J\u{1B}[?7h\r"
        if lines.count > 1 { text += "\u{1B}[\(lines.count - 1)A" }
        drawn = lines
        return text
    }

    /// The text that removes what is drawn. The lines stay those that are to be there.
    mutating func erase() -> String {
        isReflowed = false
        guard !drawn.isEmpty else { return "" }
        drawn = []
        // Cleared from the second column: tmux puts a screen that is cleared from its first cell into its history.
        return "\r\u{1B}[K\u{1B}[C\u{1B}[J\r"
    }

    /// The text that removes what is drawn and shows the cursor again.
    mutating func giveBack() -> String {
        let text = erase() + (isCursorHidden ? "\u{1B}[?25h" : "")
        isCursorHidden = false
        return text
    }

    /// Notes that the window has another size, so that what is drawn may be in other rows.
    mutating func reflow() { isReflowed = !drawn.isEmpty }

    /// Notes that another program has used the terminal: what is drawn cannot be found any more.
    mutating func forget() { (drawn, isCursorHidden, isReflowed) = ([], false, false) }
}
