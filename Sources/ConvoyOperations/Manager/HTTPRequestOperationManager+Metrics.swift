/// What operations take.
extension HTTPRequestOperationManager {
    /// Whether the operations collect their metrics (``URLConnectionOperation/metrics``): how long they wait for what, and
    /// how long each phase of each request takes. False by default, which costs nothing.
    ///
    /// Setting it is for operations that are made later.
    public final var collectsMetrics: Bool {
        get { settings.withLock { $0.common.collectsMetrics } }
        set { change { $0.collectsMetrics = newValue } }
    }
}
