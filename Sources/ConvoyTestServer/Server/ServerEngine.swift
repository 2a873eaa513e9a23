import ConvoySupport

/// Serves the connections of a `TestServer`. Can be called from any thread.
protocol ServerEngine: Sendable {
    /// Closes the port and every connection, and returns when that is done. Stopping again has no effect.
    func stop()

    /// Closes every open connection and continues listening. Returns before that has happened.
    func dropConnections()

    /// Wakes a caller that waits for a change of the `ServerState` at a deadline, unless it was woken before.
    func wake(waiter: UInt64, at deadline: MonotonicTime)
}
