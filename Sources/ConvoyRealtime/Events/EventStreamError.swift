import Foundation

/// Why a stream of server-sent events cannot be read any further.
public enum EventStreamError: Error, Sendable, Hashable {
    /// A line is longer than so many bytes.
    case lineTooLong(limit: Int)
    /// The lines of an event, before its blank line, have more than so many bytes of values.
    case eventTooLong(limit: Int)
}

extension EventStreamError: LocalizedError, CustomStringConvertible {
    /// What is too long, and how long it may be.
    public var description: String {
        switch self {
        case .lineTooLong(let limit): "A line of the event stream is longer than the limit of \(limit) bytes."
        case .eventTooLong(let limit): "An event of the stream is longer than the limit of \(limit) bytes."
        }
    }

    /// The same.
    public var errorDescription: String? { description }
}
