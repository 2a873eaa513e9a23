import Foundation

/// What a queue must know of an operation before starting it. Taken while no lock is held, as it calls the operation's
/// code.
struct ReadinessSnapshot {
    let isReady: Bool
    /// Whether it only has to finish.
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
        // A cancelled operation that is not asynchronous finishes without doing its work, and needs no worker for that.
        isDirect = operation.isStartedDirectly || isCancelled && !operation.isAsynchronous
        // A cancelled operation only has to finish, and uses no host.
        guard !isCancelled else { return }
        host = operation.hostKey
        waitsAtGate = host != nil && operation.waitsAtClosedGate
    }

    /// A snapshot of an operation that is not one of Convoy's.
    init(ofForeign operation: Operation, inSerialQueue isSerial: Bool) {
        self.init(ofForeign: operation, inSerialQueue: isSerial, isReady: operation.isReady)
    }

    /// A snapshot of a foreign operation that is known to be ready, whatever it says now.
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
