/// How far all transfers together are, as one line.
struct ProgressSummary {
    var total: Int
    var finished: Int
    var failed: Int
    /// How many are running without a bar, as there is no room for it.
    var hidden: Int
    /// Bytes that are there.
    var bytes: Int64
    /// Bytes per second; nil while it is unknown.
    var speed: Double?
    /// nil if it is unknown.
    var bytesLeft: Int64?

    /// The longest text that fits: "3 of 24 finished, 1 failed, 12.3 MB, 4.5 MB/s, 0:49 left, and 12 more".
    func line(columns: Int) -> String {
        let count = "\(finished) of \(total) finished"
        let failures = failed > 0 ? ["\(failed) failed"] : []
        let amount = [Amounts.bytes(bytes)]
        let rate = speed.map { [Amounts.speed($0)] } ?? []
        let time = timeLeft.map { ["\(Amounts.clock($0)) left"] } ?? []
        let others = hidden > 0 ? ["and \(hidden) more"] : []
        let choices = [
            [count] + failures + amount + rate + time + others, [count] + failures + amount + rate + others,
            [count] + failures + amount + others, [count] + failures + others, [count] + failures, [count],
            ["\(finished) of \(total)"], ["\(finished)/\(total)"],
        ]
        let texts = choices.lazy.map { $0.joined(separator: ", ") }
        return texts.first { $0.utf8.count <= columns } ?? ""
    }

    private var timeLeft: Double? {
        guard let speed, speed > 0, let bytesLeft, bytesLeft > 0 else { return nil }
        return Double(bytesLeft) / speed
    }
}
