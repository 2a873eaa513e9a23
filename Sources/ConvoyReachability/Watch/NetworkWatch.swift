import ConvoySupport

/// Tells listeners when the network has changed. They all share one thread and one socket, which are there as long as there
/// are listeners.
final class NetworkWatch: Sendable {
    static let shared = NetworkWatch()

    private struct Use {
        var session: WatchSession?
        /// How many listeners the session has.
        var count = 0
    }

    private let settings: WatchSettings
    private let state = Locked(Use())

    init(settings: WatchSettings = WatchSettings()) { self.settings = settings }

    /// Calls a listener soon, and when the network has changed. It is held until the closure is called that this returns,
    /// once.
    func add(_ listener: any NetworkListener) throws(SystemError) -> @Sendable () -> Void {
        let session = try state.withLock { state throws(SystemError) -> WatchSession in
            let session = if let session = state.session { session } else { try WatchSession.start(settings) }
            state.session = session
            state.count += 1
            session.add(listener)
            return session
        }
        return { [self] in
            session.remove(listener)
            state.withLock { state in
                state.count -= 1
                guard state.count == 0 else { return }
                state.session?.end()
                state.session = nil
            }
        }
    }

    /// Has ``NetworkListener/refresh(_:)`` called.
    func refresh(_ listener: any NetworkListener) { state.withLock { $0.session }?.refresh(listener) }

    /// What it has done so far; all zero while nobody listens. For tests.
    var counts: WatchSession.Counts { state.withLock { $0.session }?.counts ?? WatchSession.Counts() }
}
