import Foundation

/// Whether an event source has a connection, by the names and numbers of the standard (HTML, section 9.2.2).
public enum EventSourceState: Int, Sendable, Hashable, CaseIterable {
    /// It has none now: it has not begun, is about to connect, waits before it connects again, or is paused.
    case connecting = 0
    /// A response has come, and with it events may come.
    case open = 1
    /// It has ended, for good.
    case closed = 2
}

/// Why an event source has lost its connection, or got none, and when it tries again.
public struct EventSourceInterruption: Sendable {
    /// What happened; nil where the server has ended its response.
    public let error: (any Error)?
    /// How many connections in a row have brought no event; 0 where the last one has.
    public let failureCount: Int
    /// Seconds until it connects again; nil while there is no network, whose return it waits for.
    public let delay: TimeInterval?
}
