import Foundation
import Synchronization

/// Who has evaluated an operation's `isReady`, and whether they know of its last change.
///
/// It serves two purposes. Foundation tells nobody what is in its queues; but it evaluates `isReady` of an operation
/// while it adds it, before the operation is in the queue. So an operation whose `isReady` nobody has ever evaluated
/// is in no queue of Foundation's.
///
/// And Foundation loses changes: it evaluates `isReady` and stores the answer in two steps. A change that is posted
/// between them is overwritten by the answer from before, and the operation waits for ever. But a queue that believes
/// an operation not to be ready evaluates `isReady` again, sooner or later: then it is told once more.
struct ReadinessInquiries: ~Copyable, Sendable {
    private let wereMadeFlag = Atomic<Bool>(false)
    /// Whether somebody may still believe that the operation is not ready.
    private let wasRefused = Atomic<Bool>(false)

    /// Whether anybody has ever evaluated `isReady`.
    var wereMade: Bool { wereMadeFlag.load(ordering: .sequentiallyConsistent) }

    /// Somebody evaluates `isReady`: to be called before the answer is found.
    borrowing func begin() {
        guard !wereMadeFlag.load(ordering: .acquiring) else { return }
        wereMadeFlag.store(true, ordering: .sequentiallyConsistent)
        // Who changes what the answer depends on sees the note, or the answer is found after the change: see `post`.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
    }

    /// Takes the answer, and says whether the change must be posted again, later and on another thread.
    borrowing func end(_ isReady: Bool, of operation: Operation) -> Bool {
        guard isReady else {
            wasRefused.store(true, ordering: .sequentiallyConsistent)
            return false
        }
        guard wasRefused.load(ordering: .sequentiallyConsistent), !Self.isPosting(operation) else { return false }
        return wasRefused.exchange(false, ordering: .sequentiallyConsistent)
    }

    /// Lets Foundation evaluate `isReady` after a change.
    ///
    /// Where nobody has evaluated it yet, there is nobody to tell; and the telling would itself evaluate it.
    borrowing func post(_ operation: Operation) {
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        guard wereMade else { return }
        let outer = pthread_getspecific(Self.posted)
        pthread_setspecific(Self.posted, Unmanaged.passUnretained(operation).toOpaque())
        operation.didChangeValue(forKey: "isReady")
        pthread_setspecific(Self.posted, outer)
    }

    /// Whether this thread posts a change of the operation, which makes Foundation evaluate `isReady`.
    private static func isPosting(_ operation: Operation) -> Bool {
        pthread_getspecific(posted) == Unmanaged.passUnretained(operation).toOpaque()
    }

    /// The operation of which this thread posts a change.
    private static let posted: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()
}
