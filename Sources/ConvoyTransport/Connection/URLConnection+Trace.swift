import ConvoySupport
import Foundation
import FoundationNetworking

/// The trace of a transfer, which all its requests share.
extension URLConnection {
    /// What records the next request; nil without a trace.
    func makeTraceRecorder() -> TraceRecorder? {
        guard let trace = configuration.trace else { return nil }
        if traceNumber == 0 { traceNumber = trace.nextTransfer() }
        return TraceRecorder(trace, transfer: traceNumber, secrets: configuration.secrets)
    }

    func traceRedirect(_ event: RedirectEvent) { handle?.trace?.note("redirect: \(event)") }

    func traceFailure(_ error: URLError) { handle?.trace?.note("failed: \(error)") }
}
