import ConvoyOperations
import Foundation

/// A range of a file that one request is to bring, and that no other part has.
package struct DownloadPart: Sendable, Equatable {
    /// The index of its source.
    package let source: Int
    /// The position of the next byte.
    package internal(set) var position: Int64
    /// The position behind the last byte that it is to bring; nil while the length of the file is unknown.
    package internal(set) var end: Int64?
    /// The position behind the last byte that its response will bring; nil before its head, and if the head does not say.
    package internal(set) var responseEnd: Int64?
    /// Whether its request asks for a range, or else for the whole.
    package let asksForRange: Bool
    /// Whether its response was accepted, so that bytes can come.
    package internal(set) var isReceiving = false
    /// How many bytes from `position` on are being written, and stay its own; nil while none are.
    package internal(set) var writing: Int64?
    /// How it ends, once that is known: it is being stopped then.
    package internal(set) var ending: DownloadPlan.End?
    /// Bytes that have come, and when the first and the last did, in nanoseconds.
    package internal(set) var received: Int64 = 0
    package internal(set) var began: UInt64 = 0
    package internal(set) var last: UInt64 = 0

    /// How many bytes it has still to bring; nil if that is unknown.
    package var remaining: Int64? { end.map { max(0, $0 - position) } }

    /// Whether it has brought nothing for five seconds.
    func isStalled(at now: UInt64) -> Bool { isReceiving && last > 0 && now &- last > 5_000_000_000 }

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

/// A URL that a file can be fetched from, and what is known of it.
package struct DownloadSource: Sendable {
    package let url: URL
    /// The place that it has led to; nil until it has answered.
    package var place: ResourcePlace?
    /// What identifies its representation of the file; nil if it has said nothing that does.
    package var validators: KnownRepresentation.Validators?
    /// Whether it has shown that it sends parts, or the opposite; nil while that is unknown.
    package var sendsParts: Bool?
    /// How many of its parts in a row have failed in the try that is under way.
    package var failures = 0
    /// Whether it has sent bytes in the try that is under way, and so is not gone where it refuses others.
    package var hasSent = false
    /// Whether it is not asked any more in this try.
    package var isDropped = false
    /// Whether it has sent wrong bytes, or another file, and is never asked again.
    package var isBad = false
    /// Bytes per second that one of its parts has come with lately; nil while that is unknown.
    package var rate: Double?

    package init(url: URL) { self.url = url }

    package var isUsable: Bool { !isDropped && !isBad }
}
