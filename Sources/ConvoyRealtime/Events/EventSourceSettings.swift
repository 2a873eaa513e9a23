import ConvoyReachability
import Foundation

/// What an event source is told by its user. Read when it connects.
struct EventSourceSettings: Sendable {
    var retryInterval: TimeInterval = 3
    var maximumRetryInterval: TimeInterval = 60
    var readTimeout: TimeInterval?
    var reconnectsAfterServerErrors = false
    var reconnectsAfterExcess = false
    var maximumLineLength: Int?
    var maximumEventLength = 8 << 20
    var firstEventID: String?
    /// Where the source learns of the network; tests replace it.
    var network = NetworkSense()
}

/// What a source asks of the network.
package struct NetworkSense: Sendable {
    /// Whether there is no way to a target now.
    package var isAway: @Sendable (NetworkTarget) -> Bool = { $0.isOutOfReach }
    /// Calls the block once there is a way, unless what it returns is released before. Where the flag is set, a way that
    /// there is now does not count before it has gone and come back.
    package var awaitReturn:
        @Sendable (NetworkTarget, _ afterLoss: Bool, @escaping @Sendable () -> Void) throws -> any AnyObject & Sendable = {
            try NetworkReturn.shared.wait(for: $0, afterLoss: $1, $2)
        }

    /// The kernel's word.
    package init() {}
}
