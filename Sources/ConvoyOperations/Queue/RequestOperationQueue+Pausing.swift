import Foundation

/// An operation that a queue can pause.
///
/// Both methods are called on any thread, in any state of the operation, and must not block. An operation that pauses
/// while it holds a slot of its queue calls ``ScheduledOperation/slotDidFree()``; one that resumes becomes ready again
/// and calls ``ScheduledOperation/readinessDidChange()``.
package protocol PausableOperation: AnyObject {
    func pause()
    func resume()
}

/// Pausing.
extension RequestOperationQueue {
    /// Pauses all operations in the queue that can be paused. Operations added later are not paused.
    public final func pauseAll() {
        for operation in queuedOperations { (operation as? any PausableOperation)?.pause() }
    }

    /// Resumes all operations in the queue that are paused.
    public final func resumeAll() {
        for operation in queuedOperations { (operation as? any PausableOperation)?.resume() }
    }
}
