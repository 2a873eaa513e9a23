import Foundation

/// What was decided about a failed try, and why; or that an operation waits because another one has failed.
public struct RetryEvent: Sendable {
    /// What has happened.
    public enum Reason: Sendable {
        /// The server answered with this status.
        case status(Int)
        /// The transfer failed.
        case error(URLError)
        /// The host has answered 429 or 503 to another operation: its gate in the `RequestOperationQueue` is closed.
        case closedGate(host: String)
    }

    /// What becomes of the operation.
    public enum Decision: Sendable, Equatable {
        /// Tried again after so many seconds; 0 for at once.
        case retry(after: TimeInterval)
        /// Not tried again: the failure is the operation's.
        case giveUp(Refusal)
        /// Not started before the gate of its host opens, at this time. Told once for each wait: the gate may be closed
        /// for longer meanwhile, or opened before (`RequestOperationQueue.closedGates` tells).
        case waitAtGate(until: Date)
    }

    /// Why a failed try is not repeated.
    public enum Refusal: Sendable, Equatable {
        case tooManyRetries, tookTooLong, notIdempotent, bodyCannotBeSentAgain, budgetExhausted, askedToWaitTooLong
    }

    /// How many retries there had been.
    public let retryCount: Int
    /// What has happened.
    public let reason: Reason
    /// What becomes of the operation.
    public let decision: Decision
}
