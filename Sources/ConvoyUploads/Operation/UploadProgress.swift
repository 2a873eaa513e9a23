import Foundation

/// A snapshot of the progress of an upload. It counts bytes confirmed by the server, not bytes that were only sent.
public struct UploadProgress: Sendable, Hashable {
    /// The number of confirmed bytes, including those of an earlier upload that this one resumes.
    public var bytesConfirmed: Int64
    /// The total number of bytes; nil if unknown.
    public var bytesExpected: Int64?
    /// The current rate, in bytes per second, over the last few seconds; nil until there is enough data.
    public var bytesPerSecond: Double?

    /// The confirmed fraction, from 0 to 1; nil if the length is unknown.
    public var fractionCompleted: Double? {
        guard let bytesExpected else { return nil }
        return bytesExpected > 0 ? min(1, Double(bytesConfirmed) / Double(bytesExpected)) : 1
    }

    /// The estimated remaining time, in seconds, at the current rate; nil if unknown, or without progress.
    public var timeRemaining: TimeInterval? {
        guard let bytesExpected, let bytesPerSecond else { return nil }
        if bytesConfirmed >= bytesExpected { return 0 }
        return bytesPerSecond > 0 ? Double(bytesExpected - bytesConfirmed) / bytesPerSecond : nil
    }
}
