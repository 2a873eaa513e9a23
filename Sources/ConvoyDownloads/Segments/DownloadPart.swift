import Foundation

/// A range of a file that one request is to bring.
package struct DownloadPart: Sendable, Equatable {
    /// The index of its source.
    package let source: Int
    /// The position of the next byte.
    package internal(set) var position: Int64
    /// The position behind the last byte that it is to bring; nil as long as the length of the file is not known. Moves
    /// towards the beginning when another part takes over some of it.
    package internal(set) var end: Int64?
    /// The position behind the last byte that its response will bring; nil before its head, and if nobody knows.
    package internal(set) var responseEnd: Int64?
    /// Whether its request asks for a range, or else for the whole.
    package let asksForRange: Bool
    /// Whether its response was accepted, so that bytes can come.
    package internal(set) var isReceiving = false
    /// Bytes that have come, and when the first and the last did, in nanoseconds.
    package internal(set) var received: Int64 = 0
    package internal(set) var began: UInt64 = 0
    package internal(set) var last: UInt64 = 0

    /// How many bytes it has still to bring; nil if nobody knows.
    package var remaining: Int64? { end.map { max(0, $0 - position) } }

    /// Bytes per second since its first byte, or nil for one that has brought next to nothing.
    func rate(at now: UInt64) -> Double? {
        guard received > 64 << 10 || now &- began > 500_000_000, began > 0, now > began else { return nil }
        return Double(received) / (Double(now - began) / 1e9)
    }
}

/// What a part's request asks for.
package struct PartRequest: Sendable, Equatable {
    package let id: Int
    package let url: URL
    /// The first and the last position; nil for the whole file. Without a last position up to the end.
    package let range: (first: Int64, last: Int64?)?
    /// The validator for `If-Range`.
    package let condition: String?

    package static func == (one: Self, other: Self) -> Bool {
        one.id == other.id && one.url == other.url && one.range?.first == other.range?.first
            && one.range?.last == other.range?.last && one.condition == other.condition
    }
}
