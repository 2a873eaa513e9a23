import ConvoyTransport
import Foundation
import FoundationNetworking

extension URLConnectionOperation {
    /// A closure that returns the trace context for the requests of an attempt, or nil for no trace context. An error
    /// that it throws becomes the operation's error.
    public typealias TraceContextProvider =
        @Sendable (_ operation: URLConnectionOperation) throws -> TraceContext?

    /// The provider of trace contexts, called when each attempt begins, on an internal thread, which it may block.
    /// Begin a tracer span in the provider, and end it in an ``EventMonitor`` at `attemptEnded`. All requests of the
    /// attempt, including redirects, carry the `traceparent` and `tracestate` of the context, unless the operation's
    /// request sets them. By default, this is the manager's provider, or nil.
    ///
    /// Operations with a provider do not share transfers.
    public final var traceContextProvider: TraceContextProvider? {
        get { handler(\.traceContext) }
        set {
            if newValue != nil { reportLateChange(of: "traceContextProvider") }
            setHandler(\.traceContext, newValue)
        }
    }

    /// The trace context of the latest attempt, if any.
    public final var traceContext: TraceContext? { extra(\.traceContext) }
}

extension TransferRequest {
    /// Returns the request with the fields of a trace context, unless it sets them itself.
    func traced(by context: TraceContext) -> TransferRequest {
        var traced = urlRequest
        if traced.value(forHTTPHeaderField: "traceparent") == nil {
            traced.setValue(context.traceparent, forHTTPHeaderField: "traceparent")
            traced.setValue(context.state, forHTTPHeaderField: "tracestate")
        }
        return TransferRequest(traced)
    }
}
