import Foundation
import Synchronization

/// Tells a ``ScheduledOperation`` when an operation of another kind, on which it depends, has finished.
///
/// Foundation on Linux has no key-value observing. But when an operation finishes, Foundation evaluates `isReady` of
/// every operation that depends on it. So the watcher depends on the watched operation, is never enqueued, and detects
/// the end in its own `isReady`.
final class DependencyWatcher: Operation, @unchecked Sendable {
    private let hasFired = Atomic<Bool>(false)
    private let watched: Operation
    private let whenFinished: @Sendable (Operation) -> Void

    /// - Parameter whenFinished: called once, on the thread on which `watched` finishes, or in ``watch()``.
    init(watched: Operation, whenFinished: @escaping @Sendable (Operation) -> Void) {
        self.watched = watched
        self.whenFinished = whenFinished
        super.init()
    }

    /// Starts watching. Calls back at once if the operation has finished already.
    func watch() {
        super.addDependency(watched)
        // Otherwise an operation that finished without posting it would never be noticed.
        if watched.isFinished { fire() }
        // If it was stopped meanwhile, or has just fired, Foundation must drop its pointer to it.
        if hasFired.load(ordering: .sequentiallyConsistent) { super.removeDependency(watched) }
    }

    /// Stops watching. To be called before the last reference is released, unless the watcher has fired: Foundation
    /// keeps an unretained pointer to it.
    func stop() {
        hasFired.store(true, ordering: .sequentiallyConsistent)
        super.removeDependency(watched)
    }

    override var isReady: Bool {
        let isReady = super.isReady
        if isReady { fire() }
        return isReady
    }

    private func fire() {
        guard !hasFired.exchange(true, ordering: .sequentiallyConsistent) else { return }
        whenFinished(watched)
    }
}
