import ConvoyOperations
import Foundation

extension Workflow {
    /// Notes about parts of a manifest that probably do not have the intended effect, with the line numbers of the
    /// requests.
    package var notes: [String] {
        plan.requests.flatMap { request in request.notes.map { "\(request.manifest):\(request.line): \(request.id): \($0)" }
        }
    }
}

extension RequestPlan {
    fileprivate var notes: [String] {
        var notes: [String] = []
        if hasOwnRetry, let retry, retry.count > 0, !RetryPolicy().idempotentMethods.contains(method) {
            notes.append("retry repeats a \(method) only if nothing of it was sent, because it may have had an effect")
        }
        return notes
    }
}
