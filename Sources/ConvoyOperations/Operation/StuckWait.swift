import ConvoySupport
import Foundation
import Synchronization

/// Warns on standard error, once, about a wait that nothing in the program seems to end, and says what would end it.
package final class StuckWait: Sendable {
    /// Handlers that wait for the main queue.
    package static let mainQueue = StuckWait(
        "Convoy: a handler has been waiting for the main queue for 5 seconds. If nothing runs that queue, set the "
            + "completionQueue of the manager or the operation, use async/await, or call dispatchMain().")
    /// A loop over the progress of an operation that nothing starts.
    static let unstarted = StuckWait(
        "Convoy: the progress of an operation has been awaited for 5 seconds, and the operation was neither enqueued nor "
            + "started. Enqueue it, or await its value.")

    private let text: String
    private let patience: TimeInterval
    private let warn: @Sendable (String) -> Void
    private let hasWarned = Atomic<Bool>(false)
    private let isProbed = Atomic<Bool>(false)

    /// - Parameters:
    ///   - text: the warning, in a line.
    ///   - patience: after how many seconds a wait counts as stuck.
    ///   - warn: prints the warning.
    init(
        _ text: String, patience: TimeInterval = 5,
        warn: @escaping @Sendable (String) -> Void = { FileHandle.standardError.write(Data("\($0)\n".utf8)) }
    ) {
        (self.text, self.patience, self.warn) = (text, patience, warn)
    }

    /// Asks after the patience whether something still waits. Any thread.
    func watch(_ isStuck: @escaping @Sendable () -> Bool) {
        guard !hasWarned.load(ordering: .relaxed) else { return }
        let clock = MonotonicClock()
        clock.schedule(at: Nanoseconds.deadline(patience, after: clock.now)) { [self] in
            guard isStuck(), !hasWarned.exchange(true, ordering: .relaxed) else { return }
            warn(text)
        }
    }

    /// Watches, with the first call, whether a queue runs what is submitted to it.
    func probe(_ queue: DispatchQueue) {
        guard !isProbed.load(ordering: .relaxed), !isProbed.exchange(true, ordering: .relaxed) else { return }
        let hasRun = Locked(false)
        queue.async { hasRun.withLock { $0 = true } }
        watch { !hasRun.withLock { $0 } }
    }
}

extension DispatchQueue {
    /// The main queue, for a handler that has no other queue and is submitted now.
    package static var mainForHandlers: DispatchQueue {
        let main = DispatchQueue.main
        StuckWait.mainQueue.probe(main)
        return main
    }
}
