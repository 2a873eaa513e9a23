import ConvoySupport
import Foundation

/// The bounded length.
extension RequestOperationQueue {
    /// What happens when an operation is added to a queue that is full.
    public enum OverflowPolicy: Sendable {
        /// The new operation is not added.
        case refuse
        /// The caller waits until there is a place, first come, first served.
        case wait
        /// The oldest operation that has not been started is cancelled, and the new one is added.
        case dropOldest
    }

    /// How many operations may wait to be started; nil, the default, for any number.
    ///
    /// Operations that run, are paused after a start or are cancelled do not count. Lowering the limit below the
    /// current number removes none.
    ///
    /// - Precondition: at least 1.
    public final var maximumLength: Int? {
        get { state.withLock { $0.length.maximum } }
        set {
            precondition(newValue.map { $0 >= 1 } ?? true, "a queue needs at least one place")
            scheduler.change { state in
                state.bound(to: newValue)
                isBounded.store(newValue != nil, ordering: .releasing)
            }
        }
    }

    /// What happens when ``maximumLength`` is reached. ``OverflowPolicy/refuse`` by default.
    public final var overflowPolicy: OverflowPolicy {
        get { overflow.withLock { $0 } }
        set { overflow.withLock { $0 = newValue } }
    }

    /// Adds an operation, like `addOperation(_:)`, but throws if it is refused.
    ///
    /// Blocks the calling thread under ``OverflowPolicy/wait``.
    ///
    /// - Throws: ``RequestOperationQueueError/refused(maximumLength:)``. The operation is left unchanged.
    @available(*, noasync, message: "use the asynchronous enqueue(_:), which blocks no thread")
    public final func enqueue(_ operation: Operation) throws(RequestOperationQueueError) {
        guard !operation.isFinished else { return }
        switch admit(operation) {
        case .admitted(let flags): scheduler.insert(operation, flags: flags, into: self)
        case .refused(let error): throw error
        }
    }

    /// Adds an operation, and waits for a place without blocking a thread if the queue is full and its
    /// policy is ``OverflowPolicy/wait``.
    ///
    /// - Throws: ``RequestOperationQueueError/refused(maximumLength:)``, or `CancellationError` if the
    ///   task is cancelled while it waits. The operation is then left unchanged.
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

    /// Gets a place for one operation under the policy. May block.
    func admit(_ operation: Operation) -> Admission {
        switch tryAdmit(operation) {
        case .admitted(let flags): return .admitted(flags)
        case .refused(let error): return .refused(error)
        case .full: break
        }
        let semaphore = DispatchSemaphore(value: 0)
        let waiter = LengthWaiter { _ in semaphore.signal() }
        queueUp(waiter)
        semaphore.wait()
        return .admitted([.counted, .reserved])
    }

    private func tryAdmit(_ operation: Operation) -> Attempt {
        // A cancelled operation only has to finish, and needs no place.
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

    private func queueUp(_ waiter: LengthWaiter) {
        scheduler.change { $0.length.wait(waiter) }
    }

    private func waitForPlace() async -> Bool {
        let place = AsyncPlace()
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let waiter = LengthWaiter { continuation.resume(returning: $0) }
                queueUp(waiter)
                // Cancelled before there was a waiter to cancel.
                if !place.keep(waiter) { giveUp(waiter) }
            }
        } onCancel: {
            if let waiter = place.cancel() { giveUp(waiter) }
        }
    }

    private func giveUp(_ waiter: LengthWaiter) {
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

    /// Cancels a dropped operation. It was removed from the lanes, so it continues as if it had just become ready.
    private func cancel(dropped occupant: QueueSlot.Occupant, because error: RequestOperationQueueError) {
        switch occupant {
        case .nobody: break
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
