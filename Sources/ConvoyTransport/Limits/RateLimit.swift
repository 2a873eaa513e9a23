import ConvoySupport
import Foundation
import Synchronization

/// A limit on the number of body bytes per second for all transfers that share this object.
///
/// ```swift
/// let limit = RateLimit(bytesPerSecond: 500_000)
/// manager.receiveRateLimit = limit      // for all operations of the manager together
/// operation.receiveRateLimit = RateLimit(bytesPerSecond: 50_000)  // for this operation, in addition
/// RateLimit.shared.bytesPerSecond = 2_000_000  // for the entire program, in addition
/// limit.bytesPerSecond = nil            // removes the limit
/// ```
///
/// If several limits apply to a transfer, all of them count its bytes, so the strictest one determines the speed.
/// Transfers waiting at a limit take turns, each of a hundredth of a second and at least one block, so that none
/// starves. No thread blocks: bytes that may not be received yet stay with the server, by the flow control of TCP and
/// HTTP/2.
///
/// Bytes are counted before decoding. Heads, TLS overhead and cached bodies are not counted. The average rate is exact
/// after the first moments: up to an eighth of a second can be saved up, and the last block, of at most 16 KiB, may
/// exceed the limit and is then repaid.
///
/// While a limit holds a transfer back, idle timeouts and a `StallLimit` are suspended, but an operation's
/// `totalTimeout` is not. If the same object is used for both directions, it limits their sum.
///
/// All members can be used from any thread.
public final class RateLimit: Sendable {
    /// The limit for everything that the program receives. Unlimited until its `bytesPerSecond` is set.
    public static let shared = RateLimit()

    /// The limit for everything that the program sends. Unlimited until its `bytesPerSecond` is set.
    public static let sharedForSending = RateLimit()

    private struct State {
        var bucket: TokenBucket
        var line = WaitingLine()
        /// The number of changes to the rate.
        var rateNumber: UInt64 = 0

        /// Grants turns in order while enough bytes for a turn are available.
        mutating func serve(at now: MonotonicTime) -> Served {
            var served = Served()
            while let first = line.first, bucket.hasTurn(at: now) {
                line.remove(first)
                let grant = max(first.needed, bucket.turn)
                bucket.take(grant)
                first.granted = (first.rateNumber == rateNumber ? first.granted : 0) + grant
                first.rateNumber = rateNumber
                served.granted.append(first)
            }
            if let first = line.first, let time = bucket.timeOfTurn(at: now) { served.next = (first, time) }
            return served
        }
    }

    /// The work to do after the lock is released.
    private struct Served {
        var granted: [RateWaiter] = []
        /// The waiter that must serve the queue again, and the time to do so.
        var next: (waiter: RateWaiter, time: MonotonicTime)?
    }

    private let state: ContendedLock<State>
    /// The rate, readable without the lock; `unlimited` for no limit.
    private let rate: Atomic<Int64>
    private static let unlimited: Int64 = -1

    /// Creates a limit.
    ///
    /// - Parameter bytesPerSecond: The rate; nil for no limit initially.
    public init(bytesPerSecond: Int64? = nil) {
        let bucket = TokenBucket(rate: bytesPerSecond, at: MonotonicClock.now)
        state = ContendedLock(State(bucket: bucket))
        rate = Atomic(bucket.rate ?? Self.unlimited)
    }

    /// The maximum number of bytes per second; nil for no limit. 0 or a negative number holds all transfers back until
    /// the rate is changed.
    ///
    /// It can be changed at any time. A change takes effect immediately, including for running transfers.
    public var bytesPerSecond: Int64? {
        get {
            let rate = rate.load(ordering: .relaxed)
            return rate == Self.unlimited ? nil : rate
        }
        set {
            let now = MonotonicClock.now
            let served = state.withLock { state in
                state.bucket.setRate(newValue, at: now)
                rate.store(state.bucket.rate ?? Self.unlimited, ordering: .relaxed)
                state.rateNumber &+= 1
                return state.serve(at: now)
            }
            carryOut(served)
        }
    }

    // MARK: Used by transfers

    /// Whether the rate is limited. Takes no lock.
    var isLimiting: Bool { rate.load(ordering: .relaxed) != Self.unlimited }

    /// The number of transfers waiting for a turn.
    package var waiterCount: Int { state.withLock { $0.line.count } }

    /// Returns whether the given number of bytes may pass. If they may, they are reserved until `use`. If not, the
    /// waiter joins the queue and is woken when they may. Called on the waiter's thread.
    func admits(_ count: Int, of waiter: RateWaiter) -> Bool {
        let now = MonotonicClock.now
        let (isAdmitted, time) = state.withLock { state -> (Bool, MonotonicTime?) in
            guard state.bucket.rate != nil else { return (true, nil) }
            if waiter.rateNumber != state.rateNumber { waiter.granted = 0 }
            waiter.rateNumber = state.rateNumber
            let missing = Double(count) - waiter.granted
            guard missing > 0 else { return (true, nil) }
            if state.line.isEmpty, state.bucket.isOpen(at: now) {
                state.bucket.take(missing)
                waiter.granted = Double(count)
                return (true, nil)
            }
            waiter.needed = missing
            state.line.append(waiter)
            return (false, state.line.count == 1 ? state.bucket.timeOfTurn(at: now) : nil)
        }
        if let time { waiter.serveLimit(at: time) }
        return isAdmitted
    }

    /// Counts bytes that passed after being admitted.
    func use(_ count: Int, by waiter: RateWaiter) {
        state.withLock { _ in waiter.granted = max(0, waiter.granted - Double(count)) }
    }

    /// Counts bytes that passed without being admitted.
    func charge(_ count: Int) {
        let now = MonotonicClock.now
        state.withLock { state in
            // Fill the bucket first, so that saved-up bytes count.
            _ = state.bucket.isOpen(at: now)
            state.bucket.take(Double(count))
        }
    }

    /// Grants due turns. Called by the timer of the first waiter, on its thread.
    func serve() {
        let now = MonotonicClock.now
        carryOut(state.withLock { $0.serve(at: now) })
    }

    /// Returns unused grants, and removes the waiter from the queue. Called on the waiter's thread.
    func leave(_ waiter: RateWaiter) {
        let now = MonotonicClock.now
        let served = state.withLock { state -> Served in
            state.line.remove(waiter)
            if waiter.rateNumber == state.rateNumber { state.bucket.giveBack(waiter.granted) }
            waiter.granted = 0
            return state.serve(at: now)
        }
        waiter.cancelTimer()
        carryOut(served)
    }

    private func carryOut(_ served: Served) {
        for waiter in served.granted { waiter.wake() }
        if let (waiter, time) = served.next { waiter.serveLimit(at: time) }
    }
}

extension RateLimit: Hashable {
    /// Returns whether both are the same object.
    public static func == (left: RateLimit, right: RateLimit) -> Bool { left === right }

    /// Hashes the identity of the object.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// The participation of a transfer in a rate limit: its grant, and its position in the queue.
final class RateWaiter: @unchecked Sendable {
    let limit: RateLimit
    private let thread: NetworkThread
    private let proceed: @Sendable () -> Void

    // The limit's lock guards the following properties.

    /// The number of the waiter's position in the queue; nil if it is not queued.
    @exclusivity(unchecked) var place: Int?
    /// The number of bytes that the transfer needs to continue.
    @exclusivity(unchecked) var needed = 0.0
    /// The number of bytes that may pass before the next request.
    @exclusivity(unchecked) var granted = 0.0
    /// The `rateNumber` of the limit at the time of the grant, which a change invalidates.
    @exclusivity(unchecked) var rateNumber: UInt64 = 0

    /// The timer that makes the limit serve its queue. Used on the network thread only.
    @exclusivity(unchecked) private var timer: RunLoopTimer?

    /// - Parameters:
    ///   - thread: The transfer's thread, on which all members are used, except those guarded by the limit's lock.
    ///   - proceed: Called on the thread when enough bytes to continue are available.
    init(at limit: RateLimit, thread: NetworkThread, proceed: @escaping @Sendable () -> Void) {
        self.limit = limit
        self.thread = thread
        self.proceed = proceed
    }

    /// Resumes the transfer. Can be called from any thread.
    func wake() { thread.perform { self.proceed() } }

    /// Makes the limit serve its queue at the given time. Can be called from any thread.
    func serveLimit(at deadline: MonotonicTime) {
        if thread.runLoop?.isCurrent == true { return setTimer(to: deadline) }
        thread.perform { self.setTimer(to: deadline) }
    }

    private func setTimer(to deadline: MonotonicTime) {
        let timer = timer ?? RunLoopTimer { [limit] in limit.serve() }
        self.timer = timer
        thread.runLoop?.schedule(timer, at: deadline)
    }

    func cancelTimer() {
        if let timer { thread.runLoop?.cancel(timer) }
    }
}

/// The waiters of a rate limit in order of arrival. All calls take amortized constant time.
struct WaitingLine {
    /// The waiters from `start` on; nil for a waiter that has left.
    private var places: [RateWaiter?] = []
    private var start = 0
    /// The number of the first element of `places`.
    private var offset = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    var first: RateWaiter? { start < places.count ? places[start] : nil }

    /// Adds a waiter that is not in any queue.
    mutating func append(_ waiter: RateWaiter) {
        waiter.place = offset + places.count
        places.append(waiter)
        count += 1
    }

    /// Removes a waiter from any position. Does nothing if it is not queued.
    mutating func remove(_ waiter: RateWaiter) {
        guard let place = waiter.place else { return }
        waiter.place = nil
        places[place - offset] = nil
        count -= 1
        while start < places.count, places[start] == nil { start += 1 }
        if places.count > 32, count < places.count / 2 { closeGaps() }
    }

    private mutating func closeGaps() {
        offset += places.count
        places = places.filter { $0 != nil }
        start = 0
        for (index, waiter) in places.enumerated() { waiter?.place = offset + index }
    }
}

/// A token bucket: the number of bytes that may pass now, at a given rate. A value type; each call is passed the time.
///
/// Blocks cannot be divided, so a block may take more bytes than the bucket contains. The bucket is then in debt, and
/// nothing passes until the debt is repaid. The average rate is therefore exact, regardless of the block size.
struct TokenBucket {
    /// The rate in bytes per second; nil for no limit, and 0 if nothing may pass.
    private(set) var rate: Int64?
    /// The balance in bytes; a debt if negative.
    private(set) var balance = 0.0
    private var filledAt: MonotonicTime

    /// - Parameter rate: The rate; a negative rate counts as 0.
    init(rate: Int64?, at now: MonotonicTime) {
        self.rate = rate.map { max(0, $0) }
        filledAt = now
        balance = burst
    }

    /// The maximum savings: an eighth of a second, so that a delayed thread does not lower the average.
    var burst: Double { rate.map { $0 > 0 ? max(1, Double($0) / 8) : 0 } ?? 0 }

    /// The size of a turn when several transfers wait: a hundredth of a second, which limits how often threads wake.
    var turn: Double { rate.map { max(1, Double($0) / 100) } ?? 0 }

    /// Changes the rate. Savings above the maximum for the new rate are lost; a debt remains and is repaid at the new
    /// rate.
    mutating func setRate(_ newRate: Int64?, at now: MonotonicTime) {
        fill(at: now)
        let wasLimited = rate != nil
        rate = newRate.map { max(0, $0) }
        balance = wasLimited ? min(balance, burst) : burst
    }

    /// Returns whether a block may pass.
    mutating func isOpen(at now: MonotonicTime) -> Bool {
        fill(at: now)
        return rate == nil || balance > 0
    }

    /// Returns whether enough bytes for a turn have been saved up.
    mutating func hasTurn(at now: MonotonicTime) -> Bool {
        guard let rate else { return true }
        fill(at: now)
        return rate > 0 && balance >= turn
    }

    /// Returns the time at which enough bytes for a turn will be available if none are taken until then; nil if that
    /// never happens.
    mutating func timeOfTurn(at now: MonotonicTime) -> MonotonicTime? {
        guard let rate else { return now }
        guard rate > 0 else { return nil }
        fill(at: now)
        // Add a microsecond, so that rounding does not make the time too early.
        return Nanoseconds.deadline(max(0, turn - balance) / Double(rate) + 1e-6, after: now)
    }

    /// Takes bytes, even if the bucket does not contain enough.
    mutating func take(_ count: Double) {
        if rate != nil { balance -= count }
    }

    /// Returns unused bytes.
    mutating func giveBack(_ count: Double) {
        if rate != nil { balance = min(burst, balance + count) }
    }

    private mutating func fill(at now: MonotonicTime) {
        guard now > filledAt else { return }
        if let rate { balance = min(burst, balance + Double(now - filledAt) * Double(rate) / 1e9) }
        filledAt = now
    }
}
