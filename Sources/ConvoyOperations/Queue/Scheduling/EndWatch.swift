import ConvoySupport
import Foundation

/// Lets a queue hear of the end of an operation whose class overrides `start()`, and so posts `isFinished` itself: only
/// Foundation hears that, and tells those that depend on the operation.
final class EndWatch: Sendable {
    /// Kept until the end, as Foundation does not retain it.
    private let watcher = Locked<DependencyWatcher?>(nil)

    private init() {}

    /// Watches an operation that has been started. Its end is reported to its queue and its dependents, at once if it has
    /// finished already.
    static func begin(on operation: ScheduledOperation) {
        let watch = EndWatch()
        let watcher = DependencyWatcher(watched: operation) { operation in
            (operation as? ScheduledOperation)?.executionDidFinish()
            _ = watch.watcher.withLock { $0.take() }
        }
        watch.watcher.withLock { $0 = watcher }
        watcher.watch()
    }
}
