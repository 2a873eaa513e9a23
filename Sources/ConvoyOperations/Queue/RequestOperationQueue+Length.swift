import ConvoySupport
import Foundation
import Synchronization

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
        get { state.withLock { $0.length.maximum } }
        set {
            precondition(newValue.map { $0 >= 1 } ?? true, "The maximum length must be at least 1.")
            scheduler.change { state in
                state.bound(to: newValue)
                isBounded.store(newValue != nil, ordering: .releasing)
            }
        }
    }

    /// The action taken when ``maximumLength`` is reached. ``OverflowPolicy/refuse`` by default.
    public final var overflowPolicy: OverflowPolicy {
        get { overflow.withLock { $0 } }
        set { overflow.withLock { $0 = newValue } }
    }

    /// Adds an operation, like `addOperation(_:)`, but throws if it is refused.
    ///
    /// Blocks the calling thread under ``OverflowPolicy/wait``.
    ///
    /// - Throws: ``RequestOperationQueueError/refused(maximumLength:)``. The operation is left unchanged.
    @available(*, noasync, message: "Use the asynchronous enqueue(_:), which does not block a thread.")
    public final func enqueue(_ operation: Operation) throws(RequestOperationQueueError) {
        guard !operation.isFinished else { return }
        switch admit(operation) {
        case .admitted(let flags): scheduler.insert(operation, flags: flags, into: self)
        case .refused(let error): throw error
        }
    }

    /// Adds an operation. If the queue is full and its policy is ``OverflowPolicy/wait``, this method waits for room
    /// without blocking a thread.
    ///
    /// - Throws: ``RequestOperationQueueError/refused(maximumLength:)``, or `CancellationError` if the task is
    ///   cancelled while it waits. The operation is then left unchanged.
    public final func enqueue(_ operation: Operation) async throws {
        guard !operation.isFinished else { return }
        switch tryAdmit(operation) {
        case .admitted(let flags): scheduler.insert(operation, flags: flags, into: self)
        case .refused(let error): throw error
        case .full:
            guard await waitForPlace() else { throw CancellationError() }
            scheduler.insert(operation, flags: [.counted, .reserved], into: self)
        }
    }

    // MARK: Admission

    enum Admission {
        case admitted(QueueSlot.Flags)
        case refused(RequestOperationQueueError)
    }

    private enum Attempt {
        case admitted(QueueSlot.Flags)
        case refused(RequestOperationQueueError)
        case full
    }

    /// Admits one operation under the policy. May block.
    func admit(_ operation: Operation) -> Admission {
        switch tryAdmit(operation) {
        case .admitted(let flags): return .admitted(flags)
        case .refused(let error): return .refused(error)
        case .full: break
        }
        let semaphore = DispatchSemaphore(value: 0)
        let waiter = CapacityWaiter { _ in semaphore.signal() }
        queueUp(waiter)
        semaphore.wait()
        return .admitted([.counted, .reserved])
    }

    private func tryAdmit(_ operation: Operation) -> Attempt {
        // A cancelled operation only has to finish, and does not count.
        guard !operation.isCancelled else { return .admitted(.exempt) }
        guard isBounded.load(ordering: .acquiring) else { return .admitted(.counted) }
        enum Outcome {
            case attempt(Attempt)
            case drop(QueueSlot.Occupant?, maximum: Int)
        }
        let policy = overflowPolicy
        let outcome: Outcome = state.withLock { state in
            guard let maximum = state.length.maximum else { return .attempt(.admitted(.counted)) }
            if !state.length.isFull {
                state.length.reserve()
                return .attempt(.admitted([.counted, .reserved]))
            }
            switch policy {
            case .refuse: return .attempt(.refused(.refused(maximumLength: maximum)))
            case .wait: return .attempt(.full)
            case .dropOldest:
                let dropped = state.dropOldest()
                state.length.reserve()
                return .drop(dropped, maximum: maximum)
            }
        }
        switch outcome {
        case .attempt(let attempt): return attempt
        case .drop(let occupant, let maximum):
            if let occupant { cancel(dropped: occupant, because: .dropped(maximumLength: maximum)) }
            return .admitted([.counted, .reserved])
        }
    }

    private func queueUp(_ waiter: CapacityWaiter) {
        scheduler.change { $0.length.wait(waiter) }
    }

    private func waitForPlace() async -> Bool {
        let place = CancellableWait()
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let waiter = CapacityWaiter { continuation.resume(returning: $0) }
                queueUp(waiter)
                // The task was cancelled before the waiter was stored.
                if !place.keep(waiter) { giveUp(waiter) }
            }
        } onCancel: {
            if let waiter = place.cancel() { giveUp(waiter) }
        }
    }

    private func giveUp(_ waiter: CapacityWaiter) {
        guard state.withLock({ $0.length.giveUp(waiter) }) else { return }
        waiter.resume(admitted: false)
    }

    // MARK: Refused and dropped operations

    /// Adds a refused operation outside the limits, so that it finishes as cancelled.
    func insertCancelled(_ operation: Operation, because error: RequestOperationQueueError) {
        cancel(operation, because: error)
        guard !operation.isFinished else { return }
        scheduler.insert(operation, flags: .exempt, into: self)
    }

    /// Cancels a dropped operation. The operation was removed from the lanes, so it continues as if it had just become
    /// ready.
    private func cancel(dropped occupant: QueueSlot.Occupant, because error: RequestOperationQueueError) {
        switch occupant {
        case .none: break
        case .scheduled(let operation):
            operation.cancel(because: error)
            scheduler.readinessDidChange(of: operation)
        case .foreign(let member):
            member.operation.cancel()
            member.repeatReadiness()
        }
    }

    private func cancel(_ operation: Operation, because error: RequestOperationQueueError) {
        if let scheduled = operation as? ScheduledOperation {
            scheduled.cancel(because: error)
        } else {
            operation.cancel()
        }
    }
}

/// The bounded length of a queue: the number of operations waiting to be started, the maximum, and the callers that
/// wait for room.
struct QueueCapacity {
    private(set) var maximum: Int?
    private(set) var length = 0
    /// The operations waiting to be started, oldest first. The list is maintained only while a maximum is set.
    private var counted = IndexLinkedLists.List()
    private var links = IndexLinkedLists()
    /// The number of places that are reserved but not used yet.
    private var reserved = 0
    /// The waiting callers. A linked list keeps their order of arrival, because any of them may leave at any time.
    private var waiters: ContiguousArray<CapacityWaiter?> = []
    private var freePlaces: ContiguousArray<Int32> = []
    private var waiterLinks = IndexLinkedLists()
    private var line = IndexLinkedLists.List()

    var hasWaiters: Bool { !line.isEmpty }
    var isFull: Bool { maximum.map { length + reserved >= $0 } ?? false }
    /// The slot of the operation that has waited longest.
    var oldest: Int32? { counted.isEmpty ? nil : counted.head }

    /// Sets the maximum.
    ///
    /// - Parameter slots: The operations waiting to be started, oldest first; needed only if the maximum was nil.
    mutating func bound(to maximum: Int?, slots: [Int32]) {
        let wasListed = self.maximum != nil
        self.maximum = maximum
        if maximum == nil {
            counted = IndexLinkedLists.List()
            links.removeAll()
        } else if !wasListed {
            for slot in slots { list(slot) }
        }
    }

    mutating func join(_ slot: Int32) {
        length += 1
        if maximum != nil { list(slot) }
    }

    mutating func leave(_ slot: Int32) {
        length -= 1
        if maximum != nil { links.remove(slot, from: &counted) }
    }

    private mutating func list(_ slot: Int32) {
        links.grow(to: Int(slot) + 1)
        links.append(slot, to: &counted)
    }

    /// Frees the memory of the slots. The queue must be empty.
    mutating func releaseTables() { links.removeAll() }

    mutating func reserve() { reserved += 1 }
    mutating func useReservation() { reserved -= 1 }

    mutating func wait(_ waiter: CapacityWaiter) {
        if let place = freePlaces.popLast() {
            waiter.place = place
            waiters[Int(place)] = waiter
        } else {
            waiter.place = Int32(waiters.count)
            waiters.append(waiter)
            waiterLinks.grow()
        }
        waiterLinks.append(waiter.place, to: &line)
    }

    /// Removes a waiter. Returns false if it has already been admitted. Takes constant time, because all waiters may
    /// give up at once.
    mutating func giveUp(_ waiter: CapacityWaiter) -> Bool {
        guard waiter.place >= 0 else { return false }
        waiterLinks.remove(waiter.place, from: &line)
        free(waiter)
        return true
    }

    private mutating func free(_ waiter: CapacityWaiter) {
        waiters[Int(waiter.place)] = nil
        freePlaces.append(waiter.place)
        waiter.place = -1
        guard line.isEmpty else { return }
        (waiters, freePlaces) = ([], [])
        waiterLinks.removeAll()
    }

    /// Reserves free places for the waiters that have waited longest. The caller resumes them outside the lock.
    mutating func admit() -> [CapacityWaiter] {
        var admitted: [CapacityWaiter] = []
        while !line.isEmpty, !isFull, let waiter = waiters[Int(line.head)] {
            _ = giveUp(waiter)
            admitted.append(waiter)
            reserved += 1
        }
        return admitted
    }
}

/// A caller that waits for room in a full queue.
final class CapacityWaiter: Sendable {
    private let resumption: Locked<(@Sendable (Bool) -> Void)?>
    /// The index in the queue's list of waiters, or -1. Only the queue accesses the index, under its lock.
    nonisolated(unsafe) var place: Int32 = -1

    init(_ resumption: @escaping @Sendable (_ isAdmitted: Bool) -> Void) {
        self.resumption = Locked(resumption)
    }

    /// Resumes the waiter. Only the first call has an effect.
    func resume(admitted: Bool) {
        let resumption = self.resumption.withLock { held in
            let resumption = held
            held = nil
            return resumption
        }
        resumption?(admitted)
    }
}

/// The link between a task that waits for room and its cancellation, which may occur before, during or after the wait.
final class CancellableWait: Sendable {
    private struct Wait {
        var waiter: CapacityWaiter?
        var isCancelled = false
    }

    private let wait = Locked(Wait())

    /// Stores the waiter. Returns false if the task was already cancelled.
    func keep(_ waiter: CapacityWaiter) -> Bool {
        wait.withLock { wait in
            guard !wait.isCancelled else { return false }
            wait.waiter = waiter
            return true
        }
    }

    /// Records the cancellation. Returns the waiter to resume, if it has already been stored.
    func cancel() -> CapacityWaiter? {
        wait.withLock { wait in
            wait.isCancelled = true
            return wait.waiter
        }
    }
}
