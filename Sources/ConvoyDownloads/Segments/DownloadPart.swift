import ConvoyOperations
import Foundation

/// A range of a file that is fetched by one request and belongs to no other part.
package struct DownloadPart: Sendable, Equatable {
    /// The index of the part's source.
    package let source: Int
    /// The position of the next byte.
    package internal(set) var position: Int64
    /// The end of the range to fetch; nil while the length of the file is unknown.
    package internal(set) var end: Int64?
    /// The end of the range in the response; nil before its head, or if the head does not specify it.
    package internal(set) var responseEnd: Int64?
    /// Whether the request is for a range, rather than for the complete file.
    package let asksForRange: Bool
    /// Whether the response was accepted, so that bytes can arrive.
    package internal(set) var isReceiving = false
    /// The number of bytes from `position` on that are being written, and cannot be reassigned; nil if none.
    package internal(set) var writing: Int64?
    /// The outcome of the part if it is being stopped; otherwise nil.
    package internal(set) var ending: DownloadPlan.End?
    /// The number of received bytes, and the times of the first and the last, in nanoseconds.
    package internal(set) var received: Int64 = 0
    package internal(set) var began: UInt64 = 0
    package internal(set) var last: UInt64 = 0

    /// The number of bytes left to fetch; nil if unknown.
    package var remaining: Int64? { end.map { max(0, $0 - position) } }

    /// Returns whether no bytes have arrived for five seconds.
    func isStalled(at now: UInt64) -> Bool { isReceiving && last > 0 && now &- last > 5_000_000_000 }

    /// Returns the rate in bytes per second since the first byte; nil if there is not enough data.
    func rate(at now: UInt64) -> Double? {
        guard received > 64 << 10 || now &- began > 500_000_000, began > 0, now > began else { return nil }
        return Double(received) / (Double(now - began) / 1e9)
    }
}

/// The source and the byte range that a part requests.
package struct PartRequest: Sendable, Equatable {
    package let id: Int
    package let url: URL
    /// The first and the last position; nil for the complete file. Without a last position, the range extends to the
    /// end.
    package let range: (first: Int64, last: Int64?)?
    /// The validator for `If-Range`.
    package let condition: String?

    package static func == (one: Self, other: Self) -> Bool {
        one.id == other.id && one.url == other.url && one.range?.first == other.range?.first
            && one.range?.last == other.range?.last && one.condition == other.condition
    }
}

/// A URL from which the file can be fetched, and the information collected about it.
package struct DownloadSource: Sendable {
    package let url: URL
    /// The location to which the URL was resolved; nil until the source has responded.
    package var place: ResourcePlace?
    /// The validators of the source's representation of the file; nil if the source has not sent any.
    package var validators: RepresentationFacts.Validators?
    /// Whether the source supports ranges; nil if unknown.
    package var sendsParts: Bool?
    /// The number of consecutive failed parts in the current attempt.
    package var failures = 0
    /// Whether the source has sent bytes in the current attempt, so that a refusal of other requests does not mean that
    /// it is unavailable.
    package var hasSent = false
    /// Whether the source is no longer used in this attempt.
    package var isDropped = false
    /// Whether the source has sent wrong bytes or a different file, and is never used again.
    package var isBad = false
    /// The recent rate of one of the source's parts, in bytes per second; nil if unknown.
    package var rate: Double?

    package init(url: URL) { self.url = url }

    package var isUsable: Bool { !isDropped && !isBad }
}
