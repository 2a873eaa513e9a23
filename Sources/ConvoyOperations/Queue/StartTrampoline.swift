import ConvoySupport
import Foundation

/// A trampoline that starts operations on the current thread without recursion.
///
/// An operation that starts inline and finishes immediately makes others ready, which start inline and finish
/// immediately, and so on. A long chain of such nested calls would overflow the stack. So only the outermost call
/// starts operations; nested calls leave their scheduler to it.
enum StartTrampoline {
    /// The schedulers left by nested calls to the outermost call on this thread.
    private static let pending = ThreadPointer<[Scheduler]>()

    /// Whether the current thread is inside `run`.
    static var isActive: Bool { pending.current != nil }

    /// Starts the operations that a scheduler can start, including those left by nested calls.
    ///
    /// - Precondition: The thread is not inside `run`.
    static func run(_ scheduler: Scheduler, _ effects: QueueState.Effects) {
        var schedulers: [Scheduler] = []
        pending.provide(&schedulers) { schedulers in
            scheduler.perform(effects)
            if effects.hasMore { while scheduler.startNext() {} }
            while let next = schedulers.pointee.popLast() {
                while next.startNext() {}
            }
        }
    }

    /// Leaves a scheduler to the outermost call on this thread.
    static func postpone(_ scheduler: Scheduler) {
        guard let schedulers = pending.current, !schedulers.pointee.contains(where: { $0 === scheduler }) else { return }
        schedulers.pointee.append(scheduler)
    }
}
