/// Which parts of a progress bar there is room for, and in which columns they are. It is the same for all bars that are
/// drawn together, so that their figures are below each other.
///
/// Where there is too little room, the bar is left out first, then the time left, then the rate. Then names are shortened,
/// then the amount is left out; the percentage stays.
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
    ///   - columns: how long a line may be.
    ///   - longestName: the width of the longest name.
    init(columns: Int, longestName: Int) {
        let wanted = min(longestName, max(12, columns / 3), 36)
        let bar = columns - wanted - figures - 2
        if bar >= 6 {
            (name, self.bar) = (wanted, min(40, bar))
            return
        }
        if wanted + 1 + figures > columns { showsTime = false }
        if wanted + 1 + figures > columns { showsSpeed = false }
        if min(longestName, 6) + 1 + figures > columns { showsAmount = false }
        name = max(0, min(longestName, columns - 1 - figures))
        // A single letter would tell nothing.
        if name < min(longestName, 3) { name = 0 }
    }

    /// The width of all figures.
    var figures: Int {
        Self.percentWidth + (showsAmount ? Self.amountWidth : 0) + (showsSpeed ? Self.speedWidth : 0)
            + (showsTime ? Self.timeWidth : 0)
    }

    /// The column in which the bar begins, counted from 1; nil if there is none.
    var barColumn: Int? { bar > 0 ? name + 2 : nil }

    /// The column in which the figures begin, counted from 1.
    var figuresColumn: Int { name + (name > 0 ? 2 : 1) + (bar > 0 ? bar + 1 : 0) }
}
