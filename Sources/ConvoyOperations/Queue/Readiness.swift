import ConvoySupport
import Foundation
import Synchronization

/// A record of whether an operation's `isReady` was evaluated, and whether a queue may have missed its last change.
///
/// The record serves two purposes. First, Foundation does not report which operations are in its queues. But it
/// evaluates `isReady` of an operation while adding it, before the operation is in the queue. So an operation whose
/// `isReady` was never evaluated is not in a Foundation queue.
///
/// Second, Foundation loses changes: it evaluates `isReady` and stores the answer in two steps. A change posted between
/// them is overwritten by the old answer, and the operation waits forever. But a queue that considers an operation not
/// ready evaluates `isReady` again sooner or later; the change is then posted again.
struct ReadinessTracking: ~Copyable, Sendable {
    private let wereMadeFlag = Atomic<Bool>(false)
    /// Whether a queue may still consider the operation not ready.
    private let wasRefused = Atomic<Bool>(false)

    /// Whether `isReady` was ever evaluated.
    var wereMade: Bool { wereMadeFlag.load(ordering: .sequentiallyConsistent) }

    /// Records that `isReady` is being evaluated. Must be called before the answer is determined.
    borrowing func begin() {
        guard !wereMadeFlag.load(ordering: .acquiring) else { return }
        wereMadeFlag.store(true, ordering: .sequentiallyConsistent)
        // Either a thread that changes the answer finds this flag set, or the answer is determined after the change:
        // see `post`.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
    }

    /// Records the answer, and returns whether the change must be posted again, later and on another thread.
    borrowing func end(_ isReady: Bool, of operation: Operation) -> Bool {
        guard isReady else {
            wasRefused.store(true, ordering: .sequentiallyConsistent)
            return false
        }
        guard wasRefused.load(ordering: .sequentiallyConsistent), !Self.isPosting(operation) else { return false }
        return wasRefused.exchange(false, ordering: .sequentiallyConsistent)
    }

    /// Makes Foundation evaluate `isReady` after a change.
    ///
    /// If `isReady` was never evaluated, no queue has to be notified, and posting would itself evaluate it.
    borrowing func post(_ operation: Operation) {
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        guard wereMade else { return }
        var posted = operation
        Self.posted.provide(&posted) { _ in operation.didChangeValue(forKey: "isReady") }
    }

    /// Returns whether this thread is posting a change to the operation, which makes Foundation evaluate `isReady`.
    private static func isPosting(_ operation: Operation) -> Bool {
        posted.current?.pointee === operation
    }

    /// The operation whose change this thread is posting.
    private static let posted = ThreadPointer<Operation>()
}

/// The properties of an operation that a queue needs before starting it. The snapshot is created while no lock is held,
/// because reading the properties calls the operation's code.
struct ReadinessSnapshot {
    let isReady: Bool
    /// Whether the operation only has to finish.
    private(set) var isCancelled = false
    private(set) var isDirect = false
    private(set) var waitsAtGate = false
    private(set) var level: Int8 = 2
    private(set) var host: String?

    init(of operation: ScheduledOperation, inSerialQueue isSerial: Bool) {
        isReady = operation.isReady
        guard isReady else { return }
        isCancelled = operation.endsWithoutWork
        level = Int8(PriorityLevel.level(of: operation, inSerialQueue: isSerial))
        // A cancelled operation that is not asynchronous finishes without doing its work, and therefore needs no
        // other thread.
        isDirect = operation.isStartedDirectly || isCancelled && !operation.isAsynchronous
        // A cancelled operation only has to finish, and uses no host.
        guard !isCancelled else { return }
        (host, waitsAtGate) = operation.hostAndGate
    }
}
