import ConvoySupport
import Foundation

/// The minimum speed of a transfer: one that moves fewer bytes a second on average over some time fails with
/// `URLError.timedOut`, and can be retried as after any timeout.
///
/// ```swift
/// manager.stallLimit = StallLimit(bytesPerSecond: 1_000, duration: 30)
/// ```
///
/// What counts is the time in which a body could move: while the request's body is sent, and from the head of the
/// response to its end. Making the connection and waiting for the head do not count; `idleTimeout` and
/// `timeoutIntervalForHead` limit those. Nor does time in which this side holds the transfer back: for a `RateLimit`, a
/// slow output stream, a body that is not available yet, or a decision about a redirect. Bytes are counted as they
/// travel, in both directions.
public struct StallLimit: Sendable, Hashable {
    /// How many bytes must move in a second, on average. With 0 or less there is no limit.
    public var bytesPerSecond: Int64

    /// Over how many seconds the average is taken. If that is not a positive number, there is no limit.
    public var duration: TimeInterval

    /// A limit for a transfer.
    ///
    /// - Parameters:
    ///   - bytesPerSecond: how many bytes must move in a second.
    ///   - duration: over how many seconds the average is taken.
    public init(bytesPerSecond: Int64, duration: TimeInterval) {
        self.bytesPerSecond = bytesPerSecond
        self.duration = duration
    }
}

/// Measures whether a transfer is slower than its ``StallLimit``: a value; each call is passed the time.
///
/// The time of the limit is divided into ten parts. At the end of each, the bytes of the last ten are compared with the
/// limit, so a transfer that stalls is found within eleven parts.
struct StallMeter {
    private static let partCount = 10

    private var parts = InlineArray<10, Int64>(repeating: 0)
    private var current = 0
    private var completed = 0
    private let partLength: UInt64
    private let needed: Double
    /// How much of the current part is over, as of `time`.
    private var elapsed: UInt64 = 0
    private var time: MonotonicTime
    private(set) var isCounting = false
    private(set) var isStalled = false

    /// nil without a limit.
    init?(_ limit: StallLimit, at now: MonotonicTime) {
        guard limit.bytesPerSecond > 0, limit.duration > 0, limit.duration < 1e9 else { return nil }
        // At least a millisecond, which is what the timers can tell apart.
        partLength = max(1_000_000, Nanoseconds.clamping(seconds: limit.duration / Double(Self.partCount)))
        needed = Double(limit.bytesPerSecond) * Double(partLength) * Double(Self.partCount) / 1e9
        time = now
    }

    /// When the current part ends; nil while time does not count.
    var nextCheck: MonotonicTime? { isCounting ? time &+ (partLength - elapsed) : nil }

    /// Sets whether time counts from now on.
    mutating func setCounting(_ counts: Bool, at now: MonotonicTime) {
        advance(to: now)
        isCounting = counts
    }

    /// Counts bytes that have moved.
    mutating func add(_ count: Int) {
        let (sum, overflow) = parts[current].addingReportingOverflow(Int64(count))
        parts[current] = overflow ? .max : sum
    }

    /// Advances the time by one part at most: a longer gap means that the program or the machine was asleep, which is
    /// not the server's fault.
    mutating func advance(to now: MonotonicTime) {
        guard now > time else { return }
        defer { time = now }
        guard isCounting else { return }
        elapsed += min(now - time, partLength)
        guard elapsed >= partLength else { return }
        elapsed -= partLength
        completed = min(completed + 1, Self.partCount)
        if completed == Self.partCount {
            isStalled = parts.indices.reduce(0.0) { $0 + Double(parts[$1]) } < needed
        }
        current = (current + 1) % Self.partCount
        parts[current] = 0
    }
}
