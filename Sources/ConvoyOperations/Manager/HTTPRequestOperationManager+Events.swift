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

    /// Says under which context of a distributed trace each attempt of an operation goes out: the operations' provider,
    /// unless they are given another. See `URLConnectionOperation.traceContextProvider`.
    public final var traceContextProvider: URLConnectionOperation.TraceContextProvider? {
        get { settings.withLock { $0.handlers.traceContext } }
        set {
            let old = settings.withLock { settings in
                defer { settings.handlers.traceContext = newValue }
                return settings.handlers.traceContext
            }
            withExtendedLifetime(old) {}
        }
    }
}
