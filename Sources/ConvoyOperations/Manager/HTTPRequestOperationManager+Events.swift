/// Who hears what happens to operations.
extension HTTPRequestOperationManager {
    /// Who hears what happens to the operations: why they wait, what their requests do, and how they end. None by default,
    /// which costs nothing.
    ///
    /// Setting it is for operations that are made later.
    public final var eventMonitors: [EventMonitor] {
        get { settings.withLock { $0.common.eventMonitors } }
        set { change { $0.eventMonitors = newValue } }
    }
}
