import Convoy
import ConvoyOperations
import Foundation
import Synchronization

/// The time from the beginning of an operation's work to its end, with its retries. Measured as it happens, since handlers
/// may be called late.
final class TransferClock: OperationSupervisor {
    private struct Times {
        var begun: ContinuousClock.Instant?
        var ended: ContinuousClock.Instant?
    }

    private let times = Mutex(Times())

    /// In seconds; 0 if the work has not begun.
    var seconds: Double {
        times.withLock { times in times.begun.map { ((times.ended ?? .now) - $0).seconds } ?? 0 }
    }

    func operation(
        _ operation: URLConnectionOperation, changes transition: AtomicLifecycle.Transition,
        proceed: @escaping @Sendable () -> Void
    ) {
        times.withLock { times in
            switch transition.action {
            case .begin where times.begun == nil: times.begun = .now
            case .finish: times.ended = .now
            default: break
            }
        }
        proceed()
    }
}
