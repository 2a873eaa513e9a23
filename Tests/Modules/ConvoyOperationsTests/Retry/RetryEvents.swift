import ConvoySupport

@testable import ConvoyOperations

/// The events that a `retryHandler` or a monitor received, in order.
final class RetryEvents: Sendable {
    private let events = Locked<[RetryEvent]>([])
    func add(_ event: RetryEvent) { events.withLock { $0.append(event) } }
    var all: [RetryEvent] { events.withLock { $0 } }
    /// Returns a monitor that adds the decisions about retries, and then fires `heard`.
    func monitor(_ heard: Signal) -> EventMonitor {
        EventMonitor(interval: 0) { events in
            for case .retryDecided(let event) in events.map(\.kind) {
                self.add(event)
                heard.fire()
            }
        }
    }
    var decisions: [RetryEvent.Decision] { all.map(\.decision) }
    /// The number of earlier retries in each event.
    var counts: [Int] { all.map(\.retryCount) }
}
