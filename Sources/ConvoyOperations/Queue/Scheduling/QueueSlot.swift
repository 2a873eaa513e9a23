import Foundation

/// One operation in a queue, and where it stands.
struct QueueSlot {
    enum Phase: UInt8 {
        /// No operation.
        case free
        /// Not ready: dependencies, a pause, or a condition of its own.
        case waiting
        /// Ready, but added behind a barrier.
        case held
        /// In the lanes: lacks only a slot.
        case ready
        /// Takes no part in limits and suspension: it was cancelled, refused or dropped, and only has to finish.
        case exempt
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
        /// Uses a place that was reserved for it. Of no meaning after the adding.
        static let reserved = Flags(rawValue: 32)
    }

    var operation: Operation?
    /// Set if the operation is none of Convoy's.
    var foreign: ForeignMember?
    /// The worker that is inside `start()`.
    var worker: QueueWorker?
    var phase = Phase.free
    var flags: Flags = []
    /// Which stretch between two barriers it belongs to.
    var epoch = 0

    /// The operation, if it is one of Convoy's.
    var scheduled: ScheduledOperation? {
        // Checked when it was added; a dynamic cast each time would be a good part of the whole cost.
        foreign == nil ? operation.map { unsafeDowncast($0, to: ScheduledOperation.self) } : nil
    }
}

/// What a queue has to know of an operation before it may start; asked while no lock is held.
struct Examination {
    var isReady: Bool
    var isCancelled: Bool
    var isDirect: Bool
    var host: HostKey?
    var waitsAtGate: Bool
    var level: Int

    init(of operation: Operation, inSerialQueue isSerial: Bool) {
        self.init(ofReady: operation, inSerialQueue: isSerial, isReady: operation.isReady)
    }

    /// - Parameter isReady: given if the operation is known to be ready, whatever it says now.
    init(ofReady operation: Operation, inSerialQueue isSerial: Bool, isReady: Bool = true) {
        self.isReady = isReady
        isCancelled = false
        isDirect = false
        host = nil
        waitsAtGate = false
        level = 2
        guard isReady else { return }
        isCancelled = (operation as? ScheduledOperation)?.endsWithoutWork ?? operation.isCancelled
        level = PriorityLevel.level(of: operation, inSerialQueue: isSerial)
        guard let scheduled = operation as? ScheduledOperation else { return }
        // One that is cancelled and not asynchronous finishes without running its work: it needs no worker for that.
        isDirect = scheduled.isStartedDirectly || isCancelled && !scheduled.isAsynchronous
        // A cancelled operation only has to finish; no host is asked anything.
        guard !isCancelled else { return }
        host = scheduled.hostKey
        waitsAtGate = host != nil && scheduled.waitsAtClosedGate
    }
}
