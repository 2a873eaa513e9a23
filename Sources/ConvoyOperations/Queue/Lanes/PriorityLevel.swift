import Foundation

/// The five levels of `Operation.QueuePriority`, the most urgent first.
enum PriorityLevel {
    static let count = 5

    /// A place of its own behind the levels, for operations that were redirected and wait for a slot of the other host. They
    /// are in no order with those that wait for their start, and go before them.
    static let redirected = 5

    /// The level of an operation.
    ///
    /// As in Foundation, the quality of service replaces a priority that was not set, unless the queue is serial and so
    /// promises an order.
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
