import Convoy
import Synchronization

/// The metrics of the requests of a transfer: one for each redirect, part and try.
final class Timings: Sendable {
    private let times = Mutex<[TransactionMetrics]>([])

    var all: [TransactionMetrics] { times.withLock { $0 } }

    func add(_ metrics: TransactionMetrics) { times.withLock { $0.append(metrics) } }
}
