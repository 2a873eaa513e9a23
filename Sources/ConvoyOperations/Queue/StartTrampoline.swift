import Foundation

/// A trampoline that starts operations on the current thread without recursion.
///
/// An operation that starts inline and finishes immediately makes others ready, which start inline and finish
/// immediately, and so on. A long chain of such nested calls would overflow the stack. So only the outermost call
/// starts operations; nested calls leave their scheduler to it.
enum StartTrampoline {
    /// Whether the current thread is inside `run`.
    static var isActive: Bool { pthread_getspecific(key) != nil }

    /// Starts the operations that a scheduler can start, including those left by nested calls.
    ///
    /// - Precondition: The thread is not inside `run`.
    static func run(_ scheduler: Scheduler, _ effects: QueueState.Effects) {
        var pending: [Scheduler] = []
        withUnsafeMutablePointer(to: &pending) { pending in
            pthread_setspecific(key, pending)
            scheduler.perform(effects)
            if effects.hasMore { while scheduler.startNext() {} }
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

    /// The key of the pointer to the schedulers left by nested calls.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()
}
