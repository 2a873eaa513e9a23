import ConvoySupport

@testable import ConvoyOperations

/// Records the events of operations. Their metrics must follow from the events.
final class EventRecorder: @unchecked Sendable {
    private var events: [OperationEvent] = []
    /// The metrics of each operation as its handlers have seen them.
    private var seen: [UInt64?: OperationMetrics] = [:]

    /// Starts to measure and monitor an operation.
    init(of operation: URLConnectionOperation) {
        operation.collectsMetrics = true
        operation.eventMonitors = [EventMonitor(interval: 0) { [weak self] in self?.events += $0 }]
    }

    private func events(of operation: URLConnectionOperation) -> [OperationEvent] {
        events.filter { $0.operationNumber == operation.operationNumber }
    }

    /// Reads the metrics in a handler.
    func readMetrics(of operation: URLConnectionOperation) { seen[operation.operationNumber] = operation.metrics }

    /// Returns how the metrics of a finished operation differ from its events; nil if they do not.
    func difference(of operation: URLConnectionOperation) -> String? {
        let events = events(of: operation)
        guard let metrics = operation.metrics, let first = events.first else { return "no metrics or no events" }
        var fold = MetricsFold(from: first.origin)
        for event in events { fold.add(event) }
        if metrics != fold.metrics { return "\(metrics), but \(fold.metrics) from \(events)" }
        if let seen = seen[operation.operationNumber], metrics != seen {
            return "\(metrics), but a handler has seen \(seen)"
        }
        return nil
    }

    /// Returns how the metrics of a finished operation without parts differ from what the user and the network have
    /// seen; nil if they do not.
    ///
    /// - Parameter states: All states after the first one.
    func difference(
        of operation: URLConnectionOperation, from states: [OperationState], _ network: SimulatedNetwork
    )
        -> String?
    {
        let events = events(of: operation)
        guard let first = events.first else { return "no events" }
        // An event per second, so that no wait is too short to be measured.
        var fold = MetricsFold(from: first.origin)
        for (index, event) in events.enumerated() { fold.add(event.kind, at: first.moment + UInt64(index) * 1_000_000_000) }
        let metrics = fold.metrics
        let connections = network.connections.filter { $0.operation === operation }
        let expected = [
            operation.retryCount, connections.reduce(0) { $0 + $1.followed }, connections.reduce(0) { $0 + $1.collected },
            states.contains(.executing) ? 1 : 0, states.filter { $0 == .paused }.count,
            states.dropLast().last == .executing ? 1 : 0,
        ]
        let end = metrics.waits.last.map { $0.start + $0.duration } ?? 0
        let found = [
            metrics.retryCount, metrics.redirectCount, metrics.transactions.count, metrics.start == nil ? 0 : 1,
            metrics.waits.filter { $0.reason == .pause }.count, end < metrics.duration ? 1 : 0,
        ]
        return found == expected ? nil : "\(found), not \(expected), from \(states) and \(events)"
    }
}
