/// Limits how much larger than its encoded form a body may become.
struct ExpansionLimit {
    /// A body of up to this many bytes is never too large: repetitive text of that size may compress a thousandfold.
    static let allowance: Int64 = 4 << 20

    /// The largest ratio; nil for no limit. NaN, 0 or a negative number allows nothing beyond the allowance.
    let factor: Double?

    func isExceeded(encoded: Int64, decoded: Int64) -> Bool {
        guard decoded > Self.allowance, let factor else { return false }
        return !(Double(decoded) <= factor * Double(max(1, encoded)))
    }
}
