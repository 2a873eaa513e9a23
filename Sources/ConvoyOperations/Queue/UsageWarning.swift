import ConvoySupport
import Foundation
import Synchronization

/// A warning, printed once per process on standard error, about a mistake that would otherwise go unnoticed: a wait
/// that nothing in the program seems to end, or a setting that has no effect. The warning includes the remedy.
package final class UsageWarning: Sendable {
    /// The warning about handlers that wait for the main queue.
    package static let mainQueue = UsageWarning(
        "Convoy: a handler has been waiting for the main queue for 5 seconds. If nothing runs that queue, set the "
            + "completionQueue of the manager or the operation, use async/await, or call dispatchMain().")
    /// The warning about a loop over the progress of an operation that nothing starts.
    static let unstarted = UsageWarning(
        "Convoy: the progress of an operation has been awaited for 5 seconds, but the operation was neither enqueued nor "
            + "started. Enqueue it, or await its value.")

    /// The warning about an enqueued operation that waits for a dependency that nothing starts.
    static let unstartedDependency = UsageWarning(
        "Convoy: an operation has been waiting for 5 seconds for a dependency that was neither enqueued nor started. "
            + "Enqueue the dependency as well.")
    /// The warning about a setting that was changed after the attempt in progress had read it, or after the operation
    /// had finished.
    static let lateSetting = UsageWarning(
        "Convoy: a setting was changed after its operation had started. The change does not affect the attempt in progress. "
            + "Change settings before the operation is enqueued or started.")

    /// The maximum number of waits watched concurrently. It is limited because one warning is enough and timers cost
    /// memory.
    private static let maximumWatches = 100

    private let text: String
    private let patience: TimeInterval
    private let warn: @Sendable (String) -> Void
    private let hasWarned = Atomic<Bool>(false)
    private let watches = Atomic<Int>(0)
    private let isProbed = Atomic<Bool>(false)

    /// - Parameters:
    ///   - text: The warning, on a single line.
    ///   - patience: The time after which a wait counts as stuck, in seconds.
    ///   - warn: A closure that prints the warning.
    init(
        _ text: String, patience: TimeInterval = 5,
        warn: @escaping @Sendable (String) -> Void = { FileHandle.standardError.write(Data("\($0)\n".utf8)) }
    ) {
        self.text = text
        self.patience = patience
        self.warn = warn
    }

    /// Whether the warning has been printed.
    var wasGiven: Bool { hasWarned.load(ordering: .relaxed) }

    /// Prints the warning, unless it was printed before. May be called on any thread. Takes no lock.
    ///
    /// - Parameter name: The name to append to the warning.
    func give(about name: String? = nil) {
        guard !hasWarned.exchange(true, ordering: .relaxed) else { return }
        warn(name.map { "\(text): \($0)." } ?? text)
    }

    /// Checks after `patience` whether a wait is still stuck, and prints the warning if so. May be called on any
    /// thread.
    func watch(_ isStuck: @escaping @Sendable () -> Bool) {
        guard !wasGiven else { return }
        guard watches.add(1, ordering: .relaxed).newValue <= Self.maximumWatches else {
            watches.subtract(1, ordering: .relaxed)
            return
        }
        let clock = MonotonicClock()
        clock.schedule(at: Nanoseconds.deadline(patience, after: clock.now)) { [self] in
            watches.subtract(1, ordering: .relaxed)
            if isStuck() { give() }
        }
    }

    /// Prints the warning if a queue does not run the blocks submitted to it within `patience`. Only the first call has
    /// an effect.
    func probe(_ queue: DispatchQueue) {
        guard !isProbed.load(ordering: .relaxed), !isProbed.exchange(true, ordering: .relaxed) else { return }
        let hasRun = Locked(false)
        queue.async { hasRun.withLock { $0 = true } }
        watch { !hasRun.withLock { $0 } }
    }
}
