import Synchronization

/// The state of an operation.
public enum OperationState: UInt8, Sendable, CaseIterable {
    /// Not started, or resumed after a pause and not yet started again.
    case ready
    case executing
    /// Held back by `pause()`, before it was started or while it was executing.
    case paused
    /// Succeeded, failed or cancelled. Final.
    case finished
}
