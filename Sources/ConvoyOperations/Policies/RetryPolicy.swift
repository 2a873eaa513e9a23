import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A policy that decides whether and when a failed request is retried.
///
/// An attempt that failed with one of `statusCodes` or `errorCodes` is retried after a random delay, whose upper bound
/// grows with each retry, so that clients that failed together do not retry together. After a 429 or 503, which
/// indicates an overloaded server, the delay is at least half of that bound. A `Retry-After` (RFC 9110, section 10.2.3)
/// is the minimum delay. While an operation waits, it holds no slot of a `RequestOperationQueue`. A download resumes
/// where it stopped, under the rules of `resume()`.
///
/// After a 429 or 503, or a refused connection, the queue closes the gate of the host for the duration of the delay,
/// but at most for `maximumGateDuration`. Other operations with a retry policy wait at the gate, which does not count
/// as a retry; operations without a policy are not held back. When the gate opens after a refused connection,
/// operations pass one by one until the host has answered.
///
/// If the transport determines that no part of a failed request was sent (`URLError.nothingWasSentKey`), the request is
/// sent again immediately even without a policy, at most three times in a row, regardless of its method. Such retries
/// count neither against `maximumRetryCount` nor against the budget, because the server has not received anything.
///
/// A negative or NaN delay or multiplier counts as 0; `.infinity` means no limit.
public struct RetryPolicy: Sendable {
    /// The maximum number of consecutive retries without progress. An attempt makes progress if it receives at least 16
    /// KiB, or a 64th of the body if that is less, more than all earlier attempts. `maximumDuration` and the
    /// operation's `totalTimeout` limit the retries of a transfer that advances in small steps.
    public var maximumRetryCount = 3
    /// The maximum time between the start of the first attempt and the start of the last retry, in seconds; nil or NaN
    /// for no limit.
    public var maximumDuration: TimeInterval?
    /// The upper bound of the delay before the first retry, in seconds.
    public var initialDelay: TimeInterval = 0.5
    /// The factor by which the upper bound grows with each retry.
    public var multiplier = 2.0
    /// The upper bound of every delay, in seconds, except for a delay requested by `Retry-After`.
    public var maximumDelay: TimeInterval = 60
    /// The longest accepted `Retry-After`, in seconds; an hour by default. During the delay, the operation holds no
    /// slot. If a server requests more, or more than the remaining `totalTimeout` of the operation, the request is not
    /// retried.
    public var maximumRetryAfter: TimeInterval = 3600
    /// The longest time, in seconds, for which a 429, a 503 or a refused connection closes the gate of its host; 0
    /// disables gates. This limit prevents a single response from blocking all other requests for an hour. The
    /// operation that received the response waits for the full `Retry-After`.
    public var maximumGateDuration: TimeInterval = 60
    /// Whether a wait for a retry ends as soon as a lost network returns. False by default.
    ///
    /// This applies to waits after a failed transfer; a wait caused by a server's response keeps its length. The
    /// network counts as lost when the kernel has no route: to the host or proxy if it is given by address, or to the
    /// Internet if it is given by name. The route is checked when the request fails and later during the wait. A
    /// failure while the network is lost is not a refusal by the host, and does not close its gate. An early retry
    /// counts like any other retry.
    ///
    /// Alternatively, set `URLConnectionOperation.waitsForConnectivity`: the request then waits for the network for as
    /// long as necessary, without using a retry of the policy.
    public var retriesWhenNetworkReturns = false
    /// The status codes to retry; by default those of failures that are likely to be temporary.
    public var statusCodes = Self.temporaryStatusCodes
    /// The codes of transfer errors to retry; by default those of failures that are likely to be temporary.
    public var errorCodes = Self.temporaryErrorCodes
    /// The methods that can be repeated without harm (RFC 9110, section 9.2.2). A request with a different method is
    /// retried only if no part of it was sent, that is, if no connection could be established or the transport reports
    /// that no byte was sent. A redirected request counts as sent.
    public var idempotentMethods: Set<String> = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]
    /// A budget that keeps the retries of all requests to a host from making an outage worse. After a redirect, it
    /// applies to the target host. If this is nil, which is the default, only `maximumRetryCount` limits the retries.
    /// If the budget prevents a retry, the error's `userInfo` contains `RetryEvent.Refusal.budgetExhausted` under
    /// `URLError.retryRefusalKey`.
    public var budget: RetryBudget?

    package static let temporaryStatusCodes: Set<Int> = [408, 429, 500, 502, 503, 504]
    package static let temporaryErrorCodes: Set<URLError.Code> = [
        .timedOut, .networkConnectionLost, .cannotConnectToHost, .cannotFindHost, .dnsLookupFailed,
        .notConnectedToInternet,
    ]

    /// Creates a policy of three retries, with delays of at most 0.5, 1 and 2 seconds.
    public init() {}

    /// Creates a policy with the default delays and the given number of retries.
    public init(maximumRetryCount: Int) { self.maximumRetryCount = maximumRetryCount }

    /// The facts about a failed attempt that determine the decision.
    struct FailedAttempt {
        var host: String?
        var method: String
        var statusCode: Int?
        var error: URLError?
        /// The number of retries so far.
        var retryCount: Int
        /// The number of retries that count against `maximumRetryCount`.
        var countedRetries: Int
        /// The time since the first attempt began, in seconds.
        var elapsed: TimeInterval
        /// The response's `Retry-After`, in seconds from now.
        var retryAfter: TimeInterval?
        /// The time left until the operation's `totalTimeout` expires, in seconds; nil for no limit.
        var timeLeft: TimeInterval?
        var canSendBodyAgain: Bool
        /// Whether the server certainly received no part of the request.
        var nothingWasSent: Bool
        /// Whether the next attempt resumes where this one ended, so that the server does not process anything twice.
        var isResumable = false
    }

    /// Returns the decision about a failed attempt; nil if the policy does not cover the failure.
    ///
    /// - Parameter random: A number from 0 to 1.
    func evaluate(_ failure: FailedAttempt, random: Double) -> RetryEvent? {
        let reason: RetryEvent.Reason
        if let error = failure.error {
            // Do not retry if the address guard refused the address, because a retry would be refused again or use
            // another blocked address.
            guard errorCodes.contains(error.code), error.addressRefusal == nil else { return nil }
            reason = .error(error)
        } else if let status = failure.statusCode, statusCodes.contains(status) {
            reason = .status(status)
        } else {
            return nil
        }
        func event(_ decision: RetryEvent.Decision) -> RetryEvent {
            RetryEvent(retryCount: failure.retryCount, reason: reason, decision: decision)
        }
        guard failure.countedRetries < maximumRetryCount else { return event(.giveUp(.tooManyRetries)) }
        guard idempotentMethods.contains(failure.method) || failure.nothingWasSent || failure.isResumable else {
            return event(.giveUp(.notIdempotent))
        }
        guard failure.canSendBodyAgain else { return event(.giveUp(.bodyCannotBeSentAgain)) }
        let longest = longestDelay(before: failure.countedRetries)
        var delay = longest * random
        if let retryAfter = failure.retryAfter {
            guard retryAfter <= maximumRetryAfter else { return event(.giveUp(.askedToWaitTooLong)) }
            // Add a little jitter; otherwise all clients would retry at the same moment.
            delay = retryAfter + min(delay, 1)
        } else if failure.error == nil, [429, 503].contains(failure.statusCode) {
            delay = (longest + delay) / 2
        }
        if let limit = maximumDuration, failure.elapsed + delay > limit { return event(.giveUp(.tookTooLong)) }
        // A delay chosen by the policy may exceed the time left, in which case the operation fails with its timeout.
        if failure.retryAfter != nil, let left = failure.timeLeft, delay >= left { return event(.giveUp(.tookTooLong)) }
        if let budget, let host = failure.host, !budget.withdraw(forHost: host) {
            return event(.giveUp(.budgetExhausted))
        }
        return event(.retry(after: delay))
    }

    /// The maximum time until the last retry begins, in seconds.
    var longestWait: TimeInterval {
        // Add only the first 256 delays individually, and approximate each later delay by the one that follows.
        let count = min(max(0, maximumRetryCount), 256)
        let first = (0..<count).reduce(0) { $0 + longestDelay(before: $1) }
        return count < maximumRetryCount ? first + Double(maximumRetryCount - count) * longestDelay(before: count) : first
    }

    /// Returns the upper bound of the random delay before a retry, in seconds. The result is a valid number for any
    /// settings.
    private func longestDelay(before retry: Int) -> TimeInterval {
        func amount(_ value: Double) -> Double { value > 0 ? min(value, 1e9) : 0 }
        // 0 times an infinite factor is NaN, which counts as 0.
        return min(amount(maximumDelay), amount(amount(initialDelay) * pow(amount(multiplier), Double(retry))))
    }
}

/// A limit on the number of retries per host: a fraction of the number of requests sent to the host, plus a small
/// reserve.
///
/// In an outage every request fails, and retries would multiply the load. With a budget, retries add at most that
/// fraction to the load.
public final class RetryBudget: Sendable {
    /// A shared budget, which allows retries for a fifth of the requests, with a reserve of ten.
    public static let shared = RetryBudget()

    private let share: Double
    private let reserve: Double
    private let balances = Locked<[String: Double]>([:])

    /// - Parameters:
    ///   - share: The number of retries that each request adds to the balance of its host; a negative number counts as
    ///     0.
    ///   - reserve: The initial and maximum balance of each host.
    public init(share: Double = 0.2, reserve: Int = 10) {
        self.share = share > 0 ? share : 0
        self.reserve = Double(reserve)
    }

    /// Counts a request that is not a retry.
    func deposit(forHost host: String) {
        balances.withLock { balances in
            guard let balance = balances[host] else { return }
            // Remove a full balance, so that the table contains only hosts with recent retries.
            if balance + share >= reserve { balances[host] = nil } else { balances[host] = balance + share }
        }
    }

    func withdraw(forHost host: String) -> Bool {
        balances.withLock { balances in
            let balance = balances[host] ?? reserve
            guard balance >= 1 else { return false }
            balances[host] = balance - 1
            return true
        }
    }
}

/// A decision about a failed attempt, with its reason. An `EventMonitor` also receives an event for each wait caused by
/// the failure of another operation's request; a `retryHandler` does not.
public struct RetryEvent: Sendable {
    /// The reason for the decision.
    public enum Reason: Sendable {
        /// The server answered with the given status code.
        case status(Int)
        /// The transfer failed with the given error.
        case error(URLError)
        /// The host has answered 429 or 503 to another operation, or refused its connection. Its gate in the
        /// `RequestOperationQueue` is closed.
        case closedGate(host: String)
    }

    /// The consequence for the operation.
    public enum Decision: Sendable, Equatable {
        /// The operation is retried after the given number of seconds, or immediately if it is 0. If
        /// ``RetryPolicy/retriesWhenNetworkReturns`` is set and a lost network returns, the operation is retried
        /// earlier.
        case retry(after: TimeInterval)
        /// The operation is not retried, and fails.
        case giveUp(Refusal)
        /// The operation does not start before the gate of its host opens, which is expected at the given time. The
        /// event is sent once for each wait, although the gate may be closed for longer or opened earlier in the
        /// meantime (see `RequestOperationQueue.closedGates`).
        case waitAtGate(until: Date)
        /// No route to the host exists. The request is retried as soon as a route exists; see
        /// `URLConnectionOperation.waitsForConnectivity`.
        case waitForNetwork
    }

    /// The reason why a failed attempt is not retried.
    public enum Refusal: Sendable, Equatable {
        case tooManyRetries, tookTooLong, notIdempotent, bodyCannotBeSentAgain, budgetExhausted, askedToWaitTooLong
    }

    /// The URL of the request, if any.
    public private(set) var url: URL?
    /// The number of earlier retries.
    public let retryCount: Int
    /// The reason for the decision.
    public let reason: Reason
    /// The consequence for the operation.
    public let decision: Decision
}

extension RetryEvent: CustomStringConvertible {
    /// A line without secrets that contains the URL, the failure, and the decision.
    public var description: String {
        guard let url else { return sentence }
        return "\(Redaction.url(url.absoluteString)): \(sentence)"
    }

    /// Returns the event with the URL of its request.
    func naming(_ url: URL?) -> RetryEvent {
        var event = self
        event.url = url
        return event
    }

    /// The description without the URL, for example "failed with status 503: retry 2 in 1.5 s".
    var sentence: String {
        let follows =
            switch decision {
            case .retry(let delay) where delay <= 0: "retry \(retryCount + 1) immediately"
            case .retry(let delay): "retry \(retryCount + 1) in \(String(format: "%.1f", delay)) s"
            case .giveUp(let refusal): "not retried: \(refusal.text)"
            case .waitAtGate(let date): "waits until \(date)"
            case .waitForNetwork: "waits for a route to the host"
            }
        return "\(reason.text): \(follows)"
    }
}

extension RetryEvent.Reason {
    fileprivate var text: String {
        switch self {
        case .status(let status): "failed with status \(status)"
        case .error(let error): "failed: \(ErrorText.shown(error))"
        case .closedGate(let host): "\(host) refuses requests"
        }
    }
}

extension RetryEvent.Refusal {
    /// The reason as a clause of a sentence.
    var text: String {
        switch self {
        case .tooManyRetries: "the maximum number of retries was reached"
        case .tookTooLong: "the time limit was reached"
        case .notIdempotent: "its method is not idempotent"
        case .bodyCannotBeSentAgain: "its body cannot be sent again"
        case .budgetExhausted: "the retry budget is exhausted"
        case .askedToWaitTooLong: "the server requested too long a delay"
        }
    }
}

/// Single-line descriptions of errors, without secrets.
package enum ErrorText {
    package static func shown(_ error: any Error) -> String { Redaction.text((error as NSError).localizedDescription) }
}
