/// How much longer than its encoded form a body may become.
struct ExpansionLimit {
    /// A body of up to so many bytes is never too long: repetitive texts of that size compress a thousandfold.
    static let allowance: Int64 = 4 << 20

    /// How many times; nil for no limit. What is no number, or not positive, allows nothing beyond the allowance.
    let factor: Double?

    func isExceeded(encoded: Int64, decoded: Int64) -> Bool {
        guard decoded > Self.allowance, let factor else { return false }
        return !(Double(decoded) <= factor * Double(max(1, encoded)))
    }
}
