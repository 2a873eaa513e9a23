import ConvoySupport

/// What serves the connections of a `TestServer`. May be called from any thread.
protocol ServerEngine: Sendable {
    /// Closes the port and every connection, and returns when that is done. Stopping twice does nothing more.
    func stop()

    /// Closes every open connection and goes on listening. Returns before that has happened.
    func dropConnections()

    /// Wakes a caller that waits for a change of the `ServerState`, if nothing has woken it by then.
    func wake(waiter: UInt64, at deadline: MonotonicTime)
}
