import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

extension URLConnectionOperation {
    /// Says under which context the requests of an attempt go out; nil sends none. An error that it throws becomes the
    /// operation's.
    public typealias TraceContextProvider =
        @Sendable (_ operation: URLConnectionOperation) throws -> TraceContext?

    /// Called as each attempt begins, on one of the library's threads, which it may block: the place to begin a span of a
    /// tracer's, which an ``EventMonitor`` ends at `attemptEnded`. The requests have its `traceparent` and `tracestate`,
    /// unless the operation's request has set them; those of redirects as well. That of the manager, and nil by default.
    ///
    /// Operations that have one share no transfers.
    public final var traceContextProvider: TraceContextProvider? {
        get { core.withLock { $0.rareHandlers?.traceContext } }
        set { setHandler(\.traceContext, newValue) }
    }

    /// The context under which the latest attempt goes out; nil for none.
    public final var traceContext: TraceContext? { core.withLock { $0.traceContext } }
}
