import ConvoyOperations
import ConvoySupport
import Foundation

/// A snapshot of the progress and the rate of a download.
public struct DownloadProgress: Sendable, Hashable {
    /// The number of bytes stored, including those of an earlier download.
    public var bytesReceived: Int64
    /// The length of the file, in bytes; nil if unknown.
    public var bytesExpected: Int64?
    /// The current rate, in bytes per second, over the last few seconds; nil until there is enough data.
    public var bytesPerSecond: Double?

    /// The completed fraction, from 0 to 1; nil if the length is unknown.
    public var fractionCompleted: Double? {
        guard let bytesExpected else { return nil }
        return bytesExpected > 0 ? min(1, Double(bytesReceived) / Double(bytesExpected)) : 1
    }

    /// The estimated remaining time, in seconds, at the current rate; nil if unknown or if no bytes are arriving.
    public var timeRemaining: TimeInterval? {
        guard let bytesExpected, let bytesPerSecond else { return nil }
        if bytesReceived >= bytesExpected { return 0 }
        return bytesPerSecond > 0 ? Double(bytesExpected - bytesReceived) / bytesPerSecond : nil
    }

    init(_ progress: TransferProgress) {
        bytesReceived = progress.bytesReceived
        bytesExpected = progress.bytesExpectedToReceive
    }
}

/// The rate over the last seconds, computed from the times at which bytes arrived.
package struct RateMeter: Sendable {
    /// The averaging window, in nanoseconds.
    static let window: UInt64 = 5_000_000_000
    private static let step: UInt64 = 100_000_000

    private var samples: [(time: UInt64, bytes: Int64)] = []
    private var began: UInt64?

    package init() {}

    /// Starts measuring, for example after a pause.
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

    /// Returns the rate in bytes per second; nil during the first fifth of a second.
    package func rate(at now: UInt64) -> Double? {
        guard let began, now > began else { return nil }
        let span = min(now - began, Self.window)
        guard span >= 200_000_000 else { return nil }
        let bytes = samples.filter { now &- $0.time <= Self.window }.reduce(0) { $0 + $1.bytes }
        return Double(bytes) / (Double(span) / 1e9)
    }
}
