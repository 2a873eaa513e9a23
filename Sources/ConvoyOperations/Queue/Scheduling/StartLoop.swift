import Foundation

/// Starts operations on the current thread without recursion.
///
/// An operation that starts inline and finishes at once makes others ready, which start inline and finish at once, and
/// so on. A long chain of such nested calls would overflow the stack. So only the outermost call starts operations;
/// nested calls leave their scheduler here for it.
enum StartLoop {
    /// Whether the current thread is inside `run`.
    static var isActive: Bool { pthread_getspecific(key) != nil }

    /// Starts what a scheduler has to start, and what nested calls leave.
    ///
    /// - Precondition: the thread is not inside `run`.
    static func run(_ scheduler: Scheduler, _ turn: QueueState.Turn) {
        var pending: [Scheduler] = []
        withUnsafeMutablePointer(to: &pending) { pending in
            pthread_setspecific(key, pending)
            scheduler.perform(turn)
            if turn.hasMore { while scheduler.startNext() {} }
            while let next = pending.pointee.popLast() {
                while next.startNext() {}
            }
            pthread_setspecific(key, nil)
        }
    }

    /// Leaves a scheduler to the outermost call on this thread.
    static func postpone(_ scheduler: Scheduler) {
        guard let pointer = pthread_getspecific(key) else { return }
        let pending = pointer.assumingMemoryBound(to: [Scheduler].self)
        if !pending.pointee.contains(where: { $0 === scheduler }) { pending.pointee.append(scheduler) }
    }

    /// Holds the pointer to the schedulers that nested calls have left.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()
}
