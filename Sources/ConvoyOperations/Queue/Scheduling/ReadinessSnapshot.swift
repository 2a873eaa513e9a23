import Foundation

/// What a queue has to know of an operation before it may start. Taken while no lock is held, as it is the operation
/// that is asked.
struct ReadinessSnapshot {
    let isReady: Bool
    /// Whether all that it has to do is to finish.
    private(set) var isCancelled = false
    private(set) var isDirect = false
    private(set) var waitsAtGate = false
    private(set) var level: Int8 = 2
    private(set) var host: HostKey?

    init(of operation: ScheduledOperation, inSerialQueue isSerial: Bool) {
        isReady = operation.isReady
        guard isReady else { return }
        isCancelled = operation.endsWithoutWork
        level = Int8(PriorityLevel.level(of: operation, inSerialQueue: isSerial))
        // One that is cancelled and not asynchronous finishes without running its work: it needs no worker for that.
        isDirect = operation.isStartedDirectly || isCancelled && !operation.isAsynchronous
        // A cancelled operation only has to finish; no host is asked anything.
        guard !isCancelled else { return }
        host = operation.hostKey
        waitsAtGate = host != nil && operation.waitsAtClosedGate
    }

    /// Of an operation that is none of Convoy's.
    init(ofForeign operation: Operation, inSerialQueue isSerial: Bool) {
        self.init(ofForeign: operation, inSerialQueue: isSerial, isReady: operation.isReady)
    }

    /// Of one that is known to be ready, whatever it says now.
    init(ofReadyForeign operation: Operation, inSerialQueue isSerial: Bool) {
        self.init(ofForeign: operation, inSerialQueue: isSerial, isReady: true)
    }

    private init(ofForeign operation: Operation, inSerialQueue isSerial: Bool, isReady: Bool) {
        self.isReady = isReady
        guard isReady else { return }
        isCancelled = operation.isCancelled
        level = Int8(PriorityLevel.level(of: operation, inSerialQueue: isSerial))
    }
}
