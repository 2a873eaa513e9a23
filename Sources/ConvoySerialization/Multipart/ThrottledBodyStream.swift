import Foundation

/// A request body that asks to be sent slowly.
///
/// The transport pauses the transfer for ``delay`` after each ``packetSize`` bytes. The stream itself never sleeps.
public protocol ThrottledBodyStream {
    /// The number of bytes between two pauses; `Int.max` for no pauses.
    var packetSize: Int { get }
    /// The length of a pause, in seconds.
    var delay: TimeInterval { get }
}
