import ConvoySupport
import Foundation

/// How many bytes may pass now, where so many may pass in a second: a token bucket, as a value that is told the time.
///
/// Bytes come in blocks that cannot be divided, so a block may take more than there is. The bucket is then in debt, and
/// nothing passes until that is paid. So the average is exact, however large the blocks are.
struct TokenBucket {
    /// Bytes per second; nil for no limit, and 0 if nothing may pass.
    private(set) var rate: Int64?
    /// Bytes; a debt if negative.
    private(set) var balance = 0.0
    private var filledAt: MonotonicTime

    /// - Parameter rate: a negative one counts as 0.
    init(rate: Int64?, at now: MonotonicTime) {
        self.rate = rate.map { max(0, $0) }
        filledAt = now
        balance = burst
    }

    /// What is saved up at most: an eighth of a second, so that a thread that is late does not lower the average.
    var burst: Double { rate.map { $0 > 0 ? max(1, Double($0) / 8) : 0 } ?? 0 }

    /// What one transfer of several gets at a time: a hundredth of a second, which bounds how often threads wake.
    var turn: Double { rate.map { max(1, Double($0) / 100) } ?? 0 }

    /// Changes the rate. What was saved up at a higher rate is forfeited; a debt stays, and is paid at the new rate.
    mutating func setRate(_ newRate: Int64?, at now: MonotonicTime) {
        fill(at: now)
        let wasLimited = rate != nil
        rate = newRate.map { max(0, $0) }
        balance = wasLimited ? min(balance, burst) : burst
    }

    /// Whether a block may pass.
    mutating func isOpen(at now: MonotonicTime) -> Bool {
        fill(at: now)
        return rate == nil || balance > 0
    }

    /// Whether enough for a turn has been saved up.
    mutating func hasTurn(at now: MonotonicTime) -> Bool {
        guard let rate else { return true }
        fill(at: now)
        return rate > 0 && balance >= turn
    }

    /// When there will be enough for a turn, if nothing is taken until then; nil for never.
    mutating func timeOfTurn(at now: MonotonicTime) -> MonotonicTime? {
        guard let rate else { return now }
        guard rate > 0 else { return nil }
        fill(at: now)
        // A microsecond later: rounding must not make it a little too early.
        return Nanoseconds.deadline(max(0, turn - balance) / Double(rate) + 1e-6, after: now)
    }

    /// Takes bytes, whether there are as many or not.
    mutating func take(_ count: Double) {
        if rate != nil { balance -= count }
    }

    /// Puts bytes back that were taken and not used.
    mutating func giveBack(_ count: Double) {
        if rate != nil { balance = min(burst, balance + count) }
    }

    private mutating func fill(at now: MonotonicTime) {
        guard now > filledAt else { return }
        if let rate { balance = min(burst, balance + Double(now - filledAt) * Double(rate) / 1e9) }
        filledAt = now
    }
}
