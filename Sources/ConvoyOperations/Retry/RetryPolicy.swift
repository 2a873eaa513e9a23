import ConvoySupport
import Foundation
import FoundationNetworking

/// Whether and when a failed request is tried again.
///
/// A try that failed with one of `statusCodes` or `errorCodes` is repeated after a delay that doubles from try to
/// try and is spread at random, so that clients which failed together do not come back together. A `Retry-After`
/// (RFC 9110, section 10.2.3) is the least delay. While an operation waits it holds no slot of a
/// `RequestOperationQueue`. A download goes on where it broke off, under the rules of `resume()`.
///
/// After a 429 or 503 the queue closes the gate of that host until the time is over, but for no longer than
/// `maximumGateDuration`: other operations that have a retry policy wait, and hear so by their `retryHandler`.
/// Operations without a policy pass.
///
/// A failure of which the transport proves that nothing of the request was sent (`URLError.nothingWasSentKey`) needs no
/// policy: the request is sent again at once, three times in a row at most, whatever its method. Such retries count
/// neither against `maximumRetryCount` nor against the budget: the server has seen nothing of them.
///
/// A delay or a multiplier that is negative or no number (NaN) counts as 0; no limit can be told as `.infinity`.
public struct RetryPolicy: Sendable {
    /// How often at most, beside the first try.
    public var maximumRetryCount = 3
    /// How many seconds after the first try began no further one may begin; nil, or no number, is no limit.
    public var maximumDuration: TimeInterval?
    /// The longest delay before the first retry, in seconds.
    public var initialDelay: TimeInterval = 0.5
    /// By what each delay is longer than the one before.
    public var multiplier = 2.0
    /// The longest delay of all, in seconds; but for what a `Retry-After` says.
    public var maximumDelay: TimeInterval = 60
    /// The longest `Retry-After` that is waited for, in seconds. A server that asks for more gets no retry.
    public var maximumRetryAfter: TimeInterval = 3600
    /// The longest time, in seconds, for which a 429 or 503 closes the gate of its host, so that one response does not
    /// hold up everything else for an hour; 0 closes none. The operation that got the response waits for all of its
    /// `Retry-After` itself.
    public var maximumGateDuration: TimeInterval = 60
    /// Statuses that may pass.
    public var statusCodes: Set<Int> = [408, 429, 500, 502, 503, 504]
    /// Failures of the transfer that may pass.
    public var errorCodes: Set<URLError.Code> = [
        .timedOut, .networkConnectionLost, .cannotConnectToHost, .cannotFindHost, .dnsLookupFailed,
        .notConnectedToInternet,
    ]
    /// Methods whose repetition does no harm (RFC 9110, section 9.2.2). Others are repeated only when nothing of the
    /// request was sent: when no connection could be made, or the transport proves it. A request that a redirect has
    /// led on has been sent.
    public var idempotentMethods: Set<String> = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]
    /// What keeps retries from making an outage worse; nil is no limit.
    public var budget: RetryBudget? = .shared

    /// Three retries, after at most half a second, one and two.
    public init() {}

    /// As `init()`, with another number of retries.
    public init(maximumRetryCount: Int) { self.maximumRetryCount = maximumRetryCount }

    /// What has failed.
    struct FailedTry {
        var host: String?
        var method: String
        var statusCode: Int?
        var error: URLError?
        /// How many retries there have been in all.
        var retryCount: Int
        /// How many of them count against the policy's number.
        var countedRetries: Int
        /// Seconds since the first try began.
        var elapsed: TimeInterval
        /// What the response asks for, in seconds from now.
        var retryAfter: TimeInterval?
        var canSendBodyAgain: Bool
        /// Whether it is certain that nobody has seen anything of the request.
        var nothingWasSent: Bool
    }

    /// Judges a failure; nil for one that is none of the policy's business.
    ///
    /// - Parameter random: from 0 to 1.
    func judge(_ failure: FailedTry, random: Double) -> RetryEvent? {
        let reason: RetryEvent.Reason
        if let error = failure.error {
            guard errorCodes.contains(error.code) else { return nil }
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
        guard idempotentMethods.contains(failure.method) || failure.nothingWasSent else {
            return event(.giveUp(.notIdempotent))
        }
        guard failure.canSendBodyAgain else { return event(.giveUp(.bodyCannotBeSentAgain)) }
        var delay = longestDelay(before: failure.countedRetries) * random
        if let retryAfter = failure.retryAfter {
            guard retryAfter <= maximumRetryAfter else { return event(.giveUp(.askedToWaitTooLong)) }
            // A little spread on top, or all would come back at the same moment.
            delay = retryAfter + min(delay, 1)
        }
        if let limit = maximumDuration, failure.elapsed + delay > limit { return event(.giveUp(.tookTooLong)) }
        if let budget, let host = failure.host, !budget.withdraw(forHost: host) {
            return event(.giveUp(.budgetExhausted))
        }
        return event(.retry(after: delay))
    }

    /// The delay that is spread at random: a number of seconds, whatever the settings are.
    private func longestDelay(before retry: Int) -> TimeInterval {
        func amount(_ value: Double) -> Double { value > 0 ? min(value, 1e9) : 0 }
        // A delay of 0 that grows without end is no number.
        return min(amount(maximumDelay), amount(amount(initialDelay) * pow(amount(multiplier), Double(retry))))
    }
}

/// How many retries a host may see: a share of the requests that it gets, and a few.
///
/// In an outage every request fails, and retries would multiply the load. With a budget they add at most that share.
public final class RetryBudget: Sendable {
    /// For all policies that do not bring one of their own: a fifth of the requests, and ten.
    public static let shared = RetryBudget()

    private let share: Double
    private let reserve: Double
    private let balances = Locked<[String: Double]>([:])

    /// - Parameters:
    ///   - share: how many retries each request earns its host; a negative share is none.
    ///   - reserve: how many each host may see at once, at first and at most.
    public init(share: Double = 0.2, reserve: Int = 10) {
        self.share = share > 0 ? share : 0
        self.reserve = Double(reserve)
    }

    /// Counts a request that is no retry.
    func deposit(forHost host: String) {
        balances.withLock { balances in
            guard let balance = balances[host] else { return }
            // What is full is as good as unknown, so that the table holds troubled hosts only.
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
