/// The phase of an operation's life, from its creation to its end.
public enum OperationState: UInt8, Sendable, CaseIterable {
    /// The operation has not been started, or was resumed after a pause and has not been started again.
    case ready
    case executing
    /// The operation was paused by `pause()`, before it was started or while it was executing.
    case paused
    /// The operation has succeeded, failed, or been cancelled. This state is final.
    case finished
}
