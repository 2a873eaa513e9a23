import ConvoySupport
import Foundation
import FoundationNetworking

/// A limit on the size and the duration of reading the rest of a response, if the rest does not affect the result.
struct DrainLimit: Sendable {
    /// The maximum number of encoded bytes to read.
    let bytes: Int
    /// The interval between checks, in nanoseconds.
    let interval: MonotonicTime
    /// The minimum number of bytes that must arrive in each interval to continue.
    let bytesInInterval: Int
    /// The maximum number of intervals.
    let intervals: Int
    /// Whether the bytes are discarded.
    let isDiscarded: Bool

    /// The limit for the body of a redirect, or of a response that a stored one replaces. Reading a short body is
    /// cheaper than opening a new connection.
    static let unneeded = DrainLimit(
        bytes: 64 << 10, interval: 200_000_000, bytesInInterval: .max, intervals: 1, isDiscarded: true)
    /// The limit for the body of an error response, which explains the error. The body is read as long as bytes keep
    /// arriving.
    static let error = DrainLimit(
        bytes: 1 << 20, interval: 1_000_000_000, bytesInInterval: 1 << 10, intervals: 10, isDiscarded: false)
    /// The limit for a challenge when libcurl negotiates authentication. libcurl discards the body and continues on the
    /// same connection.
    static let negotiation = DrainLimit(
        bytes: .max, interval: 5_000_000_000, bytesInInterval: .max, intervals: 1, isDiscarded: false)
}

/// A meter that decides when to stop reading the rest of a response. A value type without I/O.
struct DrainMeter {
    let limit: DrainLimit
    /// The number of bytes that have arrived, up to the limit.
    private(set) var received = 0
    /// Whether more bytes have arrived than the limit allows.
    private(set) var isExhausted = false
    /// The time of the next check.
    private(set) var deadline: MonotonicTime
    private var receivedBefore = 0
    private var intervals = 1

    init(_ limit: DrainLimit, at now: MonotonicTime) {
        self.limit = limit
        deadline = now + limit.interval
    }

    /// Counts arrived bytes. Returns false if they exceed the limit.
    mutating func take(_ count: Int) -> Bool {
        if received + count > limit.bytes { isExhausted = true }
        if !isExhausted { received += count }
        return !isExhausted
    }

    /// Returns whether to stop reading now.
    mutating func isOver(at now: MonotonicTime) -> Bool {
        guard now >= deadline else { return false }
        guard received - receivedBefore >= limit.bytesInInterval, intervals < limit.intervals else { return true }
        intervals += 1
        receivedBefore = received
        deadline = now + limit.interval
        return false
    }

    /// Restarts the current interval, because this side has held the response back.
    mutating func postpone(to now: MonotonicTime) { deadline = max(deadline, now + limit.interval) }
}

/// Reads, within limits, the rest of a redirect, of a response that a stored one replaces, or of an error response.
extension URLConnection {
    /// Whether the rest of the response is discarded.
    private var isRestUnneeded: Bool {
        switch phase {
        case .following, .replacing: true
        default: false
        }
    }

    /// Whether the rest of a held-back response can be dropped immediately, because it may never arrive.
    var mayLeaveRest: Bool { isRestUnneeded && exchange.response.failure == nil && exchange.heldResult == nil }

    /// Returns whether to read the rest of a response after its head, either to keep its connection or to complete the
    /// cached body. Returns false to abort the transfer, if the end of the body would close the connection anyway.
    func awaitsRest(of response: ResponseHead) -> Bool {
        guard isRestUnneeded, mayHaveRest(response) else { return true }
        if exchange.response.cacheWriter == nil,
            exchange.head.isEndedByConnection || response.contentLength ?? 0 > DrainLimit.unneeded.bytes
        {
            return false
        }
        limitRest(to: .unneeded)
        return true
    }

    /// Limits the rest of an error response; see ``Connection/limitBodyOfError()``. Only for the delegate's methods.
    public func limitBodyOfError() {
        guard case .loading = phase, exchange.replay == nil, exchange.head.isWhole, mayHaveRest(receivedHead) else { return }
        limitRest(to: .error)
    }

    /// Limits the time that libcurl spends discarding the body of an intermediate response in a negotiation.
    func limitRestOfHeldHead(_ response: ResponseHead) {
        if response.asksForCredentials, mayHaveRest(response) { limitRest(to: .negotiation) }
    }

    private func mayHaveRest(_ response: ResponseHead) -> Bool {
        exchange.request.method != "HEAD" && response.statusCode != 304 && response.contentLength != 0
            && exchange.heldResult == nil
    }

    private func limitRest(to limit: DrainLimit) {
        guard let runLoop = thread.runLoop else { return }
        let meter = DrainMeter(limit, at: runLoop.turnTime)
        exchange.response.rest = Reference(meter)
        handle?.schedule(at: meter.deadline, on: runLoop)
    }

    /// Returns whether to stop reading the rest now.
    func isRestOver(_ rest: Reference<DrainMeter>, at now: MonotonicTime) -> Bool {
        if isRestUnneeded { return now >= nextDeadline ?? .max }
        guard case .loading = phase, exchange.heldResult == nil else { return false }
        if exchange.flow.isHeldBack || !exchange.flow.isFree { rest.value.postpone(to: now) }
        return rest.value.isOver(at: now)
    }

    /// Continues without the rest, and closes the connection. Must not be called from a libcurl callback.
    func giveUpRest(_ handle: EasyHandle) {
        thread.multi?.stop(handle)
        if isRestUnneeded { leaveRest(isWhole: false) } else { endWithoutRest() }
    }

    /// Continues after a response whose body is not needed, whether complete or not.
    func leaveRest(isWhole: Bool) {
        if isCancelled { return end { $0.connectionDidCancel(self) } }
        if let failure = exchange.response.failure { return fail(failure) }
        switch phase {
        case .replacing(let stored): replay(stored)
        // The cache stores only complete bodies.
        case .following(let request) where isWhole: finishStoring { $0.follow(request) }
        case .following(let request): follow(request)
        default: return
        }
    }

    /// Ends the transfer with the part of an error response's body that has arrived.
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

    package init(leavingRestOf url: URL?, after count: Int) {
        let error = URLError(
            .timedOut, url: url, "The body of the error response was not read completely: it is too long or too slow.")
        self.init(error.code, describedBy: error.userInfo.merging([Self.leftRestKey: count]) { $1 })
    }

    /// Whether the only failure is that the rest of an error response's body exceeded the limit of
    /// ``Connection/limitBodyOfError()``.
    package var leavesRest: Bool { userInfo[Self.leftRestKey] != nil }
}
