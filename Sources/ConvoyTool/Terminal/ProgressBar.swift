/// The progress of a transfer as one line on a terminal.
struct ProgressBar {
    /// The name, already safe for a terminal.
    var name: String
    var done: Int64 = 0
    /// The total size, or nil if it is unknown.
    var total: Int64?
    /// The rate in bytes per second, or nil if it is unknown.
    var speed: Double?

    var fraction: Double? {
        guard let total, total > 0 else { return nil }
        return min(1, max(0, Double(done) / Double(total)))
    }

    /// The remaining time in seconds, or nil if it is unknown, for example when no bytes arrive.
    var timeLeft: Double? {
        guard let speed, speed > 0, let total, total > done else { return nil }
        return Double(total - done) / speed
    }

    /// Returns the progress as a line for a terminal.
    ///
    /// Terminals disagree about the width of some names. The cursor is therefore moved to the column after the name, and the
    /// rest of the line is drawn over any part of the name that extends beyond it.
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

    /// Returns a bar that is `width` columns wide. If the total is unknown, it consists of dots, to distinguish it from
    /// 0 %.
    static func bar(_ fraction: Double?, width: Int, display: Display) -> String {
        guard fraction != nil else {
            return display.paint(String(repeating: Display.hasUnicode ? "·" : ".", count: width), .dim)
        }
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

/// The parts of a progress bar that fit, and their columns. All bars that are drawn together have the same layout, so that
/// their figures are aligned.
///
/// If there is too little room, the bar is left out first, then the remaining time, then the rate. Next, names are
/// shortened, and then the amount is left out. The percentage is always shown.
struct ProgressLayout: Equatable {
    private(set) var name = 0
    private(set) var bar = 0
    private(set) var showsAmount = true
    private(set) var showsSpeed = true
    private(set) var showsTime = true

    static let percentWidth = 4
    static let amountWidth = 9
    static let speedWidth = 11
    static let timeWidth = 9

    /// - Parameters:
    ///   - columns: The maximum length of a line.
    ///   - longestName: The width of the longest name.
    init(columns: Int, longestName: Int) {
        let wanted = min(longestName, max(12, columns / 3), 36)
        let bar = columns - wanted - figures - 2
        if bar >= 6 {
            name = wanted
            self.bar = min(40, bar)
            return
        }
        if wanted + 1 + figures > columns { showsTime = false }
        if wanted + 1 + figures > columns { showsSpeed = false }
        if min(longestName, 6) + 1 + figures > columns { showsAmount = false }
        name = max(0, min(longestName, columns - 1 - figures))
        // A single letter would not identify the file.
        if name < min(longestName, 3) { name = 0 }
    }

    /// The width of all figures.
    var figures: Int {
        Self.percentWidth + (showsAmount ? Self.amountWidth : 0) + (showsSpeed ? Self.speedWidth : 0)
            + (showsTime ? Self.timeWidth : 0)
    }

    /// The column in which the bar begins, counted from 1, or nil without a bar.
    var barColumn: Int? { bar > 0 ? name + 2 : nil }

    /// The column in which the figures begin, counted from 1.
    var figuresColumn: Int { name + (name > 0 ? 2 : 1) + (bar > 0 ? bar + 1 : 0) }
}

/// The progress of all transfers together, as one line.
struct ProgressSummary {
    /// The number of transfers, or nil if it is unknown.
    var total: Int?
    var finished: Int
    var failed: Int
    /// The number of running transfers whose bars do not fit.
    var hidden: Int
    /// The number of stored bytes.
    var bytes: Int64
    /// The rate in bytes per second, or nil if it is unknown.
    var speed: Double?
    /// The number of remaining bytes, or nil if it is unknown.
    var bytesLeft: Int64?

    /// Returns the longest text that fits: "3 of 24 finished, 1 failed, 12.3 MB, 4.5 MB/s, 0:49 left, and 12 more".
    func line(columns: Int) -> String {
        let count = total.map { "\(finished) of \($0) finished" } ?? "\(finished) finished"
        let failures = failed > 0 ? ["\(failed) failed"] : []
        let amount = [Amounts.bytes(bytes)]
        let rate = speed.map { [Amounts.speed($0)] } ?? []
        let time = timeLeft.map { ["\(Amounts.clock($0)) left"] } ?? []
        let others = hidden > 0 ? ["and \(hidden) more"] : []
        let start = [count] + failures
        let choices: [[String]] = [
            start + amount + rate + time + others, start + amount + rate + others, start + amount + others, start + others,
            start, [count], [total.map { "\(finished) of \($0)" } ?? "\(finished)"],
            [total.map { "\(finished)/\($0)" } ?? "\(finished)"],
        ]
        let texts = choices.lazy.map { $0.joined(separator: ", ") }
        return texts.first { $0.utf8.count <= columns } ?? ""
    }

    private var timeLeft: Double? {
        guard let speed, speed > 0, let bytesLeft, bytesLeft > 0 else { return nil }
        return Double(bytesLeft) / speed
    }
}

/// The rate of a transfer, measured over the last few seconds.
struct SpeedMeter {
    private var samples: [(time: ContinuousClock.Instant, bytes: Int64)]
    private static let window = Duration.seconds(4)

    /// Creates a meter for a transfer that has not received anything yet.
    init(at time: ContinuousClock.Instant) { samples = [(time, 0)] }

    /// Records the number of bytes received since the start: bytes of an earlier run do not count, and bytes received again
    /// do. Call this a few times per second, even if nothing has arrived.
    mutating func note(_ bytes: Int64, at time: ContinuousClock.Instant) {
        samples.append((time, bytes))
        while samples.count > 2, time - samples[1].time >= Self.window { samples.removeFirst() }
    }

    /// The rate in bytes per second: nil if it is unknown, 0 if nothing has arrived in the last few seconds.
    var speed: Double? {
        guard let first = samples.first, let last = samples.last else { return nil }
        let time = (last.time - first.time).seconds
        return time >= 0.2 ? Double(last.bytes - first.bytes) / time : nil
    }
}

/// The schedule of progress lines about a transfer without a bar: every few seconds while bytes arrive, less often for
/// long transfers, and whenever another quarter is complete. A short transfer gets no line.
struct ProgressLines {
    private let begun: ContinuousClock.Instant
    private var last: ContinuousClock.Instant
    private var bytes: Int64
    private var quarter: Int?

    /// - Parameter bytes: The number of bytes stored at the start.
    init(at begun: ContinuousClock.Instant, bytes: Int64) {
        self.begun = begun
        last = begun
        self.bytes = bytes
    }

    /// Returns whether a line is due, and counts it as printed.
    mutating func isDue(_ bar: ProgressBar, at now: ContinuousClock.Instant) -> Bool {
        let current = bar.fraction.map { Int($0 * 4) }
        // Bytes of an earlier run do not cause a line.
        if quarter == nil { quarter = bar.total.map { $0 > 0 ? Int(Double(bytes) / Double($0) * 4) : 0 } }
        let isNextQuarter = (current ?? 0) > (quarter ?? 0) && current != 4
        let waited = (now - last).seconds
        let interval = min(30, max(5, (now - begun).seconds / 12))
        guard bar.done != bytes, waited >= interval || (isNextQuarter && waited >= 1) else { return false }
        last = now
        bytes = bar.done
        quarter = current ?? quarter
        return true
    }
}
