import Foundation

@testable import ConvoyOperations

/// A report of what holds back the operations of a queue that should be empty: its slots, its hosts, and the operations
/// that its next barrier waits for, because one lost operation holds back everything behind that barrier.
struct QueueReport: CustomStringConvertible {
    let description: String

    /// The number of operations that are described individually.
    private static let most = 20

    init(of queue: RequestOperationQueue) {
        let (summary, slots, current) = queue.state.withLock { state in
            (Self.summary(of: state), state.slots.filter { $0.stage != .free }, state.epochs.current)
        }
        // The operations are described after the lock is released, because that runs their code.
        let first = slots.filter { $0.epoch == current }
        description =
            (summary + ["before the next barrier: \(Self.stages(of: first))"]
            + first.prefix(Self.most).map { "  " + Self.line(on: $0) }
            + ["behind it: \(Self.stages(of: slots.filter { $0.epoch != current }))"]).joined(separator: "\n")
    }

    private static func summary(of state: borrowing QueueState) -> [String] {
        let epoch = state.epochs[state.epochs.current]
        let hosts = state.lanes.hosts.hosts.filter { $0.members > 0 || $0.running > 0 || $0.gate > 0 }
        return [
            "\(state.count) operations; \(state.running) slots of \(state.limit) taken; suspended: \(state.isSuspended); "
                + "being cancelled: \(state.cancellations)",
            "exempt operations: \(!state.exempts.isEmpty); startable: "
                + "\(state.lanes.hasStartable); the next barrier waits for \(epoch.remaining)",
        ] + hosts.map { "\($0.name ?? "no host"): \($0.running) running, gate \($0.gate), probe \($0.probe)" }
    }

    private static func stages(of slots: some Collection<QueueSlot>) -> String {
        let stages = Dictionary(grouping: slots) { "\($0.stage)" }.sorted { $0.key < $1.key }
        return stages.isEmpty ? "nothing" : stages.map { "\($0.value.count) \($0.key)" }.joined(separator: ", ")
    }

    private static func line(on slot: QueueSlot) -> String {
        guard let operation = slot.operation else { return "no operation" }
        let unfinished = operation.dependencies.filter { !$0.isFinished }.count
        let phase = (operation as? PausableTestOperation).map { " \($0.current)," } ?? ""
        return "\(type(of: operation)): \(slot.stage),\(phase) ready: \(operation.isReady), cancelled: "
            + "\(operation.isCancelled), finished: \(operation.isFinished), exempt: \(slot.flags.contains(.exempt)), "
            + "direct: \(slot.flags.contains(.direct)), unfinished dependencies: \(unfinished)"
    }
}
