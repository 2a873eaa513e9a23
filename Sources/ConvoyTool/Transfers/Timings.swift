import Convoy
import Synchronization

/// The times of the requests of a transfer: one for each redirect, part and try.
final class Timings: Sendable {
    private let times = Mutex<[TransferTiming]>([])

    var all: [TransferTiming] { times.withLock { $0 } }

    func add(_ timing: TransferTiming) { times.withLock { $0.append(timing) } }
}
