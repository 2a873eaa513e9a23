import ConvoySupport

/// A caller that waits for a place in a full queue.
final class LengthWaiter: Sendable {
    private let resumption: Locked<(@Sendable (Bool) -> Void)?>
    /// The place in the queue's line of waiters, or -1. Read and written by the queue only, under its lock.
    nonisolated(unsafe) var place: Int32 = -1

    init(_ resumption: @escaping @Sendable (_ isAdmitted: Bool) -> Void) {
        self.resumption = Locked(resumption)
    }

    /// Resumes the waiter. Only the first call counts.
    func resume(admitted: Bool) {
        let resumption = self.resumption.withLock { held in
            let resumption = held
            held = nil
            return resumption
        }
        resumption?(admitted)
    }
}
