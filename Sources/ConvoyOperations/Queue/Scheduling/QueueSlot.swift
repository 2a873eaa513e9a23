import Foundation

/// One operation in a queue, and its stage.
struct QueueSlot {
    enum Occupant {
        case nobody
        case scheduled(ScheduledOperation)
        /// An operation that is not one of Convoy's.
        case foreign(ForeignMember)

        /// Whether the operation has ended in the library's own `start()`, which has nothing left to do but to return.
        var returnsFromStart: Bool {
            guard case .scheduled(let operation) = self else { return false }
            return operation.worksInStart && operation.lifecycle.value.state == .finished
        }
    }

    enum Stage: UInt8 {
        /// No operation.
        case free
        /// Not ready because of dependencies, a pause, or a condition of its own.
        case waiting
        /// Ready, but added behind a barrier.
        case held
        /// In the lanes: it lacks only a slot.
        case ready
        /// Exempt from limits and suspension: it was cancelled, refused or dropped, and only has to finish.
        case exempt
        /// Ready, and needs no slot: it lacks only a queue that is not suspended.
        case slotless
        /// Has a slot, and waits for a worker.
        case granted
        /// Has a slot, and `start()` is about to be called or was called.
        case running
    }

    struct Flags: OptionSet {
        let rawValue: UInt8
        static let direct = Flags(rawValue: 1)
        static let exempt = Flags(rawValue: 2)
        static let barrier = Flags(rawValue: 4)
        /// Counts towards the bounded length.
        static let counted = Flags(rawValue: 8)
        /// Its host counts it as running.
        static let holdsHost = Flags(rawValue: 16)
        /// Uses a place that was reserved for it. Has no meaning once it was added.
        static let reserved = Flags(rawValue: 32)
        /// Uses no slot.
        static let slotless = Flags(rawValue: 64)
        /// Executes, with a slot of the queue, and waits for one of the host that it was redirected to.
        static let redirected = Flags(rawValue: 128)
    }

    var occupant = Occupant.nobody
    /// The epoch between two barriers to which it belongs.
    var epoch: UInt32 = 0
    var stage = Stage.free
    var flags: Flags = []
    /// The worker that is inside `start()`, if there is one.
    var worker: WorkerCrew.Number?

    var operation: Operation? {
        switch occupant {
        case .nobody: nil
        case .scheduled(let operation): operation
        case .foreign(let member): member.operation
        }
    }
}
