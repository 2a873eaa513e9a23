import ConvoyOperations
import Foundation

/// A URL that a file can be fetched from, and what is known of it.
package struct DownloadSource: Sendable {
    package let url: URL
    /// The place that it has led to; nil until it has answered.
    package var place: ResourcePlace?
    /// What identifies its representation of the file; nil if it has told nothing that does.
    package var validators: KnownRepresentation.Validators?
    /// Whether it has shown that it sends parts, or the opposite; nil as long as nobody knows.
    package var sendsParts: Bool?
    /// How many of its parts in a row have failed in the try that is under way.
    package var failures = 0
    /// Whether it has sent bytes in the try that is under way, and so is not gone where it refuses others.
    package var hasSent = false
    /// Whether it is not asked any more in this try.
    package var isDropped = false
    /// Whether it has sent wrong bytes, or another file, and is never asked again.
    package var isBad = false
    /// Bytes per second that one of its parts has come with lately; nil as long as nobody knows.
    package var rate: Double?

    package init(url: URL) { self.url = url }

    package var isUsable: Bool { !isDropped && !isBad }
}
