import Foundation

/// How slow a transfer may be: one that moves fewer bytes a second on average over some time ends with
/// `URLError.timedOut`, and can be retried as after any timeout.
///
/// ```swift
/// manager.stallLimit = StallLimit(bytesPerSecond: 1_000, duration: 30)
/// ```
///
/// What counts is the time in which a body could move: while the request's body is sent, and from the head of the
/// response to its end. Making the connection and waiting for the head do not count; `idleTimeout` and
/// `timeoutIntervalForHead` limit those. Nor does time in which this side holds the transfer back: for a `RateLimit`, a
/// slow output stream, a body that is not there yet, or a decision about a redirect. Bytes are counted as they travel,
/// in both directions.
public struct StallLimit: Sendable, Hashable {
    /// How many bytes must move in a second, on average. With 0 or less there is no limit.
    public var bytesPerSecond: Int64

    /// Over how many seconds the average is taken. If that is not a positive number, there is no limit.
    public var duration: TimeInterval

    /// A limit for a transfer.
    ///
    /// - Parameters:
    ///   - bytesPerSecond: how many bytes must move in a second.
    ///   - duration: over how many seconds the average is taken.
    public init(bytesPerSecond: Int64, duration: TimeInterval) {
        self.bytesPerSecond = bytesPerSecond
        self.duration = duration
    }
}
