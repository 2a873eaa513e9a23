import ConvoyReachability
import ConvoySupport

/// Whether there is a network.
extension HTTPRequestOperationManager {
    /// Tells whether there is a network; `.shared`, unless set. As in AFNetworking it is not asked by the operations, and
    /// monitors nothing until it is started; ``waitsForConnectivity`` lets operations wait for a network.
    public final var reachabilityManager: NetworkReachabilityManager {
        get { settings.withLock { $0.reachabilityManager } }
        set {
            let old = settings.withLock { settings in
                defer { settings.reachabilityManager = newValue }
                return settings.reachabilityManager
            }
            withExtendedLifetime(old) {}
        }
    }
}
