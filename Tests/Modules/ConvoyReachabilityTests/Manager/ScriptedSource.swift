import ConvoySupport
import Foundation

@testable import ConvoyReachability

/// A source that reports scripted statuses, and counts its starts and ends.
final class ScriptedSource: ReachabilitySource {
    struct Refusal: Error {}
    typealias Report = @Sendable (NetworkReachabilityStatus) -> Void

    private struct State {
        var reports: [Report] = []
        var ends = 0
        var refuses = false
    }
    private let state = Locked(State())

    func begin(_ report: @escaping Report) throws -> @Sendable () -> Void {
        try state.withLock { state in
            if state.refuses { throw Refusal() }
            state.reports.append(report)
        }
        return { [weak self] in self?.state.withLock { $0.ends += 1 } }
    }

    /// Reports a status to the manager with this number; by default to the last one.
    func report(_ status: NetworkReachabilityStatus, to number: Int? = nil) {
        let report = state.withLock { $0.reports[number ?? $0.reports.count - 1] }
        report(status)
    }

    func refuse() { state.withLock { $0.refuses = true } }
    var begins: Int { state.withLock { $0.reports.count } }
    var ends: Int { state.withLock { $0.ends } }
}

/// Collects values in order.
final class Record<Value: Sendable>: Sendable {
    private let values = Locked<[Value]>([])

    func add(_ value: Value) { values.withLock { $0.append(value) } }
    var all: [Value] { values.withLock { $0 } }
}
