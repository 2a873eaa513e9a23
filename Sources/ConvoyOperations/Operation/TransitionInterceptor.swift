/// An observer that is called with each change to an operation's lifecycle before anything else, and that may delay the
/// consequences.
package protocol TransitionInterceptor: Sendable {
    /// Called with a change, on any thread. Must not block. `proceed` performs the consequences of the change, and must
    /// be called once, immediately or later, on any thread.
    func operation(
        _ operation: URLConnectionOperation, changes transition: AtomicLifecycle.Transition,
        proceed: @escaping @Sendable () -> Void)

    /// Called before the operation waits for a retry, on any thread. Must not block.
    ///
    /// - Parameter countedRetries: The number of retries counted against `RetryPolicy.maximumRetryCount`, including
    ///   this one.
    func operation(_ operation: URLConnectionOperation, willRetry event: RetryEvent, countedRetries: Int)
}

extension TransitionInterceptor {
    package func operation(_ operation: URLConnectionOperation, willRetry event: RetryEvent, countedRetries: Int) {}
}

extension URLConnectionOperation {
    /// Sets the interceptor of lifecycle changes. Call this before other code can access the operation. Copies have no
    /// interceptor.
    package final func setSupervisor(_ supervisor: any TransitionInterceptor) {
        setHandler(\.supervisor, supervisor)
        declare(.supervisor)
    }

    /// The interceptor of lifecycle changes; usually nil, and nil after the handlers have run.
    final var supervisor: (any TransitionInterceptor)? {
        has(.supervisor) ? handler(\.supervisor) : nil
    }
}
