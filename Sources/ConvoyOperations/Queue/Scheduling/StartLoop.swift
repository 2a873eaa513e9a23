import Foundation

/// The schedulers that have something to start on the current thread.
///
/// An operation that starts in line and finishes at once makes others ready, which start in line and
/// finish at once… With calls inside calls a long chain would end the stack. So only the outermost
/// call starts operations; the calls inside it leave their scheduler here, and the outermost goes on.
enum StartLoop {
    /// Whether the current thread is inside a call that starts operations.
    static var isActive: Bool { pthread_getspecific(key) != nil }

    /// Starts what a scheduler has to start, and what the calls inside leave.
    ///
    /// - Precondition: the thread is not inside such a call.
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

    /// Holds the pointer to what the calls inside have left.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()
}
