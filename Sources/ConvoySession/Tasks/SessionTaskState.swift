/// The state of a task. The counterpart of `URLSessionTask.State`.
public enum SessionTaskState: Sendable, Hashable, CaseIterable {
    /// It has been resumed: it runs, or waits for its turn in the queue, for its dependencies, or for a retry.
    case running
    /// It has not been resumed yet, or was suspended.
    case suspended
    /// It was cancelled, and has not ended yet.
    case canceling
    /// It has ended: its response, its object and its error are final.
    case completed
}
