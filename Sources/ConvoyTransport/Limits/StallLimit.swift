import ConvoySupport
import Foundation

/// The minimum speed of a transfer. If the average speed over a period falls below it, the transfer fails with
/// `URLError.timedOut` and can be retried as after any timeout.
///
/// ```swift
/// manager.stallLimit = StallLimit(bytesPerSecond: 1_000, duration: 30)
/// ```
///
/// Only the time in which a body could be transferred counts: while the request's body is being sent, and from the head
/// of the response to its end. Connecting and waiting for the head do not count; `idleTimeout` and
/// `timeoutIntervalForHead` limit those. Time in which this side holds the transfer back does not count either, because
/// it is waiting for a `RateLimit`, a slow output stream, a body that is not available yet, or a decision about a
/// redirect. Bytes are counted before decoding, in both directions.
public struct StallLimit: Sendable, Hashable {
    /// The minimum average number of bytes per second. 0 or less means no limit.
    public var bytesPerSecond: Int64

    /// The period for the average, in seconds. The limit is ignored unless the period is positive.
    public var duration: TimeInterval

    /// Creates a limit.
    ///
    /// - Parameters:
    ///   - bytesPerSecond: The minimum average number of bytes per second.
    ///   - duration: The period for the average, in seconds.
    public init(bytesPerSecond: Int64, duration: TimeInterval) {
        self.bytesPerSecond = bytesPerSecond
        self.duration = duration
    }
}

/// A meter that detects whether a transfer is slower than its ``StallLimit``. A value type; each call is passed the
/// time.
///
/// The period of the limit is divided into ten parts. At the end of each part, the bytes of the last ten parts are
/// compared with the limit, so a stalled transfer is detected within eleven parts.
struct StallMeter {
    private static let partCount = 10

    private var parts = InlineArray<10, Int64>(repeating: 0)
    private var current = 0
    private var completed = 0
    private let partLength: UInt64
    private let needed: Double
    /// The elapsed time of the current part, as of `time`.
    private var elapsed: UInt64 = 0
    private var time: MonotonicTime
    private(set) var isCounting = false
    private(set) var isStalled = false

    /// Creates a meter; nil for a limit that does not apply.
    init?(_ limit: StallLimit, at now: MonotonicTime) {
        guard limit.bytesPerSecond > 0, limit.duration > 0, limit.duration < 1e9 else { return nil }
        // Use at least a millisecond, which is the resolution of the timers.
        partLength = max(1_000_000, Nanoseconds.clamping(seconds: limit.duration / Double(Self.partCount)))
        needed = Double(limit.bytesPerSecond) * Double(partLength) * Double(Self.partCount) / 1e9
        time = now
    }

    /// The end of the current part; nil while time does not count.
    var nextCheck: MonotonicTime? { isCounting ? time &+ (partLength - elapsed) : nil }

    /// Starts or stops counting time, for example while the transfer is paused.
    mutating func setCounting(_ counts: Bool, at now: MonotonicTime) {
        advance(to: now)
        isCounting = counts
    }

    /// Counts transferred bytes.
    mutating func add(_ count: Int) {
        let (sum, overflow) = parts[current].addingReportingOverflow(Int64(count))
        parts[current] = overflow ? .max : sum
    }

    /// Advances the time by at most one part. A longer gap means that the program or the machine was suspended, which
    /// is not the server's fault.
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
