import Foundation

/// The five steps of `Operation.QueuePriority`, the most urgent first.
enum PriorityLevel {
    static let count = 5

    /// Some of them, in one byte.
    struct Set {
        private var bits: UInt8 = 0

        var isEmpty: Bool { bits == 0 }
        /// The most urgent one.
        var first: Int? { bits == 0 ? nil : bits.trailingZeroBitCount }
        /// Whether there is more than one.
        var isMixed: Bool { bits & (bits &- 1) != 0 }

        func contains(_ level: Int) -> Bool { bits & 1 << UInt8(level) != 0 }
        mutating func insert(_ level: Int) { bits |= 1 << UInt8(level) }
        mutating func remove(_ level: Int) { bits &= ~(1 << UInt8(level)) }
    }

    /// The step of an operation.
    ///
    /// As in Foundation, the quality of service stands in for a priority that was not set, unless
    /// the queue runs one operation at a time and so promises an order.
    static func level(of operation: Operation, inSerialQueue isSerial: Bool) -> Int {
        switch operation.queuePriority {
        case .veryHigh: return 0
        case .high: return 1
        case .low: return 3
        case .veryLow: return 4
        case .normal: break
        @unknown default: break
        }
        guard !isSerial else { return 2 }
        switch operation.qualityOfService {
        case .userInteractive: return 0
        case .userInitiated: return 1
        case .utility: return 3
        case .background: return 4
        case .default: return 2
        @unknown default: return 2
        }
    }
}
