import ConvoySupport
import Foundation
import FoundationNetworking

/// How much is read of the rest of a response, and for how long, where that changes no result.
struct RestLimit: Sendable {
    /// How many bytes are read at most, as they were sent.
    let bytes: Int
    /// How often it is looked at, in nanoseconds.
    let interval: MonotonicTime
    /// How many bytes must have come in each interval, for another to begin.
    let bytesInInterval: Int
    /// How many intervals there are at most.
    let intervals: Int
    /// Whether the bytes are discarded.
    let isDiscarded: Bool

    /// That of a redirect's body, or of one in whose place a stored one is delivered: reading a little is cheaper than
    /// making another connection.
    static let unneeded = RestLimit(
        bytes: 64 << 10, interval: 200_000_000, bytesInInterval: .max, intervals: 1, isDiscarded: true)
    /// That of an error's body, which says more about the error: as long as it comes.
    static let error = RestLimit(
        bytes: 1 << 20, interval: 1_000_000_000, bytesInInterval: 1 << 10, intervals: 10, isDiscarded: false)
    /// That of a question in a negotiation of libcurl's, which discards the body and then goes on over the same connection.
    static let negotiation = RestLimit(
        bytes: .max, interval: 5_000_000_000, bytesInInterval: .max, intervals: 1, isDiscarded: false)
}

/// Decides when the rest of a response is given up. A value without I/O.
struct RestMeter {
    let limit: RestLimit
    /// How many bytes have come.
    private(set) var received = 0
    /// Whether more has come than is read.
    private(set) var isExhausted = false
    /// When it is looked at next.
    private(set) var deadline: MonotonicTime
    private var receivedBefore = 0
    private var intervals = 1

    init(_ limit: RestLimit, at now: MonotonicTime) {
        self.limit = limit
        deadline = now + limit.interval
    }

    /// Counts bytes that have come. False if that is more than is read.
    mutating func take(_ count: Int) -> Bool {
        if received + count > limit.bytes { isExhausted = true }
        if !isExhausted { received += count }
        return !isExhausted
    }

    /// Whether it is given up by now.
    mutating func isOver(at now: MonotonicTime) -> Bool {
        guard now >= deadline else { return false }
        guard received - receivedBefore >= limit.bytesInInterval, intervals < limit.intervals else { return true }
        intervals += 1
        receivedBefore = received
        deadline = now + limit.interval
        return false
    }

    /// Begins the current interval anew: this side has held the response back.
    mutating func postpone(to now: MonotonicTime) { deadline = max(deadline, now + limit.interval) }
}

/// The rest of a response that is not waited for as long as it may take: that of a redirect, of one in whose place a stored
/// one is delivered, and of an error.
extension URLConnection {
    /// Whether what comes of the response is discarded.
    private var isRestUnneeded: Bool {
        switch phase {
        case .following, .replacing: true
        default: false
        }
    }

    /// Whether the rest of a response that was held up need not be waited for at all: it may never come.
    var mayLeaveRest: Bool { isRestUnneeded && exchange.response.failure == nil && exchange.heldResult == nil }

    /// Whether to read the rest of a response, of which the head has come, for the sake of its connection, or of the
    /// cache. False aborts the transfer: a body that ends with its connection leaves none to use again.
    func awaitsRest(of response: ResponseHead) -> Bool {
        guard isRestUnneeded, mayHaveRest(response) else { return true }
        if exchange.response.cacheWriter == nil,
            exchange.head.isEndedByConnection || response.contentLength ?? 0 > RestLimit.unneeded.bytes
        {
            return false
        }
        limitRest(to: .unneeded)
        return true
    }

    /// See ``Connection/limitBodyOfError()``. To be called only from the delegate's methods.
    public func limitBodyOfError() {
        guard case .loading = phase, exchange.replay == nil, exchange.head.isWhole, mayHaveRest(receivedHead) else { return }
        limitRest(to: .error)
    }

    /// Does not wait for ever while libcurl discards the body of a response that is not the last of a negotiation.
    func limitRestOfHeldHead(_ response: ResponseHead) {
        if response.asksForCredentials, mayHaveRest(response) { limitRest(to: .negotiation) }
    }

    private func mayHaveRest(_ response: ResponseHead) -> Bool {
        exchange.request.method != "HEAD" && response.statusCode != 304 && response.contentLength != 0
            && exchange.heldResult == nil
    }

    private func limitRest(to limit: RestLimit) {
        guard let runLoop = thread.runLoop else { return }
        let meter = RestMeter(limit, at: runLoop.turnTime)
        exchange.response.rest = Reference(meter)
        handle?.schedule(at: meter.deadline, on: runLoop)
    }

    /// Whether the rest is given up by now.
    func isRestOver(_ rest: Reference<RestMeter>, at now: MonotonicTime) -> Bool {
        if isRestUnneeded { return now >= nextDeadline ?? .max }
        guard case .loading = phase, exchange.heldResult == nil else { return false }
        if exchange.flow.isHeldBack || !exchange.flow.isFree { rest.value.postpone(to: now) }
        return rest.value.isOver(at: now)
    }

    /// Goes on without the rest, and without its connection. Not to be called from one of libcurl's callbacks.
    func giveUpRest(_ handle: EasyHandle) {
        thread.multi?.stop(handle)
        if isRestUnneeded { leaveRest(isWhole: false) } else { endWithoutRest() }
    }

    /// Goes on after a response whose body is not needed, be it whole or cut.
    func leaveRest(isWhole: Bool) {
        if isCancelled { return end { $0.connectionDidCancel(self) } }
        if let failure = exchange.response.failure { return fail(failure) }
        switch phase {
        case .replacing(let stored): replay(stored)
        // The cache keeps what is whole only.
        case .following(let request) where isWhole: finishStoring { $0.follow(request) }
        case .following(let request): follow(request)
        default: return
        }
    }

    /// Ends with what has come of an error's body.
    func endWithoutRest() {
        if isCancelled { return end { $0.connectionDidCancel(self) } }
        if let failure = exchange.response.failure { return fail(failure) }
        tellHeldHead()
        let error = URLError(
            leavingRestOf: exchange.request.url, after: exchange.response.rest?.value.received ?? 0)
        traceFailure(error)
        finishTransaction(error.localizedDescription)
        end { $0.connection(self, didFailWith: error) }
    }
}

extension URLError {
    private static let leftRestKey = "ConvoyLeftRest"

    fileprivate init(leavingRestOf url: URL?, after count: Int) {
        let error = URLError(
            .timedOut, url: url, "The body of an error was not read to its end: it is too long, or comes too slowly.")
        self.init(error.code, describedBy: error.userInfo.merging([Self.leftRestKey: count]) { $1 })
    }

    /// Whether all is known of the response but the rest of its body, for which ``Connection/limitBodyOfError()`` has set a
    /// limit.
    package var leavesRest: Bool { userInfo[Self.leftRestKey] != nil }
}
