import Foundation

/// Why an event source has ended for good, or cannot be read.
///
/// What the network and the server say has the library's usual errors: a status that is not acceptable is an `HTTPError`
/// with the body, and a failure after which connecting again would not help a `URLError`. A line or an event that is too
/// long is an ``EventStreamError``.
public enum EventSourceError: Error, Sendable, Hashable {
    /// The response is none of events, but of this type; nil where it says none.
    case unacceptableContentType(String?)
    /// The request has a body in a stream, which cannot be read twice, and must be sent again to connect again.
    case bodyCannotBeSentAgain
    /// The sequence has a reader already: each needs one of its own.
    case isIterated
}

extension EventSourceError: LocalizedError, CustomStringConvertible {
    /// What has happened, in a sentence.
    public var description: String {
        switch self {
        case .unacceptableContentType(let type):
            "The response is \(type.map { "of the type \($0)" } ?? "without a type"), not text/event-stream."
        case .bodyCannotBeSentAgain: "The request's body must be sent again, but its stream cannot be read twice."
        case .isIterated: "The sequence of events is being read by another loop."
        }
    }

    /// The same.
    public var errorDescription: String? { description }
}
