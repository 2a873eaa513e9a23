import ConvoySupport

@testable import ConvoyOperations

/// The events that a `retryHandler` received, in order.
final class RetryEvents: Sendable {
    private let events = Locked<[RetryEvent]>([])
    func add(_ event: RetryEvent) { events.withLock { $0.append(event) } }
    var all: [RetryEvent] { events.withLock { $0 } }
    var decisions: [RetryEvent.Decision] { all.map(\.decision) }
    /// How many retries there had been each time.
    var counts: [Int] { all.map(\.retryCount) }
}
