/// Decides when a line about a transfer is due, where there are no bars: every few seconds if bytes have come, less often
/// if it takes long, and when another quarter is there. A transfer that ends soon gets none.
struct ProgressLines {
    private let begun: ContinuousClock.Instant
    private var last: ContinuousClock.Instant
    private var bytes: Int64
    private var quarter: Int?

    /// - Parameter bytes: how many were there at the beginning.
    init(at begun: ContinuousClock.Instant, bytes: Int64) { (self.begun, last, self.bytes) = (begun, begun, bytes) }

    /// Whether a line is due; it counts as printed then.
    mutating func isDue(_ bar: ProgressBar, at now: ContinuousClock.Instant) -> Bool {
        let current = bar.fraction.map { Int($0 * 4) }
        // What was there before is not worth a line.
        if quarter == nil { quarter = bar.total.map { $0 > 0 ? Int(Double(bytes) / Double($0) * 4) : 0 } }
        let isNextQuarter = (current ?? 0) > (quarter ?? 0) && current != 4
        let waited = (now - last).seconds
        let interval = min(30, max(5, (now - begun).seconds / 12))
        guard bar.done != bytes, waited >= interval || (isNextQuarter && waited >= 1) else { return false }
        (last, bytes, quarter) = (now, bar.done, current ?? quarter)
        return true
    }
}
