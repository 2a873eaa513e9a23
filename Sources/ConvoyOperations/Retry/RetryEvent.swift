import Foundation

/// A decision about a failed try, and its reason; or a wait because another operation's request has failed.
public struct RetryEvent: Sendable {
    /// What has happened.
    public enum Reason: Sendable {
        /// The server answered with this status.
        case status(Int)
        /// The transfer failed.
        case error(URLError)
        /// The host has answered 429 or 503 to another operation, or refused its connection: its gate in the
        /// `RequestOperationQueue` is closed.
        case closedGate(host: String)
    }

    /// What happens to the operation.
    public enum Decision: Sendable, Equatable {
        /// It is retried after so many seconds; 0 for at once. Earlier where ``RetryPolicy/retriesWhenNetworkReturns`` says
        /// so, and the network was gone.
        case retry(after: TimeInterval)
        /// It is not retried, and fails.
        case giveUp(Refusal)
        /// It is not started before the gate of its host opens, at this time. Sent once for each wait: the gate may be
        /// closed for longer meanwhile, or opened earlier (see `RequestOperationQueue.closedGates`).
        case waitAtGate(until: Date)
        /// There is no way to the host. The request is tried again as soon as there is one: see
        /// `URLConnectionOperation.waitsForConnectivity`.
        case waitForNetwork
    }

    /// Why a failed try is not retried.
    public enum Refusal: Sendable, Equatable {
        case tooManyRetries, tookTooLong, notIdempotent, bodyCannotBeSentAgain, budgetExhausted, askedToWaitTooLong
    }

    /// How many retries there were before.
    public let retryCount: Int
    /// What has happened.
    public let reason: Reason
    /// What happens to the operation.
    public let decision: Decision
}
