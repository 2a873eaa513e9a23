import ConvoySupport
import Foundation
import FoundationNetworking

/// Whether and when a failed request is retried.
///
/// An attempt that failed with one of `statusCodes` or `errorCodes` is retried after a random delay, whose upper bound
/// grows with each retry, so that clients that failed together do not retry together. After a 429 or 503, by which a
/// server reports overload, the delay is at least half of that bound. A `Retry-After` (RFC 9110, section 10.2.3) is the
/// minimum delay. While an operation waits, it holds no slot of a `RequestOperationQueue`. A download continues where
/// it stopped, under the rules of `resume()`.
///
/// After a 429 or 503, or a refused connection, the queue closes the gate of that host until the time is over, but for
/// no longer than `maximumGateDuration`: other operations that have a retry policy wait, which costs them no retry.
/// Operations without a policy pass. After refused connections, the gate then lets one operation through at a time,
/// until the host has answered.
///
/// If the transport proves that nothing of a failed request was sent (`URLError.nothingWasSentKey`), no policy is
/// needed: the request is sent again at once, at most three times in a row, whatever its method. Such retries count
/// neither against `maximumRetryCount` nor against the budget, as the server has not seen them.
///
/// A delay or a multiplier that is negative or NaN counts as 0; `.infinity` means no limit.
public struct RetryPolicy: Sendable {
    /// The maximum number of retries in a row without progress, which is 16 KiB or a 64th of the body more than in all
    /// earlier attempts. `maximumDuration` and the operation's `totalTimeout` limit the retries of a transfer that
    /// advances in small steps.
    public var maximumRetryCount = 3
    /// How many seconds after the first attempt began the last retry may begin; nil or NaN for no limit.
    public var maximumDuration: TimeInterval?
    /// The upper bound of the delay before the first retry, in seconds.
    public var initialDelay: TimeInterval = 0.5
    /// The factor by which the upper bound grows with each retry.
    public var multiplier = 2.0
    /// The upper bound of every delay, in seconds, except for one that a `Retry-After` asks for.
    public var maximumDelay: TimeInterval = 60
    /// The longest `Retry-After` that is obeyed, in seconds: an hour by default, for which an operation waits without a slot.
    /// If a server asks for more, or for more than the operation's `totalTimeout` leaves, the request is not retried.
    public var maximumRetryAfter: TimeInterval = 3600
    /// The longest time, in seconds, for which a 429, a 503 or a refused connection closes the gate of its host, so that one response does not
    /// hold up everything else for an hour; 0 closes none. The operation that got the response waits for all of its
    /// `Retry-After` itself.
    public var maximumGateDuration: TimeInterval = 60
    /// Whether a wait for a retry ends as soon as a lost network returns; false by default.
    ///
    /// This is for waits after a failure of the transfer; one that a server's answer has caused keeps its length. The
    /// network is gone when the kernel has no way to the host (or the proxy) where that is an address, and to the
    /// Internet where it is a name: when the request fails, or later in the wait. A failure while it is gone is no
    /// refusal by the host, and does not close its gate. The retry counts like one whose delay has passed.
    ///
    /// `URLConnectionOperation.waitsForConnectivity` is the other way: the request waits for the network for as long as
    /// it takes, without any retry of the policy.
    public var retriesWhenNetworkReturns = false
    /// Status codes that are likely to be temporary.
    public var statusCodes = Self.temporaryStatusCodes
    /// Transfer errors that are likely to be temporary.
    public var errorCodes = Self.temporaryErrorCodes
    /// Methods that can be repeated without harm (RFC 9110, section 9.2.2). Requests with other methods are retried
    /// only if nothing of them was sent: if no connection could be made, or the transport proves it. A request that was
    /// redirected has been sent.
    public var idempotentMethods: Set<String> = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]
    /// What keeps the retries of all requests to a host from making an outage worse; after a redirect, to the host that it
    /// has led to. nil, the default, is no limit beside
    /// `maximumRetryCount`. What it ends says so: `RetryEvent.Refusal.budgetExhausted` stands in the error's `userInfo`
    /// under `URLError.retryRefusalKey`.
    public var budget: RetryBudget?

    package static let temporaryStatusCodes: Set<Int> = [408, 429, 500, 502, 503, 504]
    package static let temporaryErrorCodes: Set<URLError.Code> = [
        .timedOut, .networkConnectionLost, .cannotConnectToHost, .cannotFindHost, .dnsLookupFailed,
        .notConnectedToInternet,
    ]

    /// A policy of three retries, with delays of at most 0.5, 1 and 2 seconds.
    public init() {}

    /// Like `init()`, with another number of retries.
    public init(maximumRetryCount: Int) { self.maximumRetryCount = maximumRetryCount }

    /// A failed attempt, as input of a decision.
    struct FailedAttempt {
        var host: String?
        var method: String
        var statusCode: Int?
        var error: URLError?
        /// The number of retries so far.
        var retryCount: Int
        /// How many of them count against `maximumRetryCount`.
        var countedRetries: Int
        /// Seconds since the first attempt began.
        var elapsed: TimeInterval
        /// The response's `Retry-After`, in seconds from now.
        var retryAfter: TimeInterval?
        /// How many seconds the operation has left; nil for no limit.
        var timeLeft: TimeInterval?
        var canSendBodyAgain: Bool
        /// Whether it is certain that the server has seen none of the request.
        var nothingWasSent: Bool
        /// Whether another attempt goes on where this one has ended, so that nothing is done twice.
        var isResumable = false
    }

    /// Decides about a failure; nil for one that the policy does not cover.
    ///
    /// - Parameter random: from 0 to 1.
    func evaluate(_ failure: FailedAttempt, random: Double) -> RetryEvent? {
        let reason: RetryEvent.Reason
        if let error = failure.error {
            // Another attempt would be refused the same address, or reach what the guard must prevent.
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
            // With a little jitter, or all clients would retry at the same moment.
            delay = retryAfter + min(delay, 1)
        } else if case .status(429) = reason {
            delay = (longest + delay) / 2
        } else if case .status(503) = reason {
            delay = (longest + delay) / 2
        }
        if let limit = maximumDuration, failure.elapsed + delay > limit { return event(.giveUp(.tookTooLong)) }
        // Its own delays may exceed the time: the timeout then reports that itself.
        if failure.retryAfter != nil, let left = failure.timeLeft, delay >= left { return event(.giveUp(.tookTooLong)) }
        if let budget, let host = failure.host, !budget.withdraw(forHost: host) {
            return event(.giveUp(.budgetExhausted))
        }
        return event(.retry(after: delay))
    }

    /// How many seconds may pass until the last retry begins.
    var longestWait: TimeInterval {
        // From some number on, all delays are equal or grow ever more slowly.
        let count = min(max(0, maximumRetryCount), 256)
        let first = (0..<count).reduce(0) { $0 + longestDelay(before: $1) }
        return count < maximumRetryCount ? first + Double(maximumRetryCount - count) * longestDelay(before: count) : first
    }

    /// The upper bound of the random delay: a valid number of seconds, whatever the settings are.
    private func longestDelay(before retry: Int) -> TimeInterval {
        func amount(_ value: Double) -> Double { value > 0 ? min(value, 1e9) : 0 }
        // 0 times an infinite factor is NaN, which counts as 0.
        return min(amount(maximumDelay), amount(amount(initialDelay) * pow(amount(multiplier), Double(retry))))
    }
}

/// A limit on the retries per host: a share of the requests sent to it, and a small reserve.
///
/// In an outage every request fails, and retries would multiply the load. With a budget they add at most that share to
/// it.
public final class RetryBudget: Sendable {
    /// A shared budget: a fifth of the requests, and ten.
    public static let shared = RetryBudget()

    private let share: Double
    private let reserve: Double
    private let balances = Locked<[String: Double]>([:])

    /// - Parameters:
    ///   - share: how many retries each request earns its host; a negative share counts as 0.
    ///   - reserve: the initial and maximum balance of each host.
    public init(share: Double = 0.2, reserve: Int = 10) {
        self.share = share > 0 ? share : 0
        self.reserve = Double(reserve)
    }

    /// Counts a request that is not a retry.
    func deposit(forHost host: String) {
        balances.withLock { balances in
            guard let balance = balances[host] else { return }
            // A full balance is removed, so that the table holds only hosts with recent retries.
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

/// A decision about a failed attempt, with its reason. An `EventMonitor` also receives one for each wait because another
/// operation's request has failed; a `retryHandler` does not.
public struct RetryEvent: Sendable {
    /// What happened.
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
        /// The operation is retried after this many seconds; 0 for at once. Earlier if ``RetryPolicy/retriesWhenNetworkReturns``
        /// is set, and the network was lost.
        case retry(after: TimeInterval)
        /// The operation is not retried, and fails.
        case giveUp(Refusal)
        /// It is not started before the gate of its host opens, at this time. Sent once for each wait: the gate may be
        /// closed for longer meanwhile, or opened earlier (see `RequestOperationQueue.closedGates`).
        case waitAtGate(until: Date)
        /// There is no route to the host. The request is retried as soon as there is one: see
        /// `URLConnectionOperation.waitsForConnectivity`.
        case waitForNetwork
    }

    /// Why a failed attempt is not retried.
    public enum Refusal: Sendable, Equatable {
        case tooManyRetries, tookTooLong, notIdempotent, bodyCannotBeSentAgain, budgetExhausted, askedToWaitTooLong
    }

    /// The URL of the request; nil if it has none.
    public private(set) var url: URL?
    /// How many retries there were before.
    public let retryCount: Int
    /// What happened.
    public let reason: Reason
    /// What happens to the operation.
    public let decision: Decision
}

extension RetryEvent: CustomStringConvertible {
    /// A line without secrets: the URL, what happened, and what follows.
    public var description: String {
        guard let url else { return sentence }
        return "\(Redaction.url(url.absoluteString)): \(sentence)"
    }

    /// The same event with the URL of its request.
    func naming(_ url: URL?) -> RetryEvent {
        var event = self
        event.url = url
        return event
    }

    /// The line without the URL: "failed with the status 503: retry 2 in 1.5 s".
    var sentence: String {
        let follows =
            switch decision {
            case .retry(let delay) where delay <= 0: "retry \(retryCount + 1) at once"
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
        case .status(let status): "failed with the status \(status)"
        case .error(let error): "failed: \(ErrorText.shown(error))"
        case .closedGate(let host): "\(host) has refused other requests"
        }
    }
}

extension RetryEvent.Refusal {
    fileprivate var text: String {
        switch self {
        case .tooManyRetries: "there were too many retries"
        case .tookTooLong: "it has taken too long"
        case .notIdempotent: "it may have had an effect"
        case .bodyCannotBeSentAgain: "its body cannot be sent again"
        case .budgetExhausted: "too many requests fail"
        case .askedToWaitTooLong: "the server demands too long a wait"
        }
    }
}

/// The text of an error for a line, without secrets.
enum ErrorText {
    static func shown(_ error: any Error) -> String { Redaction.text((error as NSError).localizedDescription) }
}
