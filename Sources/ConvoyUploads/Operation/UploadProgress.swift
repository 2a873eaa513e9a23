import Foundation

/// How far an upload is: a snapshot. It counts what the server has confirmed, and never what was only sent.
public struct UploadProgress: Sendable, Hashable {
    /// Bytes that the server has confirmed; those of an earlier upload that this one goes on with are among them.
    public var bytesConfirmed: Int64
    /// How many bytes there are; nil while that is unknown.
    public var bytesExpected: Int64?
    /// Bytes per second in the last seconds; nil before there are enough to tell.
    public var bytesPerSecond: Double?

    /// The share of the bytes that are confirmed, from 0 to 1; nil while it is unknown how many there will be.
    public var fractionCompleted: Double? {
        guard let bytesExpected else { return nil }
        return bytesExpected > 0 ? min(1, Double(bytesConfirmed) / Double(bytesExpected)) : 1
    }

    /// The seconds that the rest will take at the rate of the last seconds; nil if that is unknown, or nothing moves.
    public var timeRemaining: TimeInterval? {
        guard let bytesExpected, let bytesPerSecond else { return nil }
        if bytesConfirmed >= bytesExpected { return 0 }
        return bytesPerSecond > 0 ? Double(bytesExpected - bytesConfirmed) / bytesPerSecond : nil
    }
}
