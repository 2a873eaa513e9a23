/// Hears of each change of an operation's lifecycle before anybody else, and may let what follows from it wait.
package protocol OperationSupervisor: Sendable {
    /// The lifecycle has changed. `proceed` carries out what follows from that, and tells others; it must be called once,
    /// now or later, on any thread. Called on any thread, and must not block.
    func operation(
        _ operation: URLConnectionOperation, changes transition: AtomicLifecycle.Transition,
        proceed: @escaping @Sendable () -> Void)
}

extension URLConnectionOperation {
    /// Sets who hears of changes first. To be set before anybody else knows the operation. A copy has none.
    package final func setSupervisor(_ supervisor: any OperationSupervisor) {
        setHandler(\.supervisor, supervisor)
        onlookers.insert(.supervisor)
    }

    /// Who hears of changes first; nil, as a rule, for nobody, and when the handlers have run.
    final var supervisor: (any OperationSupervisor)? {
        onlookers.contains(.supervisor) ? core.withLock { $0.rareHandlers?.supervisor } : nil
    }
}
