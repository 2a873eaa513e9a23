import ConvoySupport
import Foundation

/// The bounded length of a queue.
extension RequestOperationQueue {
    /// The action taken when an operation is added to a full queue.
    public enum OverflowPolicy: Sendable {
        /// The new operation is not added.
        case refuse
        /// The caller waits until the queue has room. Callers are served in the order in which they arrived.
        case wait
        /// The oldest operation that has not been started is cancelled, and the new one is added.
        case dropOldest
    }

    /// The maximum number of operations waiting to be started; nil, the default, for no limit.
    ///
    /// Operations that are running, paused after a start, or cancelled do not count. Lowering the limit below the
    /// current number removes no operations.
    ///
    /// - Precondition: At least 1.
    public final var maximumLength: Int? {
        get { state.withLock { $0.capacity.maximum } }
        set {
            precondition(newValue.map { $0 >= 1 } ?? true, "The maximum length must be at least 1.")
            scheduler.change { $0.capacity.maximum = newValue }
        }
    }

    /// The action taken when ``maximumLength`` is reached. ``OverflowPolicy/refuse`` by default.
    public final var overflowPolicy: OverflowPolicy {
        get { state.withLock { $0.capacity.policy } }
        set { state.withLock { $0.capacity.policy = newValue } }
    }

    /// Adds an operation, like `addOperation(_:)`, but throws if it is refused.
    ///
    /// Blocks the calling thread under ``OverflowPolicy/wait``.
    ///
    /// - Throws: ``RequestOperationQueueError/refused(maximumLength:)``. The operation is left unchanged.
    @available(*, noasync, message: "Use the asynchronous enqueue(_:), which does not block a thread.")
    public final func enqueue(_ operation: Operation) throws(RequestOperationQueueError) {
        guard !operation.isFinished else { return }
        let flags = try admit(operation)
        if flags == nil {
            let semaphore = DispatchSemaphore(value: 0)
            let waiter = CapacityWaiter()
            waiter.admission.whenSet { _ in semaphore.signal() }
            waitForRoom(waiter)
            semaphore.wait()
        }
        scheduler.insert(operation, flags: flags ?? .counted, into: self)
    }

    /// Adds an operation. If the queue is full and its policy is ``OverflowPolicy/wait``, this method waits for room
    /// without blocking a thread.
    ///
    /// - Throws: ``RequestOperationQueueError/refused(maximumLength:)``, or `CancellationError` if the task is
    ///   cancelled while it waits. The operation is then left unchanged.
    public final func enqueue(_ operation: Operation) async throws {
        guard !operation.isFinished else { return }
        if let flags = try admit(operation) { return scheduler.insert(operation, flags: flags, into: self) }
        let waiter = CapacityWaiter()
        let isAdmitted = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                waiter.admission.whenSet { continuation.resume(returning: $0) }
                waitForRoom(waiter)
            }
        } onCancel: {
            waiter.admission.set(false)
            state.withLock { $0.capacity.giveUp(waiter) }
        }
        guard isAdmitted else { throw CancellationError() }
        scheduler.insert(operation, flags: .counted, into: self)
    }

    /// Admits an operation under the policy. Returns nil if the caller must wait for room.
    private func admit(_ operation: Operation) throws(RequestOperationQueueError) -> QueueSlot.Flags? {
        // A cancelled operation only has to finish, and does not count.
        guard !operation.isCancelled else { return .exempt }
        var dropped: ScheduledOperation?
        var policy = OverflowPolicy.refuse
        var maximum = Int.max
        let isAdmitted = state.withLock { state in
            policy = state.capacity.policy
            maximum = state.capacity.maximum ?? .max
            if state.capacity.isFull {
                guard policy == .dropOldest else { return false }
                dropped = state.dropOldest()
            }
            state.capacity.admit()
            return true
        }
        if let dropped {
            dropped.cancel(because: RequestOperationQueueError.dropped(maximumLength: maximum))
            // It was removed from the lanes, so it continues as if it had just become ready.
            dropped.readinessDidChange()
        }
        if isAdmitted { return .counted }
        if policy == .wait { return nil }
        throw .refused(maximumLength: maximum)
    }

    private func waitForRoom(_ waiter: CapacityWaiter) {
        // The task may have been cancelled already.
        scheduler.change { if !waiter.admission.isSet { $0.capacity.wait(waiter) } }
    }
}

/// A caller that waits for room in a full queue.
final class CapacityWaiter: Sendable {
    /// Whether the caller may add its operation. False if it has given up.
    let admission = Once<Bool>()
    /// The position among the waiting callers. Only the queue accesses it, under its lock.
    nonisolated(unsafe) fileprivate var ticket: UInt64?
}

/// The bounded length of a queue: the number of operations waiting to be started, the maximum, and the callers that
/// wait for room.
struct QueueCapacity {
    var maximum: Int?
    var policy = RequestOperationQueue.OverflowPolicy.refuse
    /// The number of operations waiting to be started, including those that are being added.
    private(set) var length = 0
    /// The operations waiting to be started, oldest first.
    private var counted = IndexLinkedLists.List()
    private var links = IndexLinkedLists()
    /// The waiting callers by ticket, served in ascending order. A caller that has given up is missing.
    private var waiters: [UInt64: CapacityWaiter] = [:]
    private var firstTicket: UInt64 = 0
    private var nextTicket: UInt64 = 0

    var hasWaiters: Bool { !waiters.isEmpty }
    var isFull: Bool { maximum.map { length >= $0 } ?? false }
    /// The slot of the operation that has waited longest.
    var oldest: Int32? { counted.isEmpty ? nil : counted.head }

    /// Makes room for one more slot.
    mutating func grow() { links.grow() }

    /// Frees the memory of the slots. The queue must be empty.
    mutating func releaseTables() { links.removeAll() }

    /// Counts an operation that is about to be added.
    mutating func admit() { length += 1 }

    /// Records that an admitted operation was not added.
    mutating func retract() { length -= 1 }

    /// Lists an admitted operation that has been added.
    mutating func list(_ slot: Int32) { links.append(slot, to: &counted) }

    mutating func remove(_ slot: Int32) {
        length -= 1
        links.remove(slot, from: &counted)
    }

    // MARK: Waiting callers

    mutating func wait(_ waiter: CapacityWaiter) {
        waiter.ticket = nextTicket
        waiters[nextTicket] = waiter
        nextTicket += 1
    }

    mutating func giveUp(_ waiter: CapacityWaiter) {
        if let ticket = waiter.ticket { waiters[ticket] = nil }
    }

    /// Admits the waiters that have waited longest, as long as there is room. The caller sets their values outside the
    /// lock, and retracts those that have given up.
    mutating func admitWaiters() -> [CapacityWaiter] {
        guard hasWaiters else { return [] }
        var admitted: [CapacityWaiter] = []
        while hasWaiters, !isFull {
            if let waiter = waiters.removeValue(forKey: firstTicket) {
                admitted.append(waiter)
                length += 1
            }
            firstTicket += 1
        }
        return admitted
    }
}
