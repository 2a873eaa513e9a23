import ConvoySupport
import Foundation
import Synchronization

/// The events of one operation: the sequencer that creates them, and their readers, which are the metrics and the
/// monitors. This value is stored in the operation's ``OperationLog``, whose lock preserves the order of the events.
struct EventRecord {
    /// The values that all events of an operation share.
    struct Source {
        /// The number of the operation, unique in the process.
        let operationNumber = Self.count.wrappingAdd(1, ordering: .relaxed).newValue
        let origin = StartMoment.now
        /// The rules for secrets in cached responses.
        var secrets: ResponseSecrets?

        private static let count = Atomic<UInt64>(0)

        func event(_ kind: OperationEvent.Kind, at moment: MonotonicTime) -> OperationEvent {
            OperationEvent(
                kind: kind, moment: moment, origin: origin, secrets: kind.isOfCache ? secrets : nil,
                operationNumber: operationNumber)
        }
    }

    var source = Source()
    /// The number of the last change before the record began. Earlier changes are not reported.
    private let begun: UInt32
    private var sequencer = EventSequencer()
    private var metrics: MetricsFold
    private(set) var monitors: [EventMonitor]

    /// Creates a record that begins with the operation's current state.
    init(after number: UInt32, isFinished: Bool, monitors: [EventMonitor]) {
        begun = number
        metrics = MetricsFold(from: source.origin)
        self.monitors = monitors
        sequencer.isOver = isFinished
        if !isFinished { reportBegin() }
    }

    private func reportBegin() {
        for monitor in monitors { monitor.gather { $0.append(source.event(.made, at: source.origin.time)) } }
    }

    /// Adds the monitors, unless the record already has monitors. The new monitors do not receive earlier events.
    mutating func add(_ monitors: [EventMonitor]) {
        guard self.monitors.isEmpty, !sequencer.isOver else { return }
        self.monitors = monitors
        reportBegin()
    }

    /// Reports a change of the lifecycle. Called in order.
    mutating func report(_ change: OperationLog.RecordedChange) {
        if OperationLog.comes(change.number, after: begun) { report { $0.tell(change, $1) } }
    }

    /// Passes events to the metrics and the monitors, whose handlers run later.
    mutating func report(_ tell: (inout EventSequencer, EventSequencer.Emit) -> Void) {
        switch monitors.count {
        case 0: tell(&sequencer) { metrics.add($0, at: $1) }
        case 1:
            monitors[0].gather { intake in
                tell(&sequencer) { kind, moment in
                    metrics.add(kind, at: moment)
                    intake.append(source.event(kind, at: moment))
                }
            }
        default:
            var events: [OperationEvent] = []
            tell(&sequencer) { kind, moment in
                metrics.add(kind, at: moment)
                events.append(source.event(kind, at: moment))
            }
            guard !events.isEmpty else { return }
            for monitor in monitors {
                monitor.gather { intake in for event in events { intake.append(event) } }
            }
        }
    }

    /// Returns the final metrics of a finished operation.
    ///
    /// Some changes may not have been recorded yet, for example if the caller is ahead of the thread that made the last
    /// change. The metrics do not wait for these changes, and are not updated afterwards.
    ///
    /// - Parameters:
    ///   - changes: The changes that have not been reported yet, in order.
    ///   - reports: The reports that follow the changes, keyed by the number of the change.
    mutating func finalMetrics(
        after changes: [OperationLog.RecordedChange], _ reports: [UInt32: [OperationLog.PendingReport]]
    ) -> OperationMetrics {
        if !metrics.isOver {
            var copy = sequencer
            for change in changes {
                copy.tell(change) { metrics.add($0, at: $1) }
                for report in reports[change.number] ?? [] {
                    copy.tell(report.report, at: report.moment) { metrics.add($0, at: $1) }
                }
            }
            metrics.add(.finished(.succeeded), at: StartMoment.timeNow)
        }
        return metrics.metrics
    }
}
