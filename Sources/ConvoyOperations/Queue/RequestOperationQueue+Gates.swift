import ConvoySupport
import Foundation

/// The gates of the hosts.
///
/// When a server answers 429 or 503 to a request that has a ``RetryPolicy``, or refuses its connection, the gate of its
/// host closes: requests that have a policy, and could only fail in the same way, wait until it opens; so do those that
/// are redirected to it. All others pass it. After a redirect it is the gate of the host that has answered.
///
/// After a refused connection the gate opens for one request at a time, until the host has answered one of them. A host
/// that has refused for as long as all retries of the policy may take counts as gone: its gate opens, and each request
/// fails by itself.
extension RequestOperationQueue {
    /// A host whose gate is closed, and when it opens.
    public struct ClosedGate: Sendable, Hashable {
        /// The host's name in lower case, with its port unless it is the scheme's own: `example.com`, `127.0.0.1:8080`,
        /// `[::1]:8080`.
        public let host: String
        /// When the gate opens, unless it is closed for longer meanwhile or opened before. In the past where it lets one
        /// request through at a time.
        public let opensAt: Date
    }

    /// The gates that are closed now, sorted by host name.
    ///
    /// A gate stays closed for as long as the response asked for in its `Retry-After`, but for no longer than the
    /// policy's ``RetryPolicy/maximumGateDuration``.
    public final var closedGates: [ClosedGate] {
        state.withLock { $0.lanes.closedGates }
            .map { ClosedGate(host: $0.host, opensAt: scheduler.clock.date(of: $0.deadline)) }
            .sorted { $0.host < $1.host }
    }

    /// Opens the gate of a host early. Operations that wait at it can start at once; one that waits for its own retry
    /// keeps waiting.
    ///
    /// - Parameter host: a name as in ``closedGates``.
    /// - Returns: whether the gate was closed.
    @discardableResult
    public final func openGate(forHost host: String) -> Bool {
        scheduler.openGate(of: HostKey.named(host.lowercased()))
    }

    /// Opens all gates early, like ``openGate(forHost:)``.
    public final func openAllGates() {
        scheduler.openAllGates()
    }

    /// Closes the gate of a host until the queue's clock reaches `deadline` (nanoseconds). A gate that is closed for
    /// longer stays so.
    package final func closeGate(forHost host: String, until deadline: UInt64) {
        scheduler.closeGate(of: HostKey.named(host), until: deadline)
    }
}
