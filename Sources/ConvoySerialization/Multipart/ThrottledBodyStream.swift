import Foundation

/// A request body that asks to be sent slowly.
///
/// The transport sends ``packetSize`` bytes in ``delay`` seconds, on average, and spreads them evenly: a rate limit for this
/// body alone, besides others. The stream itself never sleeps.
public protocol ThrottledBodyStream {
    /// The number of bytes; `Int.max` for no limit.
    var packetSize: Int { get }
    /// In how many seconds they are sent; zero or less for no limit.
    var delay: TimeInterval { get }
}
