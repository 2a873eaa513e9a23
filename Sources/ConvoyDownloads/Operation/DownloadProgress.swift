import ConvoyOperations
import ConvoySupport
import Foundation

/// How far a download is, and how fast: a snapshot.
public struct DownloadProgress: Sendable, Hashable {
    /// Bytes of the file that are there; those that an earlier download has left are among them.
    public var bytesReceived: Int64
    /// The length of the file in bytes; nil while it is unknown.
    public var bytesExpected: Int64?
    /// Bytes per second in the last seconds, without those that were there before; nil before there are enough to tell.
    public var bytesPerSecond: Double?

    /// The share of the bytes that are there, from 0 to 1; nil while it is unknown how many there will be.
    public var fractionCompleted: Double? {
        guard let bytesExpected else { return nil }
        return bytesExpected > 0 ? min(1, Double(bytesReceived) / Double(bytesExpected)) : 1
    }

    /// The seconds that the rest will take at the rate of the last seconds; nil if that is unknown, or nothing comes.
    public var timeRemaining: TimeInterval? {
        guard let bytesExpected, let bytesPerSecond else { return nil }
        if bytesReceived >= bytesExpected { return 0 }
        return bytesPerSecond > 0 ? Double(bytesExpected - bytesReceived) / bytesPerSecond : nil
    }

    init(_ progress: TransferProgress) {
        (bytesReceived, bytesExpected) = (progress.bytesReceived, progress.bytesExpectedToReceive)
    }
}

/// The rate of the last seconds, from bytes and the times at which they have come.
package struct RateMeter: Sendable {
    /// In nanoseconds.
    static let window: UInt64 = 5_000_000_000
    private static let step: UInt64 = 100_000_000

    private var samples: [(time: UInt64, bytes: Int64)] = []
    private var began: UInt64?

    package init() {}

    /// Time begins to count, for instance after a pause.
    package mutating func begin(at now: UInt64) {
        samples = []
        began = now
    }

    package mutating func note(_ bytes: Int64, at now: UInt64) {
        if began == nil { began = now }
        if let last = samples.last, now &- last.time < Self.step {
            samples[samples.count - 1].bytes += bytes
        } else {
            samples.append((now, bytes))
        }
        if samples.count > 80 { samples.removeAll { now &- $0.time > Self.window } }
    }

    /// Bytes per second; nil in the first fifth of a second.
    package func rate(at now: UInt64) -> Double? {
        guard let began, now > began else { return nil }
        let span = min(now - began, Self.window)
        guard span >= 200_000_000 else { return nil }
        let bytes = samples.filter { now &- $0.time <= Self.window }.reduce(0) { $0 + $1.bytes }
        return Double(bytes) / (Double(span) / 1e9)
    }
}
