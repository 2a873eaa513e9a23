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
