/// A set of priority levels, in one byte.
struct PriorityLevels {
    private var bits: UInt8 = 0

    var isEmpty: Bool { bits == 0 }
    /// The most urgent level.
    var first: Int? { bits == 0 ? nil : bits.trailingZeroBitCount }
    /// Whether there is more than one level.
    var isMixed: Bool { bits & (bits &- 1) != 0 }

    func contains(_ level: Int) -> Bool { bits & 1 << UInt8(level) != 0 }
    mutating func insert(_ level: Int) { bits |= 1 << UInt8(level) }
    mutating func remove(_ level: Int) { bits &= ~(1 << UInt8(level)) }
}
